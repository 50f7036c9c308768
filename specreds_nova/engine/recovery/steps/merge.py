# SPDX-License-Identifier: Apache-2.0
"""Step ``merge``: the recovery waits until Cinder has merged the server's disks.

If the server's new host fails before it has begun to merge, the server can have another backup at
once. A server has one recovery at a time, so this one ends, and the janitor begins that of the new
host. If a merge has begun, or the gates of servers refuse another backup, as of one that its user
has stopped meanwhile, this recovery has Nova evacuate the server.
"""

from typing import Any

from oslo_log import log as logging

from specreds_cinder.superposition import states
from specreds_nova.engine import exception
from specreds_nova.engine.detection import conf as detection_conf
from specreds_nova.engine.recovery import cleaning
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

_PAUSE = 3.0


def merge(run: runs.Run, adopted: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Wait until the superposition is gone, or until the new host of the server fails."""
    run.free()
    superposition = run.recovery.superposition
    if adopted.kind != verdicts.ADOPTED or superposition is None:
        return adopted
    with run.step(timeline.MERGE) as detail, run.context.crowds.waiting('merge') as crowd:
        silent_since = None
        while True:
            try:
                written = run.insist(run.context.volumes.written, superposition)
            except exception.NotFound:
                return adopted
            if written is not None and written > detail.get('bytes', -1):
                detail['bytes'] = written
                run.change(bytes=written)
            if _makes_way(run, superposition):
                detail['why'] = f'{run.recovery.destination} has failed before the merge'
                return adopted
            silent_since = _second_failure(run, silent_since, detail)
            run.pause(crowd.interval(_PAUSE, run.context.capacity.count()))


def _makes_way(run: runs.Run, superposition: str) -> bool:
    """Return whether the recovery of the server's new host is to begin, and will."""
    host = run.recovery.destination
    if (host is None or not run.context.suspects.suspected(host)
            or run.insist(run.context.volumes.state, superposition) != states.PROMOTED
            or not cleaning.failed(run, host)):
        return False
    server = run.insist(run.context.compute.server, run.recovery.server)
    if server is None or server.host != host or server.task is not None:
        return False
    return not detection_conf.server_gates(run.context.options).reasons(server)


def _second_failure(run: runs.Run, silent_since: float | None,
                    detail: dict[str, Any]) -> float | None:
    """Evacuate the server once more if its new host has failed, too.

    :returns: the time since which that host is suspected, None if it is not
    """
    host = run.recovery.destination
    if (host is None or not run.context.suspects.suspected(host)
            or not cleaning.failed(run, host)):
        return None
    since = run.now if silent_since is None else silent_since
    if run.now - since < run.options.evacuate_after or not run.context.suspects.healthy():
        return since
    server = run.insist(run.context.compute.server, run.recovery.server)
    if server is not None and server.host == host:
        LOG.warning('recovery %s: %s, the new host of the server, has failed, too: it is '
                    'evacuated again', run.id, host)
        evacuated: dict[str, Any] = {}
        failure = evacuation.evacuate(run, host, evacuated)
        detail['again'] = failure.why if failure else evacuated
    return since
