# SPDX-License-Identifier: Apache-2.0
"""What a worker does when it is asked to: the protocol, in terms of plain values."""

import builtins
from collections.abc import Callable, Mapping, Sequence
import contextlib
import dataclasses
import datetime
import logging
import queue
import threading
from typing import Any

from oslo_context import context

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import address
from specreds_cinder.superposition import overlay
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import states
from specreds_cinder.superposition import volume as volumes

LOG = logging.getLogger(__name__)

Answer = tuple[str, Any]
OK = 'ok'
ERROR = 'error'

# Labels that this module keeps in a record, beside its caller's.
_DURABLE = 'durable'
_HANDED_AT = 'handed_at'


class DurableBackup(sp.Durability):
    """A backup of which the caller says that its disks are durable already."""

    def make_durable(self, record: records.Record) -> None:
        """Nothing is left to do."""


class Operations:
    """The superpositions of one pool. Safe to share between threads.

    :param home: the pool of the back end
    :param watching: sweep in the background as long as something is superposed
    """

    def __init__(self, protocol: sp.Protocol, home: sp.Home, *, watching: bool) -> None:
        self._protocol = protocol
        self._home = home
        self._watching = watching
        self._watches: dict[str, contextlib.ExitStack] = {}
        self._dirty: dict[str, str] = {}
        self._news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._lock = threading.Lock()

    def call(self, method: str, arguments: Mapping[str, Any],
             requester: Mapping[str, Any]) -> Answer:
        """Do one thing; what goes wrong is an answer, too.

        :param method: name of a public method of this class
        :param requester: request id, user and project, for the log
        """
        context.RequestContext(overwrite=True, **requester)
        try:
            return OK, getattr(self, method)(**arguments)
        except sp.SuperError as exc:
            return ERROR, {'type': type(exc).__name__, 'message': str(exc),
                           'state': getattr(exc, 'state', None),
                           'reasons': list(getattr(exc, 'reasons', ()))}
        except Exception as exc:
            LOG.exception('%s failed', method)
            return ERROR, {'type': type(exc).__name__, 'state': None, 'reasons': [], 'message':
                           f'{method} failed in the superposition worker ({exc!r}); the log of '
                           f'the volume service says where'}

    # Reading

    def ping(self) -> None:
        """Make sure that the pool can be reached.

        :raises ClusterError: it cannot
        """
        self._protocol.list(self._home)

    def show(self, superposition: str) -> dict[str, Any]:
        """Describe a superposition, overlay sizes included.

        :raises NotSuperposed: there is none by that id
        """
        record = self._get(superposition)
        sizes = [self._protocol.overlay_bytes(dataclasses.replace(record, volumes=(volume,)))
                 for volume in record.volumes]
        return self._view(record, sizes)

    def list(self) -> builtins.list[dict[str, Any]]:
        """Describe every superposition of the pool, without the sizes of overlays."""
        watched = set(self._watches)
        found = self._protocol.list(self._home)
        # Another service of a cluster may have ended what is watched here.
        for ended in watched - {record.id for record in found}:
            self._unwatch(ended)
        return [self._view(record) for record in found]

    def find(self, image: str) -> dict[str, Any] | None:
        """Describe the superposition that an image is in, None if it is in none."""
        try:
            return self._view(self._protocol.find(self._ref(image)))
        except sp.NotSuperposed:
            return None

    def image_id(self, image: str) -> str | None:
        """Return the id of an image; None if it does not exist."""
        with contextlib.suppress(sp.VolumeGone), \
                volumes.opened(self._protocol.cluster, self._ref(image)) as opened:
            return str(opened.id())
        return None

    def remove_ledger(self, image_id: str) -> None:
        """Remove the ledger of an image that is deleted."""
        self._protocol.ledger.remove(self._home, image_id)

    def provisioned(self) -> int:
        """Tell how large all overlays of the pool are if one believes their images: bytes."""
        return sum(overlay.presized(volume.size) for record in self._protocol.list(self._home)
                   for volume in record.volumes)

    def monitors(self) -> builtins.list[tuple[str, str]]:
        """List the addresses and ports of the cluster's monitors."""
        found = self._protocol.cluster.mon({'prefix': 'mon dump'})
        return [address.endpoint(monitor['addr']) for monitor in found['mons']]

    def eligibility(self, images: builtins.list[str]) -> builtins.list[builtins.list[str]]:
        """Say for each image why it cannot be superposed; nothing if it can."""
        pools = self._protocol.cluster.pools()
        return [self._reasons(image, pools) for image in images]

    def _reasons(self, image: str, pools: Mapping[int, Any]) -> builtins.list[str]:
        try:
            held = self.find(image)
            if held is not None:
                return [f'it is in superposition {held["id"]} already']
            return volumes.inspect(self._protocol.cluster, self._ref(image)).reasons(pools)
        except sp.NotEligible as exc:
            return list(exc.reasons)
        except sp.VolumeGone as exc:
            return [str(exc)]

    # Deciding

    def super(self, superposition: str, images: builtins.list[str], reason: str,
              server: str | None, joint: bool, labels: Mapping[str, Any]) -> dict[str, Any]:
        """Put images into superposition. Raises as :meth:`Protocol.super` does."""
        record = self._protocol.super(
            [self._ref(image) for image in images], reason, server,
            superposition=superposition, joint=joint, labels=labels)
        self._watch(record)
        return self._view(record)

    def check(self, superposition: str) -> dict[str, Any]:
        """Sweep. Raises as :meth:`Protocol.check` does."""
        return dataclasses.asdict(self._protocol.check(self._get(superposition)))

    def collapse(self, superposition: str, durable: bool) -> dict[str, Any]:
        """Decide, or go on with a decision that was cut off."""
        def decide(record: sp.Record, backup: sp.Durability | None) -> sp.CollapseReport:
            if record.state != states.COLLAPSING:
                return self._protocol.collapse(record, backup=backup)
            outcome = self._protocol.resume(record, backup)
            return sp.CollapseReport(outcome, sp.SweepReport(False, None, 0, 0.0))
        return self._decide(superposition, durable, decide)

    def prepare(self, superposition: str, durable: bool) -> dict[str, Any]:
        """Do all of a collapse but decide."""
        return self._decide(superposition, durable, self._protocol.prepare)

    def commit(self, superposition: str) -> None:
        """Decide for the backup, as others have."""
        self._protocol.commit(self._get(superposition))

    def drop(self, superposition: str, fenced: bool = False) -> None:
        """Decide for the primary. A superposition that is gone already is no error.

        :param fenced: others that are decided with it are late dirty, so this one is, too
        """
        with contextlib.suppress(sp.NotSuperposed):
            record = self._get(superposition)
            self._unwatch(superposition)
            if fenced and record.prepared:
                self._protocol.give_up(record)
            else:
                self._protocol.abort(record)

    def _decide(self, superposition: str, durable: bool,
                decide: Callable[[sp.Record, sp.Durability | None], sp.CollapseReport]
                ) -> dict[str, Any]:
        record = self._get(superposition)
        durable = durable or bool(record.labels.get(_DURABLE))
        if durable and not record.labels.get(_DURABLE):
            # Whoever goes on after a crash cannot ask the caller.
            record = self._protocol.label(record, **{_DURABLE: True})
        self._unwatch(superposition)
        try:
            return dataclasses.asdict(decide(record, DurableBackup() if durable else None))
        finally:
            with contextlib.suppress(sp.SuperError):
                self._watch(self._get(superposition))

    # Afterwards

    def begin_merge(self, superposition: str) -> None:
        """Note that a hypervisor merges."""
        self._protocol.begin_merge(self._get(superposition))

    def end_merge(self, superposition: str) -> None:
        """Note that overlay and volume are equal while the guest stands still."""
        self._protocol.end_merge(self._get(superposition))

    def unused(self, superposition: str) -> None:
        """:raises OverlayBusy: somebody has an overlay open"""
        self._protocol.unused(self._get(superposition))

    def merge(self, superposition: str) -> None:
        """Write the overlays down if nobody uses them, and end the superposition."""
        self._protocol.merge(self._get(superposition))

    def hand_out(self, superposition: str) -> dict[str, Any]:
        """Note that somebody is about to open a promoted superposition's overlays."""
        record = self._get(superposition)
        # Whoever had them open until now may only hang.
        with contextlib.suppress(sp.RecordChanged):
            self._protocol.observe(record)
        record = self._protocol.label(record, **{_HANDED_AT: records.now()})
        return self._view(record)

    def resume(self, superposition: str) -> str:
        """Go on with what was cut off, and renew the fence; see :meth:`Protocol.resume`."""
        record = self._get(superposition)
        backup = DurableBackup() if record.labels.get(_DURABLE) else None
        return self._protocol.resume(record, backup)

    def look_after(self, superposition: str) -> None:
        """Renew the fence of what is decided; watch what is superposed."""
        record = self._get(superposition)
        self._protocol.renew(record)
        if record.state in states.DECIDED:
            self._unwatch(superposition)
        self._watch(record)

    def tidy(self) -> None:
        """Remove what is left in the index of superpositions that never came to be."""
        self._protocol.tidy(self._home)

    # Watching

    def next_dirty(self, timeout: float) -> tuple[str, str] | None:
        """Wait for a superposition to become dirty.

        :param timeout: seconds
        :returns: its id, and which object was written, or why else
        """
        try:
            superposition = self._news.get(timeout=timeout)
        except queue.Empty:
            return None
        return superposition, self._dirty.get(superposition, '')

    def _watch(self, record: sp.Record) -> None:
        if not self._watching or record.state != states.SUPERPOSED:
            return

        def tell(report: sp.SweepReport) -> None:
            self._dirty[record.id] = report.first or ''
            self._news.put(record.id)
        with self._lock:
            if record.id in self._watches or record.id in self._dirty:
                return
            stack = contextlib.ExitStack()
            stack.enter_context(self._protocol.watch(record, tell))
            self._watches[record.id] = stack

    def _unwatch(self, superposition: str) -> None:
        with self._lock:
            watch = self._watches.pop(superposition, None)
        if watch is not None:
            watch.close()
        # Only now, as it could tell until here.
        self._dirty.pop(superposition, None)

    def _get(self, superposition: str) -> sp.Record:
        try:
            return self._protocol.show(superposition, self._home)
        except sp.NotSuperposed:
            self._unwatch(superposition)
            raise

    def _ref(self, image: str) -> sp.VolumeRef:
        return sp.VolumeRef(self._home.pool, self._home.namespace, image)

    def _view(self, record: sp.Record,
              sizes: builtins.list[int] | None = None) -> dict[str, Any]:
        watched = record.id in self._watches and record.state not in states.DECIDED
        dirty = self._dirty.get(record.id) if watched else None
        known: Sequence[int | None] = sizes or [None] * len(record.volumes)
        return {
            'id': record.id, 'state': record.state, 'outcome': record.outcome,
            'created_at': record.created_at, 'changed_at': record.changed_at,
            'age_s': _since(record.created_at),
            'unchanged_s': _since(record.labels.get(_HANDED_AT, record.changed_at)),
            'reason': record.reason, 'server_id': record.server, 'joint': record.joint,
            'labels': record.labels, 'fenced': len(record.fenced),
            'dirty': dirty is not None if watched else None,
            'dirty_object': dirty,
            'volumes': [{
                'image': volume.image, 'size': volume.size, 'overlay': str(volume.overlay_ref),
                'overlay_bytes': size}
                for volume, size in zip(record.volumes, known, strict=True)],
        }


def _since(moment: str) -> float:
    """Tell how many seconds ago a moment was that a record notes."""
    return (datetime.datetime.now(datetime.UTC)
            - datetime.datetime.fromisoformat(moment)).total_seconds()
