# SPDX-License-Identifier: Apache-2.0
"""The end: when the server's disks are merged, or at once if there is nothing to merge."""

from typing import Any

from oslo_log import log as logging

from specreds_nova.engine import model
from specreds_nova.engine.recovery import moving
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

_PAUSE = 3.0
_OUTCOMES = {verdicts.PRIMARY: model.PRIMARY, verdicts.ABORTED: model.ABORTED,
             verdicts.FAILED: model.FAILED}


def merge(run: runs.Run, adopted: verdicts.Verdict) -> verdicts.Verdict:
    """Wait until nothing of the recovery is left but the server."""
    run.world.choices.leave(run.id)
    run.world.observer.serves(run.id)
    superposition = run.recovery.superposition
    if adopted.kind != verdicts.ADOPTED or superposition is None:
        return adopted
    with run.step('merge') as detail:
        silent = None
        while True:
            written = run.insist(run.world.volumes.written, superposition)
            if written is None and run.insist(run.world.volumes.state, superposition) is None:
                return adopted
            if written is not None and written > detail.get('bytes', -1):
                detail['bytes'] = written
                run.change(bytes=written)
            silent = _second_failure(run, silent, detail)
            run.pause(_PAUSE)


def _second_failure(run: runs.Run, silent: float | None, detail: dict[str, Any]) -> float | None:
    """Evacuate the server once more if its new host has failed, too; gives since when."""
    host = run.recovery.destination
    if host is None or not run.world.suspects.suspected(host):
        return None
    since = run.now if silent is None else silent
    if run.now - since < run.options.evacuate_after or not run.world.suspects.healthy():
        return since
    server = run.insist(run.world.compute.server, run.recovery.server)
    if server is not None and server.host == host:
        LOG.warning('recovery %s: %s, where the server is now, has failed as well', run.id, host)
        again: dict[str, Any] = {}
        failed = moving.move(run, host, again)
        detail['again'] = failed.why if failed else again
    return since


def end(run: runs.Run, told: verdicts.Verdict) -> str:
    """Note the outcome, and give it."""
    run.world.choices.leave(run.id)
    outcome = _OUTCOMES.get(told.kind) or _recovered(run)
    run.change(state=model.ENDED, outcome=outcome, error=told.why[:255] or None)
    run.world.observer.serves(run.id)
    LOG.info('recovery %s of server %s on %s: %s%s', run.id, run.recovery.server,
             run.recovery.host, outcome, f', {told.why}' if told.why else '')
    return outcome


def _recovered(run: runs.Run) -> str:
    steps = run.fresh().steps
    decided = [step.detail.get('outcome') for step in steps if step.name == runs.COLLAPSE]
    if decided and decided[-1] == 'late-dirty':
        return model.RESTARTED
    moved = [step.detail['host'] for step in steps
             if step.name == 'adopt' and step.detail.get('host')]
    backup = run.recovery.destination
    if backup is None or (moved and moved[-1] != backup):
        return model.EVACUATED
    return model.RECOVERED
