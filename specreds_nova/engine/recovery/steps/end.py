# SPDX-License-Identifier: Apache-2.0
"""The end: when the server's disks are merged, or at once if there is nothing to merge."""

from oslo_log import log as logging

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict as verdicts

LOG = logging.getLogger(__name__)

_OUTCOMES = {verdicts.PRIMARY: model.PRIMARY, verdicts.ABORTED: model.ABORTED,
             verdicts.FAILED: model.FAILED}


def end(run: runs.Run, told: verdicts.StepVerdict) -> str:
    """Note the outcome, and give it."""
    run.context.destinations.leave(run.id)
    outcome = _OUTCOMES.get(told.kind) or _recovered(run)
    run.change(state=model.ENDED, outcome=outcome, error=told.why[:255] or None)
    run.context.observer.serves(run.id)
    LOG.info('recovery %s of server %s on %s: %s%s', run.id, run.recovery.server,
             run.recovery.host, outcome, f', {told.why}' if told.why else '')
    return outcome


def _recovered(run: runs.Run) -> str:
    steps = run.fresh().steps
    decided = [step.detail.get('outcome') for step in steps if step.name == timeline.COLLAPSE]
    if decided and decided[-1] == 'late-dirty':
        return model.RESTARTED
    moved = [step.detail['host'] for step in steps
             if step.name == timeline.ADOPT and step.detail.get('host')]
    backup = run.recovery.destination
    if backup is None or (moved and moved[-1] != backup):
        return model.EVACUATED
    return model.RECOVERED
