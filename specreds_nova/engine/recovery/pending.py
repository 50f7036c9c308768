# SPDX-License-Identifier: Apache-2.0
"""States of servers that an evacuation does not keep, and that the engine restores after it.

A user may have had a server of a failed host stopped or paused, or may have asked that host for a
stop. Nova evacuates only servers that are active, stopped or in error, and only active ones
without a task from the host. So the server is made active for its evacuation. The record of the
recovery has what is due afterwards before that: another engine may have to continue.
"""

from typing import Any

from specreds_nova import tasks
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant

_REQUEST = 'request'
# By what is due, what is recorded when the engine has asked for it.
_DONE = {left.STOP: 'stopped', left.PAUSE: 'paused'}


def note(run: runs.Run, server: model.Server) -> None:
    """Record what is due after an evacuation, before a reset makes the server active."""
    due = of(run.recovery)
    wanted = left.kept(server)
    if wanted is None and due != left.STOP and _is_stopping(server):
        # What was at rest when its host died is at rest again, whoever has stopped it.
        by_itself = not left.is_as_left(run.recovery, server) and run.insist(
            run.context.compute.stopped_by_itself, server.id)
        wanted = None if by_itself else left.STOP
    if wanted not in (None, due):
        _record(run, wanted)


def fulfill(run: runs.Run, server: model.Server, detail: dict[str, Any]) -> None:
    """Stop or pause an evacuated server if that is due.

    A user may start it afterwards: it is stopped once.
    """
    due = of(run.recovery)
    if due is None:
        return
    if server.status == 'ACTIVE':
        compute = run.context.compute
        try:
            run.insist(compute.stop if due == left.STOP else compute.pause, server.id)
        except exception.Refused as exc:
            detail['refused'] = str(exc)
    _record(run, _DONE[due])


def settle(run: runs.Run, active: str | None) -> bool:
    """Stop a server that was at rest, and stays on its host, which is back; return if it was.

    What was paused has lost its memory, so that Nova stops it there as well. A restart of the
    engine repeats a stop, which changes nothing.

    :param active: the server, if a reset has made it active
    :raises exception.Refused: Nova refuses
    """
    due = of(run.recovery)
    if due is None:
        return False
    if active is not None:
        run.insist(run.context.compute.stop, active)
    _record(run, _DONE[left.STOP])
    return True


def _is_stopping(server: model.Server) -> bool:
    """Return whether the request that Nova is to drop stops a server, or is of a stopped one."""
    return server.task == tasks.STOPPING or (
        server.task is not None and server.status == tenant.STOPPED)


def of(recovery: model.Recovery) -> str | None:
    """Return what a recovery has still to do after its evacuation; None for nothing."""
    recorded = [str(step.detail[_REQUEST]) for step in recovery.steps
                if step.name == runs.PENDING and _REQUEST in step.detail]
    if recorded:
        return recorded[-1] if recorded[-1] in _DONE else None
    fact = left.of(recovery)
    return None if fact is None else fact.get('rest')


def _record(run: runs.Run, request: str | None) -> None:
    with run.step(runs.PENDING, reads=True) as recorded:
        recorded[_REQUEST] = request
    run.flush()
