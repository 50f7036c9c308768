# SPDX-License-Identifier: Apache-2.0
"""Step ``merge``: the recovery waits until Cinder has merged the server's disks.

The server's new host may fail before that. As soon as the host has no disk open, Cinder fences its
clients and merges. A host that is only silent may end its own merge at any time, so Nova must not
be asked to start the server elsewhere before. After the merge the server is as any other one of
that host, and the host's recovery of it begins. A server that may have no recovery, as one that
its user has stopped meanwhile, is shut out and evacuated by this one.
"""

from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import cleaning
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.suspicion import conf as detection_conf

LOG = logging.getLogger(__name__)

_PAUSE = 3.0


def merge(run: runs.Run, adopted: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Wait for the end of the merge, and evacuate a server that is left on a failed host."""
    run.free()
    superposition = run.recovery.superposition
    if adopted.kind != verdicts.ADOPTED or superposition is None:
        return adopted
    with run.step(runs.MERGE) as detail, run.context.crowds.waiting('merge') as interval:
        while _is_merging(run, superposition, detail):
            run.pause(interval(_PAUSE, run.context.capacity.count()))
        while (server := _left_behind(run)) is not None:
            if failure := _move(run, server, detail):
                return failure
            run.pause(interval(_PAUSE, run.context.capacity.count()))
    return adopted


def _is_merging(run: runs.Run, superposition: str, detail: dict[str, Any]) -> bool:
    """Return whether the superposition exists, and note what was written."""
    try:
        written = run.insist(run.context.volumes.written, superposition)
    except exception.NotFound:
        return False
    if written is not None and written > detail.get('bytes', -1):
        detail['bytes'] = written
        run.change(bytes=written)
    return True


def _left_behind(run: runs.Run) -> model.Server | None:
    """Return the server if it is left on a failed host that begins no recovery of it."""
    host = run.recovery.destination
    if (host is None or not run.context.suspects.suspected(host)
            or not cleaning.failed(run, host)):
        return None
    server = run.insist(run.context.compute.server, run.recovery.server)
    if server is None or server.host != host:
        return None
    refused = detection_conf.server_gates(run.context.options).reasons(server)
    return server if refused else None


def _move(run: runs.Run, server: model.Server, detail: dict[str, Any]
          ) -> verdicts.StepVerdict | None:
    """Shut a host out of its server's disks and evacuate the server, once that is due.

    :returns: a failure that lasts
    """
    if not _is_due(run, server.host):
        return None
    try:
        run.context.volumes.fence(server, server.host, run.id)
    except exception.Refused as exc:
        return verdicts.failed(
            f'{server.host} has failed, too, and cannot be fenced: {exc}',
            f'once {server.host} is off: openstack server evacuate {server.id}')
    except exception.Unreachable as exc:
        detail['waited'] = str(exc)
        return None
    LOG.warning('recovery %s: %s, the new host of the server, has failed, too: it is evacuated '
                'again', run.id, server.host)
    evacuated: dict[str, Any] = {}
    failure = evacuation.evacuate(run, server.host, evacuated)
    detail['again'] = failure.why if failure else evacuated
    return None


def _is_due(run: runs.Run, host: str) -> bool:
    """Return whether a host has been silent for so long that it may be shut out."""
    recorded = run.insist(run.context.store.host, host)
    return (run.suspected_for(recorded) >= run.options.evacuate_after
            and bool(run.context.suspects.healthy())
            and not run.context.leases.left(recorded, run.now, run.settings))
