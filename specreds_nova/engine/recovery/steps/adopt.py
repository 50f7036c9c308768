# SPDX-License-Identifier: Apache-2.0
"""What comes after the decision: the backup is let out, and Nova learns where the server is."""

from typing import Any

from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import promote

LOG = logging.getLogger(__name__)

_PAUSE = 0.2
_WAY = 0.5
_ASK_AGAIN = 2.0
_LASTING = (backup_errors.BackupLost, backup_errors.RecoveryNotFound,
            backup_errors.RecoveryConflict)


def adopt(run: runs.Run, promoted: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Have Nova adopt the backup, or start the server again if there is none."""
    if promoted.kind not in (verdicts.PROMOTED, verdicts.LATE):
        return promoted
    if run.recovery.state == model.MERGING:
        return verdicts.StepVerdict(verdicts.ADOPTED)
    with run.step(timeline.ADOPT) as detail:
        if promoted.kind == verdicts.LATE and run.context.suspects.is_well(run.recovery.host):
            found = _reboot(run, detail)
        else:
            if promoted.kind == verdicts.PROMOTED and run.recovery.destination is not None:
                _give_way(run)
            found = evacuation.evacuate(run, run.recovery.host, detail,
                                lambda host: promote.let_out(run, host, {}) is None)
    if found is not None:
        return found
    run.change(state=model.MERGING)
    return verdicts.StepVerdict(verdicts.ADOPTED)


def _give_way(run: runs.Run) -> None:
    """Let those servers of the host go first that do not serve yet.

    This one does, so Nova need not know at once; and what Nova does for it is work for many
    services, for which those others would wait.
    """
    until = run.now + run.options.adopt_patience
    while run.now < until:
        others = run.insist(run.context.store.active, run.recovery.host)
        if not any(one.state == model.RACING and one.id != run.id for one in others):
            return
        run.pause(_WAY)


def _reboot(run: runs.Run, detail: dict[str, Any]) -> verdicts.StepVerdict | None:
    """Start it again on its own host, which is well: only its disks were taken from it."""
    compute = run.context.compute
    until = run.now + run.options.adopt_timeout
    asked = False
    while run.now < until:
        server = run.insist(compute.server, run.recovery.server)
        if server is None or (asked and server.task is None and server.status == 'ACTIVE'):
            return None
        # An engine that died may have had it moved, before its host was heard again.
        moved = server.host != run.recovery.host
        if moved or not run.context.suspects.is_well(run.recovery.host):
            return evacuation.evacuate(run, run.recovery.host, detail)
        if server.task is None:
            try:
                compute.reboot(server.id)
                asked = True
            except (exception.Refused, exception.Unreachable) as exc:
                detail['refused'] = str(exc)
        run.pause(_ASK_AGAIN)
    return verdicts.StepVerdict(verdicts.FAILED, 'Nova has not rebooted it after it was fenced')
