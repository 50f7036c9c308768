# SPDX-License-Identifier: Apache-2.0
"""Steps ``promote`` and ``adopt``: users reach the backup, and Nova has the server there.

The backup's host opens its box. Then Nova evacuates the server to its backup, or starts it on
another host.
"""

from typing import Any

from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import fibers
from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

_GIVE_WAY = 0.5
_ASK_AGAIN = 2.0
_RETRY = 0.2
_LASTING = (backup_errors.BackupLost, backup_errors.BackupNotFound,
            backup_errors.BackupConflict)


def promote(run: runs.Run, decided: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Have the backup's host open its box, so that users reach the server."""
    if decided.kind != verdicts.PROMOTED or run.recovery.destination is None:
        return decided
    with run.step(runs.PROMOTE) as detail:
        host = run.recovery.destination
        unanswered_since = runs.UnansweredSince(run, host)
        while True:
            failure = let_out(run, host, detail)
            if failure is None:
                run.serves = True
                run.free()
                run.context.observer.recovery('promote', run.recovery)
                break
            detail['failure'] = failure
            # The backup may still run there; Nova's evacuation to that host opens its box, too.
            if run.recovery.destination is None or unanswered_since.lasts():
                break
            run.pause(_RETRY)
    return decided


def let_out(run: runs.Run, host: str, detail: dict[str, Any]) -> str | None:
    """Ask the host once to open the box; return why the box is not open, None if it is.

    If the host can never open it, the record has no destination afterwards.
    """
    try:
        status = run.context.backups.promote(host, run.backup_id)
        took = status.get('timings_ms', {})
        if 'box_open' in took and 'box_settled' in took:
            # Users reach the guest once the box is open; Neutron and DHCP follow.
            detail['after_opening_s'] = (took['box_settled'] - took['box_open']) / 1e3
        return None
    except _LASTING as exc:
        # The backup's data are not lost: the server starts from them on another host.
        run.change(destination=None)
        failure = str(exc.format_message())
    except backup_errors.BackupError as exc:
        failure = str(exc.format_message())
    except exception.Unreachable as exc:
        failure = str(exc)
    LOG.warning('recovery %s: the box of the backup on %s is not open: %s', run.id, host, failure)
    return failure


def adopt(run: runs.Run, promoted: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Have Nova adopt the backup, or start the server again where no backup is left."""
    if promoted.kind not in (verdicts.PROMOTED, verdicts.LATE):
        return promoted
    if run.recovery.state == model.MERGING:
        return verdicts.StepVerdict(verdicts.ADOPTED)
    run.free()
    if run.serves:
        run.context.rank(fibers.LAST)
    with run.step(runs.ADOPT) as detail:
        if promoted.kind == verdicts.LATE and run.context.suspects.is_well(run.recovery.host):
            failure = _reboot(run, detail)
        else:
            if promoted.kind == verdicts.PROMOTED and run.recovery.destination is not None:
                _give_way(run, run.recovery.destination)
            failure = evacuation.evacuate(run, run.recovery.host, detail,
                                lambda host: let_out(run, host, {}) is None)
    if failure is not None:
        return failure
    run.plan(state=model.MERGING)
    return verdicts.StepVerdict(
        verdicts.ADOPTED, 'the server is deleted' if detail.get('deleted') else '')


def _give_way(run: runs.Run, host: str) -> None:
    """Wait while other servers of the failed host race, up to ``adopt_patience``.

    This server serves already, and the other ones would have to wait for the services that take
    part in its evacuation. It does not serve any more if its backup's host fails as well.
    """
    until = run.now + run.settings.adopt_patience
    with run.context.crowds.waiting('give-way') as interval:
        while run.now < until:
            if run.silent(host) or not run.insist(
                    run.context.capacity.races, run.recovery.host):
                return
            run.pause(interval(_GIVE_WAY, run.context.capacity.count()))


def _reboot(run: runs.Run, detail: dict[str, Any]) -> verdicts.StepVerdict | None:
    """Reboot a server whose host is well: the server was fenced, but not promoted elsewhere."""
    compute = run.context.compute
    until = run.now - run.away + run.settings.adopt_timeout
    requested = False
    while run.now - run.away < until:
        server = run.insist(compute.server, run.recovery.server)
        if server is None or (requested and server.task is None and server.status == 'ACTIVE'):
            return None
        # Another engine may have evacuated the server before its host was heard again.
        moved = server.host != run.recovery.host
        if moved or not run.context.suspects.is_well(run.recovery.host):
            return evacuation.evacuate(run, run.recovery.host, detail)
        if server.task is None:
            try:
                compute.reboot(server.id)
                requested = True
            except (exception.Refused, exception.Unreachable) as exc:
                detail['refused'] = str(exc)
        run.pause(_ASK_AGAIN)
    return verdicts.failed('Nova has not rebooted it after it was fenced',
                           f'openstack server reboot --hard {run.recovery.server}')
