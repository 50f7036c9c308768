# SPDX-License-Identifier: Apache-2.0
"""Step ``promote``: the backup's host opens its box."""

from typing import Any

from oslo_log import log as logging

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import unanswered
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

_PAUSE = 0.2
_LASTING = (backup_errors.BackupLost, backup_errors.BackupNotFound,
            backup_errors.BackupConflict)


def promote(run: runs.Run, decided: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Have the backup's host open its box, so that users reach the server."""
    if decided.kind != verdicts.PROMOTED or run.recovery.destination is None:
        return decided
    with run.step(timeline.PROMOTE) as detail:
        host = run.recovery.destination
        unanswered_since = unanswered.UnansweredSince(run, host)
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
            run.pause(_PAUSE)
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
