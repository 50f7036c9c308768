# SPDX-License-Identifier: Apache-2.0
"""Step ``end``: the engine records the outcome of the recovery."""

from oslo_log import log as logging

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

_OUTCOMES = {verdicts.PRIMARY: model.PRIMARY, verdicts.ABORTED: model.ABORTED,
             verdicts.FAILED: model.FAILED}


def end(run: runs.Run, merged: verdicts.StepVerdict) -> str:
    """Record the outcome, and return it."""
    outcome = _OUTCOMES.get(merged.kind) or _recovered(run)
    run.change(state=model.ENDED, outcome=outcome, error=merged.why[:255] or None)
    run.free()
    LOG.info('recovery %s of server %s on %s: %s%s', run.id, run.recovery.server,
             run.recovery.host, outcome, f', {merged.why}' if merged.why else '')
    return outcome


def _recovered(run: runs.Run) -> str:
    steps = run.recovery.steps
    decisions = [step.detail.get('outcome') for step in steps if step.name == timeline.COLLAPSE]
    if decisions and decisions[-1] == 'late-dirty':
        return model.RESTARTED
    hosts = [step.detail['host'] for step in steps
             if step.name == timeline.ADOPT and step.detail.get('host')]
    backup = run.recovery.destination
    if backup is None or (hosts and hosts[-1] != backup):
        return model.EVACUATED
    return model.RECOVERED
