# SPDX-License-Identifier: Apache-2.0
"""What comes after the decision: the backup is let out, and Nova learns where the server is."""

from typing import Any

from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import moving
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import starting
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

_PAUSE = 0.2
_WAY = 0.5
_ASK_AGAIN = 2.0
_LASTING = (backup_errors.BackupLost, backup_errors.RecoveryNotFound,
            backup_errors.RecoveryConflict)


def promote(run: runs.Run, decided: verdicts.Verdict) -> verdicts.Verdict:
    """Let the backup out."""
    if decided.kind != verdicts.PROMOTED or run.recovery.destination is None:
        return decided
    with run.step('promote') as detail:
        host = run.recovery.destination
        silence = runs.Silence(run, host)
        while True:
            failure = _let_out(run, host, detail)
            if failure is None:
                run.world.observer.recovery('promote', run.recovery)
                break
            detail['failure'] = failure
            # It may still run there, and be let out later.
            if run.recovery.destination is None or silence.lasts():
                break
            run.pause(_PAUSE)
    return decided


def _let_out(run: runs.Run, host: str, detail: dict[str, Any]) -> str | None:
    """Ask once; why it is not out, if it is not. If it never will be it is forgotten."""
    try:
        status = run.world.backups.promote(host, starting.backup_id(run))
        took = status.get('timings_ms', {})
        if 'box_open' in took and 'box_settled' in took:
            # Users reach the guest from there on; Neutron is told, and DHCP stopped, after it.
            detail['after_opening_s'] = (took['box_settled'] - took['box_open']) / 1e3
        return None
    except _LASTING as exc:
        # What it had written is not lost: whoever runs the server now goes on from there.
        run.change(destination=None)
        failure = str(exc.format_message())
    except backup_errors.BackupError as exc:
        failure = str(exc.format_message())
    except exception.Unreachable as exc:
        failure = str(exc)
    LOG.warning('recovery %s: %s', run.id, failure)
    return failure


def adopt(run: runs.Run, promoted: verdicts.Verdict) -> verdicts.Verdict:
    """Have Nova adopt the backup, or start the server again if there is none."""
    if promoted.kind not in (verdicts.PROMOTED, verdicts.LATE):
        return promoted
    if run.recovery.state == model.MERGING:
        return verdicts.Verdict(verdicts.ADOPTED)
    with run.step('adopt') as detail:
        if promoted.kind == verdicts.LATE and run.world.suspects.beats(run.recovery.host):
            found = _reboot(run, detail)
        else:
            if promoted.kind == verdicts.PROMOTED and run.recovery.destination is not None:
                _give_way(run)
            found = moving.move(run, run.recovery.host, detail,
                                lambda host: _let_out(run, host, {}) is None)
    if found is not None:
        return found
    run.change(state=model.MERGING)
    return verdicts.Verdict(verdicts.ADOPTED)


def _give_way(run: runs.Run) -> None:
    """Let those servers of the host go first that do not serve yet.

    This one does, so Nova need not know at once; and what Nova does for it is work for many
    services, for which those others would wait.
    """
    until = run.now + run.options.adopt_patience
    while run.now < until:
        others = run.insist(run.world.store.active, run.recovery.host)
        if not any(one.state == model.RACING and one.id != run.id for one in others):
            return
        run.pause(_WAY)


def _reboot(run: runs.Run, detail: dict[str, Any]) -> verdicts.Verdict | None:
    """Start it again on its own host, which is well: only its disks were taken from it."""
    compute = run.world.compute
    until = run.now + run.options.adopt_timeout
    asked = False
    while run.now < until:
        server = run.insist(compute.server, run.recovery.server)
        if server is None or (asked and server.task is None and server.status == 'ACTIVE'):
            return None
        # An engine that died may have had it moved, before its host was heard again.
        moved = server.host != run.recovery.host
        if moved or not run.world.suspects.beats(run.recovery.host):
            return moving.move(run, run.recovery.host, detail)
        if server.task is None:
            try:
                compute.reboot(server.id)
                asked = True
            except (exception.Refused, exception.Unreachable) as exc:
                detail['refused'] = str(exc)
        run.pause(_ASK_AGAIN)
    return verdicts.Verdict(verdicts.FAILED, 'Nova has not rebooted it after it was fenced')
