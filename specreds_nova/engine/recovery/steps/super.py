# SPDX-License-Identifier: Apache-2.0
"""Step ``super``: Cinder puts the server's volumes into superposition.

The primary may be a backup that an earlier recovery has promoted, and that is not merged yet. Its
version is superposed again, if that backup is what runs on the suspected host: in any other case
the backup may serve elsewhere, and the recovery waits for its merge.
"""

from typing import Any

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import shut_out

# Seconds until Cinder is asked again after it did not answer.
_PAUSE = 0.5
# Refusals after which an earlier version is not superposed again: the first one says that there is
# a version, and one may be due to a change of that version that does not matter any more.
_REFUSALS = 3


def superpose(run: runs.Run) -> verdicts.StepVerdict:
    """Put the server's volumes into superposition, unless they are; its id is the why."""
    if verdict := run.resumed() or run.over():
        return verdict
    if known := run.superposition():
        return verdicts.StepVerdict(verdicts.STARTED, known)
    server = run.server()
    if server is None:
        return verdicts.StepVerdict(verdicts.ABORTED, 'the server is deleted')
    with run.step(timeline.SUPER) as detail:
        again: dict[str, Any] = {}
        refused = 0
        while True:
            try:
                superposition = run.context.volumes.superpose(
                    server, run.id, f'host {run.recovery.host} is suspected', **again)
                break
            except exception.Merging as exc:
                refused += 1
                if refused < _REFUSALS and _runs_there(run, server, exc.promoted_by):
                    again = {'again': True}
                    detail['predecessor'] = exc.promoted_by
                    continue
                detail['refused'] = str(exc)
                detail.update(_successor(run, exc.promoted_by))
                return verdicts.StepVerdict(verdicts.MERGING, str(exc))
            except exception.Refused as exc:
                detail['refused'] = str(exc)
                shut_out.observe(run)
                return verdicts.StepVerdict(verdicts.EVACUATE, str(exc))
            except exception.Unreachable as exc:
                detail['waited'] = str(exc)
                # A superposition that exists nevertheless is dropped by the decision.
                if verdict := run.over():
                    return verdict
            run.pause(_PAUSE)
        detail.update(superposition=superposition, volumes=list(server.volumes),
                      macs=list(server.macs))
    if run.choosing:
        # The begin of the next step may be far, and an engine that takes over has to drop it.
        run.flush()
    return verdicts.StepVerdict(verdicts.STARTED, superposition)


def _runs_there(run: runs.Run, server: model.Server, earlier: str | None) -> bool:
    """Return whether the suspected host is that of the backup of an earlier recovery.

    :param earlier: the recovery that has promoted a backup whose merge has not begun
    """
    if server.host != run.recovery.host:
        return False
    before = _promoting(run, earlier)
    return (before is not None and before.outcome == model.RECOVERED
            and before.destination == run.recovery.host)


def _promoting(run: runs.Run, earlier: str | None) -> model.Recovery | None:
    """Return the earlier recovery of the server that has promoted its backup, or None."""
    before = None if earlier is None else run.insist(run.context.store.get, earlier)
    return None if before is None or before.server != run.recovery.server else before


def _successor(run: runs.Run, earlier: str | None) -> dict[str, Any]:
    """Return what this recovery takes over of an earlier one whose backup may serve elsewhere.

    :param earlier: the recovery that has promoted a backup whose merge has not begun
    """
    before = _promoting(run, earlier)
    if (before is None or before.superposition is None
            or before.destination in (None, run.recovery.host)):
        return {}
    return {'predecessor': before.id, 'backup_id': runs.backup_id(before),
            'backup_host': before.destination, 'promoted': before.superposition}
