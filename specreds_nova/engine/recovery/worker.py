# SPDX-License-Identifier: Apache-2.0
"""The work of an engine on one recovery, attempt by attempt, until the recovery has ended.

The table STEPS has the order of the steps of an attempt.
"""

from collections.abc import Callable
import functools
from typing import Any, NamedTuple

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import fibers
from specreds_nova.engine import model
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import adopt
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.engine.recovery.steps import destination
from specreds_nova.engine.recovery.steps import drill
from specreds_nova.engine.recovery.steps import end
from specreds_nova.engine.recovery.steps import fence
from specreds_nova.engine.recovery.steps import merge
from specreds_nova.engine.recovery.steps import race
from specreds_nova.engine.recovery.steps import refused
from specreds_nova.engine.recovery.steps import restart
from specreds_nova.engine.recovery.steps import start
from specreds_nova.engine.recovery.steps import super as super_step

LOG = logging.getLogger(__name__)

# Seconds before the next attempt: after a service did not answer, and after the first of several
# unexpected errors; and the longest pause between errors.
_PAUSE = 1.0
_PAUSE_AT_LAST = 60.0


class Step(NamedTuple):
    """A step, and what it passes on.

    :ivar name: name of the step
    :ivar take: takes the step, with the run and the verdicts of the required steps
    :ivar provides: name of its verdict
    :ivar requires: names of the verdicts that it needs; a step that needs none may be taken at
        the same time as the other ones that need none
    :ivar rank: rank of its calls at first. Servers whose backups are ready serve first, then other
        backups are started and servers are evacuated; what is left to do for servers that serve
        comes last
    """

    name: str
    take: Callable[..., Any]
    provides: str
    requires: tuple[str, ...] = ()
    rank: int = fibers.FIRST


STEPS = (
    Step('destination', destination.destination, 'placed', rank=fibers.SECOND),
    Step('super', super_step.superpose, 'superposed', rank=fibers.SECOND),
    Step('start', start.start, 'started', ('placed', 'superposed'), fibers.SECOND),
    Step('race', race.race, 'raced', ('started',)),
    Step('decide', decide.decide, 'decided', ('raced',)),
    Step('fence', fence.fence, 'fenced', ('decided',), fibers.SECOND),
    Step('promote', adopt.promote, 'promoted', ('fenced',)),
    Step('adopt', adopt.adopt, 'adopted', ('promoted',), fibers.SECOND),
    Step('merge', merge.merge, 'merged', ('adopted',), fibers.LAST),
    Step('end', end.end, 'outcome', ('merged',), fibers.LAST),
)


def attempt(run: runs.Run) -> str:
    """Take the steps, and return the outcome.

    Steps that require no other step are taken at the same time. Each step begins with what the
    recovery's record says, so that an engine that takes over a recovery takes all steps again.

    :raises exception.RetryAttempt: another attempt is needed
    :raises exception.Superseded: another engine has taken over the recovery
    """
    first = [step for step in STEPS if not step.requires]
    run.context.rank(fibers.SECOND)
    results = dict(zip((step.provides for step in first), run.context.together(
        [functools.partial(step.take, run) for step in first]), strict=True))
    for step in STEPS:
        if not step.requires:
            continue
        run.context.rank(step.rank)
        results[step.provides] = step.take(run, *(results[name] for name in step.requires))
    return str(results[STEPS[-1].provides])


class RecoveryWorker:
    """Brings recoveries to an end. May be used by several threads.

    :param attempt: makes one attempt, from the state in which it finds the recovery
    """

    def __init__(self, context: contexts.Context, attempt: Callable[[runs.Run], object]) -> None:
        self._context = context
        self._attempt = attempt

    def bring_to_end(self, recovery: model.Recovery, server: model.Server | None = None) -> None:
        """Work on a recovery of this engine until it has ended.

        :param server: its server, if that was read just before
        :raises exception.Superseded: another engine has taken over the recovery
        :raises exception.Interrupted: this engine is being stopped
        """
        LOG.info('recovery %s of server %s: this engine works on it, epoch %d', recovery.id,
                 recovery.server, recovery.epoch)
        waiting = runs.Run(self._context, recovery)
        errors = _Errors(self._context)
        while recovery.state != model.ENDED:
            run = runs.Run(self._context, recovery, server)
            self._once(run, errors)
            server, recovery = None, run.recovery
            if recovery.state == model.ENDED:
                break
            stored = waiting.insist(self._context.store.get, recovery.id)
            if stored is None:
                return
            if stored.state != model.ENDED and (
                    stored.epoch, stored.engine) != (recovery.epoch, recovery.engine):
                raise exception.Superseded(
                    f'recovery {recovery.id} was taken over by engine {stored.engine}')
            recovery = stored
        self._context.observer.recovery('end', recovery)

    def _once(self, run: runs.Run, errors: '_Errors') -> None:
        try:
            self._try(run)
        except exception.Ended:
            return
        except (exception.Superseded, exception.Interrupted):
            raise
        except Exception as exc:
            LOG.exception('recovery %s: unexpected error', run.id)
            self._context.observer.recovery('error', run.recovery)
            errors.take(run, exc)

    def _try(self, run: runs.Run) -> None:
        try:
            if refused.concerns(run.recovery):
                refused.attempt(run)
            elif restart.concerns(run.recovery):
                restart.attempt(run)
            elif run.drill:
                drill.attempt(run)
            else:
                self._attempt(run)
        except exception.RetryAttempt as exc:
            LOG.info('recovery %s: another attempt begins: %s', run.id, exc)
            run.flush()
            self._context.capacity.enter(run.id)
        except exception.Unreachable as exc:
            LOG.warning('recovery %s waits for a service: %s', run.id, exc)
            run.pause(_PAUSE)


class _Errors:
    """The unexpected errors of a recovery in its current state."""

    def __init__(self, context: contexts.Context) -> None:
        self._context = context
        self._count = 0
        self._state = ''

    def take(self, run: runs.Run, error: Exception) -> None:
        """Count an error, and wait: longer after each error.

        After too many errors before the decision, the recovery fails; the host of its backup
        removes the backup. After the decision there is no way back: the recovery continues, but
        leaves its slot to others, and its error is visible.
        """
        _settle(run)
        if run.recovery.state != self._state:
            self._state, self._count = run.recovery.state, 0
        self._count += 1
        if self._count >= self._context.settings.max_errors:
            why = verdicts.with_remedy(f'{self._count} unexpected errors: {error}', _remedy(run))
            run.free()
            if runs.before_commit(run.recovery) and not run.deciding():
                run.change(state=model.ENDED, outcome=model.FAILED, error=why)
                return
            run.change(error=why)
        run.pause(min(_PAUSE * 2.0 ** (self._count - 1), _PAUSE_AT_LAST))


def _remedy(run: runs.Run) -> str:
    """Return what an operator does about unexpected errors, which the log explains."""
    if runs.before_commit(run.recovery) and restart.concerns(run.recovery):
        # Only a silent host has another recovery of its servers.
        return f'openstack server reboot --hard {run.recovery.server}'
    return verdicts.NOTHING if run.drill else verdicts.AGAIN_LATER


def _settle(run: runs.Run) -> None:
    """Write what an attempt has left to write; discard it if the database does not take it.

    Else each write of this run would fail like the one that has ended the attempt.
    """
    try:
        run.flush()
    except (exception.Superseded, exception.Interrupted):
        raise
    except Exception as exc:
        LOG.warning('recovery %s: what its last steps have led to is not recorded: %s',
                    run.id, exc)
        run.discard()
