# SPDX-License-Identifier: Apache-2.0
"""Requests of users that a failed host leaves, and that the engine has Nova fulfill elsewhere.

The record of the recovery has such a request before the engine changes anything in Nova that shows
it: another engine may have to continue. A stop is one, since the server is made active for its
evacuation, and a deletion is one, since Nova forgets with the server which volumes were to be
deleted together with it.

Nova's API takes a deletion for a host that it does not know to be down yet, and leaves it in the
queue of the host: the server stays ``deleting``. Requested again when the host is down for Nova,
the deletion is carried out by Nova's API itself, from the database
(``nova.compute.api.API._delete``). It asks Cinder once to delete the volumes, and ignores a
refusal, such as that of a volume that is not merged yet; so does a host that is back, and deletes
the server while a backup of it runs. The engine deletes these volumes after the merge.
"""

from collections.abc import Iterable
from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import tenant
from specreds_nova.engine.recovery import timeline

LOG = logging.getLogger(__name__)

# Seconds between two requests to delete volumes, and seconds after which Cinder is left alone.
_PAUSE = 3.0
_PATIENCE = 300.0
_REQUEST, _VOLUMES = 'request', 'volumes'
_STOP, _STOPPED, _DELETE = 'stop', 'stopped', 'delete'


def note_stop(run: runs.Run, server: model.Server) -> None:
    """Record that a user wants a server stopped, before a reset makes it active."""
    if _stops(run) or not (server.task == tenant.STOPPING or (
            server.task and server.status == tenant.STOPPED)):
        return
    if not run.insist(run.context.compute.stopped_by_itself, server.id):
        _record(run, _STOP)


def stop(run: runs.Run, server: model.Server, detail: dict[str, Any]) -> None:
    """Stop an evacuated server if a user has asked for that before its evacuation.

    A user may start it afterwards: it is stopped once.
    """
    if not _stops(run):
        return
    if server.status == 'ACTIVE':
        try:
            run.insist(run.context.compute.stop, server.id)
        except exception.Refused as exc:
            detail['refused'] = str(exc)
    _record(run, _STOPPED)


def _stops(run: runs.Run) -> bool:
    """Return whether a user wants the server stopped, and the engine has not done that."""
    return [request for request in (step.detail[_REQUEST] for step in _recorded(run))
            if request != _DELETE][-1:] == [_STOP]


def note_deletion(run: runs.Run, server: model.Server, source: str) -> None:
    """Record which volumes are to be deleted with a server whose deletion is left to a host.

    None are if the server is not, or not any more, to be deleted.

    :param server: the server as it was just read
    :param source: the host, which has failed
    """
    volumes = server.deleted_with if server.deleting and server.host == source else ()
    if _volumes(run) != set(volumes):
        _record(run, _DELETE, **{_VOLUMES: list(volumes)})


def delete_volumes(run: runs.Run) -> None:
    """Delete the volumes that Nova was to delete together with the server, and has left.

    No volume is deleted unless the server was last seen to be deleted on its failed host, and is
    gone. Its users may change what is deleted with a server that they have not deleted yet.
    """
    left = _volumes(run)
    if not left or run.insist(run.context.compute.server, run.recovery.server) is not None:
        return
    until = run.now + _PATIENCE
    while left := {volume for volume in left if not run.insist(_gone, run, volume)}:
        if run.now >= until:
            LOG.warning('recovery %s: volumes %s of the deleted server are left: delete them',
                        run.id, ', '.join(sorted(left)))
            return
        run.pause(_PAUSE)


def _gone(run: runs.Run, volume: str) -> bool:
    """Request the deletion of a volume, and return whether it is gone."""
    try:
        return run.context.volumes.delete(volume)
    except exception.Refused as exc:
        LOG.info('recovery %s: %s', run.id, exc)
        return False


def _volumes(run: runs.Run) -> set[str]:
    """Return the volumes that are recorded with the last deletion."""
    return next((set(step.detail[_VOLUMES]) for step in reversed(list(_recorded(run)))
                 if step.detail[_REQUEST] == _DELETE), set())


def _recorded(run: runs.Run) -> Iterable[model.Step]:
    return (step for step in run.recovery.steps
            if step.name == timeline.PENDING and _REQUEST in step.detail)


def _record(run: runs.Run, request: str, **detail: object) -> None:
    with run.step(timeline.PENDING, reads=True) as recorded:
        recorded.update({_REQUEST: request, **detail})
    run.flush()
