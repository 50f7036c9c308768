# SPDX-License-Identifier: Apache-2.0
"""Step ``drill``: a backup of a server that is well is started, becomes ready, and is dropped.

An operator learns whether a server would have a backup, and how long that takes. Whatever the
primary writes meanwhile, the backup boots from the volumes as they were at the cut. It stays
sealed, no decision is requested of Cinder, and nothing is fenced: a drill shares the first steps
with a recovery, up to the race, and none of those after it.

There is one drill at a time, and none beside a recovery: a drill gives way to whatever begins.
"""

import functools

from oslo_log import log as logging

from specreds_cinder.superposition.truth import states
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.engine.recovery.steps import destination
from specreds_nova.engine.recovery.steps import race
from specreds_nova.engine.recovery.steps import start
from specreds_nova.engine.recovery.steps import super as super_step

LOG = logging.getLogger(__name__)

_OUTCOMES = {verdicts.READY: model.PRIMARY, verdicts.ABORTED: model.ABORTED}


def attempt(run: runs.Run) -> str:
    """Hold a drill, and return the outcome.

    :raises exception.Superseded: another engine has taken over the recovery
    :raises exception.Interrupted: the engine is being stopped
    """
    if run.recovery.steps:
        # What has become of its backup since does not tell how long a start takes.
        verdict = verdicts.StepVerdict(verdicts.ABORTED, 'it was interrupted')
    else:
        verdict = _until_ready(run)
    _drop(run)
    outcome = _OUTCOMES.get(verdict.kind, model.FAILED)
    error = None if outcome == model.PRIMARY else (verdict.why or verdict.kind)[:255]
    run.change(state=model.ENDED, outcome=outcome, error=error)
    run.free()
    LOG.info('drill %s of server %s on %s: %s', run.id, run.recovery.server, run.recovery.host,
             error or 'its backup was ready')
    return outcome


def _until_ready(run: runs.Run) -> verdicts.StepVerdict:
    """Start a backup, and wait until it is ready."""
    placed, superposed = run.context.together([
        functools.partial(destination.destination, run),
        functools.partial(super_step.superpose, run)])
    return race.race(run, start.start(run, placed, superposed))


def _drop(run: runs.Run) -> None:
    """Remove the backup and its version of the volumes."""
    superposition = run.superposition() or next(
        # The engine that has requested it may have ended before it recorded the answer.
        (known for known, reason in run.insist(run.context.volumes.ours).items()
         if reason == run.id), None)
    if superposition is None:
        return
    with run.step(runs.WITHDRAW) as detail:
        decide.remove(run)
        while (state := run.insist(run.context.volumes.state, superposition)) is not None:
            if state in states.DECIDED or state == states.COLLAPSING:
                # Somebody else has asked Cinder for that.
                detail['state'] = state
                LOG.error('drill %s: superposition %s is %s', run.id, superposition, state)
                return
            if decide.dropped(run, superposition):
                return
