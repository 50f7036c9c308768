# SPDX-License-Identifier: Apache-2.0
"""The protocol: super, check, collapse, merge, and resume after a crash.

The state of the record says what holds, and every step may be repeated:

========== ==========================================================================
state      what holds
========== ==========================================================================
creating   claims and overlays may or may not exist; no backup has opened any
superposed the cut is taken, the overlays exist; primary and backup may both run
collapsing a decision is under way; the primary may be fenced
promoted   the primary is fenced, the backup's version is the real one (commit point)
merging    some of the overlays' data may be in the volumes; the overlays are read
merged     the volumes hold all data; the overlays are being removed
aborting   the primary's version is the real one; the overlays are being removed
========== ==========================================================================
"""

import contextlib
from typing import TYPE_CHECKING

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import clients as looks
from specreds_cinder.superposition.steps import collapse as deciding
from specreds_cinder.superposition.steps import create
from specreds_cinder.superposition.steps import end
from specreds_cinder.superposition.steps import host_fence
from specreds_cinder.superposition.steps import merge as merging
from specreds_cinder.superposition.steps import release as releasing
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states

if TYPE_CHECKING:
    from specreds_cinder.superposition.overlay import qmp_backup


class Protocol(base.Site):
    """Superpositions on one cluster. Safe to share between threads.

    Each step is a function of its module, and takes the cluster's :class:`base.Site` first.
    """

    super = create.superpose
    objections = create.objections
    observe = looks.observe
    check = deciding.check
    watch = deciding.watch
    collapse = deciding.collapse
    abort = end.abort
    tidy = end.tidy
    unused = merging.unused
    merge = merging.merge
    begin_merge = merging.begin_merge
    end_merge = merging.end_merge
    clients = host_fence.clients
    noted = host_fence.noted
    note = host_fence.note
    shut_out = host_fence.shut_out
    fenced = releasing.fenced
    release_booted = releasing.release_booted
    release = releasing.release

    def renew(self, record: records.Record) -> list[str]:
        """Replace the entries of a superposition's fence of which half the expiry has passed.

        The clients that have a promoted version open are entered into the ledgers.

        :returns: the addresses that were blocklisted anew
        :raises NotSuperposed: it has ended
        """
        record = self.reload(record)
        if record.state == states.COLLAPSING:
            # Clients that an interrupted collapse has not fenced yet are left to the decision.
            return self.fence.renew(record.fenced, lapsed=False)
        if record.outcome in states.FENCED:
            if record.state in (states.PROMOTED, states.MERGING):
                # A promoted server may have been started again, with new clients.
                with contextlib.suppress(errors.RecordChanged, errors.NotSuperposed):
                    self.observe(record)
            return self.fence.renew(record.fenced)
        return []

    def resume(self, record: records.Record, backup: 'qmp_backup.QmpBackup | None' = None,
               progress: trace.Progress | None = None, *, durable: bool = False) -> str:
        """Continue an interrupted step, from the record alone.

        :param durable: as for :func:`collapse.collapse`
        :returns: state or outcome: superposed, promoted, merged, aborted, dirty, unproven or
            late-dirty
        :raises NotSuperposed: it has ended
        """
        record = self.reload(record)
        step = states.STEPS[record.state][states.RESUME]
        if step == states.DECIDE:
            return deciding.decide(self, record, backup, durable=durable).outcome
        if step in (states.WRITE, states.CLEAN):
            if step == states.WRITE and durable:
                raise errors.BackupError(
                    f'superposition {record.id} is merged by the hypervisor of its server: begin '
                    f'and end the merge there')
            self.merge(record, backup, progress)
            return states.MERGED
        if step == states.DROP:
            end.drop(self, record, states.ABORTED, progress)
            return record.outcome or states.ABORTED
        return record.state
