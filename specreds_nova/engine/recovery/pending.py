# SPDX-License-Identifier: Apache-2.0
"""Stops that users have requested of a failed host, which the engine has Nova fulfill elsewhere.

The server is made active for its evacuation. The record of the recovery has the stop before that:
another engine may have to continue.
"""

from typing import Any

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.recovery import timeline

_REQUEST = 'request'
_STOP, _STOPPED = 'stop', 'stopped'


def note_stop(run: runs.Run, server: model.Server) -> None:
    """Record that a user wants a server stopped, before a reset makes it active."""
    if _stop_is_due(run) or not (server.task == tenant.STOPPING or (
            server.task and server.status == tenant.STOPPED)):
        return
    if not run.insist(run.context.compute.stopped_by_itself, server.id):
        _record(run, _STOP)


def stop_if_requested(run: runs.Run, server: model.Server, detail: dict[str, Any]) -> None:
    """Stop an evacuated server if a user has asked for that before its evacuation.

    A user may start it afterwards: it is stopped once.
    """
    if not _stop_is_due(run):
        return
    if server.status == 'ACTIVE':
        try:
            run.insist(run.context.compute.stop, server.id)
        except exception.Refused as exc:
            detail['refused'] = str(exc)
    _record(run, _STOPPED)


def _stop_is_due(run: runs.Run) -> bool:
    """Return whether a user wants the server stopped, and the engine has not done that."""
    recorded = [step.detail[_REQUEST] for step in run.recovery.steps
                if step.name == timeline.PENDING and _REQUEST in step.detail]
    return recorded[-1:] == [_STOP]


def _record(run: runs.Run, request: str) -> None:
    with run.step(timeline.PENDING, reads=True) as recorded:
        recorded[_REQUEST] = request
    run.flush()
