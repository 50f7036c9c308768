# SPDX-License-Identifier: Apache-2.0
"""Step ``merge``: the recovery waits until Cinder has merged the server's disks."""

from typing import Any

from oslo_log import log as logging

from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

_PAUSE = 3.0


def merge(run: runs.Run, adopted: verdicts.StepVerdict) -> verdicts.StepVerdict:
    """Wait until nothing of the recovery is left but the server."""
    run.context.destinations.leave(run.id)
    run.context.observer.serves(run.id)
    superposition = run.recovery.superposition
    if adopted.kind != verdicts.ADOPTED or superposition is None:
        return adopted
    with run.step(timeline.MERGE) as detail:
        silent = None
        while True:
            written = run.insist(run.context.volumes.written, superposition)
            if written is None and run.insist(run.context.volumes.state, superposition) is None:
                return adopted
            if written is not None and written > detail.get('bytes', -1):
                detail['bytes'] = written
                run.change(bytes=written)
            silent = _second_failure(run, silent, detail)
            run.pause(_PAUSE)


def _second_failure(run: runs.Run, silent: float | None, detail: dict[str, Any]) -> float | None:
    """Evacuate the server once more if its new host has failed, too; gives since when."""
    host = run.recovery.destination
    if host is None or not run.context.suspects.suspected(host):
        return None
    since = run.now if silent is None else silent
    if run.now - since < run.options.evacuate_after or not run.context.suspects.healthy():
        return since
    server = run.insist(run.context.compute.server, run.recovery.server)
    if server is not None and server.host == host:
        LOG.warning('recovery %s: %s, where the server is now, has failed as well', run.id, host)
        again: dict[str, Any] = {}
        failed = evacuation.evacuate(run, host, again)
        detail['again'] = failed.why if failed else again
    return since
