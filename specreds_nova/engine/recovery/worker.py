# SPDX-License-Identifier: Apache-2.0
"""How an engine brings one recovery to its end, attempt by attempt."""

from collections.abc import Callable

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import context as contexts
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery.steps import restart

LOG = logging.getLogger(__name__)

# Seconds until it goes on after something was not reached; and after something unforeseen has
# happened, at first and at last.
_PAUSE = 1.0
_PAUSE_AT_LAST = 60.0
# Letters of an error that are kept.
_LONGEST = 255


class RecoveryWorker:
    """Takes recoveries over. Every method may be called by any thread.

    :param attempt: makes one attempt, from wherever it is
    :param name: the engine's
    """

    def __init__(self, context: contexts.Context, attempt: Callable[[runs.Run], object],
                 name: str) -> None:
        self._context = context
        self._attempt = attempt
        self._name = name

    def bring_to_end(self, recovery_id: str, begun: model.Recovery | None = None) -> None:
        """Work on a recovery until it has ended.

        :param begun: as this engine has just made it, for itself
        :raises exception.Superseded: another engine goes on with it
        :raises run.Interrupted: this engine is being stopped
        """
        # What has patience with the database before there is a recovery.
        waiting = runs.Run(self._context, model.Recovery(recovery_id, '', '', '', '', 0.0))
        try:
            recovery = begun or waiting.insist(
                self._context.store.take_over, recovery_id, self._name)
        except exception.NotFound:
            return
        if recovery.state == model.ENDED:
            return
        LOG.info('recovery %s of server %s is worked on, epoch %d', recovery_id, recovery.server,
                 recovery.epoch)
        errors = _Errors(self._context)
        while recovery.state != model.ENDED:
            self._once(runs.Run(self._context, recovery), errors)
            found = waiting.insist(self._context.store.get, recovery_id)
            if found is None:
                return
            if found.state != model.ENDED and found.epoch != recovery.epoch:
                raise exception.Superseded(f'engine {found.engine} has taken it over')
            recovery = found
        self._context.observer.recovery('end', recovery)

    def _once(self, run: runs.Run, errors: '_Errors') -> None:
        try:
            attempt = restart.attempt if restart.concerns(run.recovery) else self._attempt
            attempt(run)
        except exception.RetryAttempt as exc:
            LOG.info('recovery %s begins anew: %s', run.id, exc)
        except exception.Unreachable as exc:
            LOG.warning('recovery %s waits: %s', run.id, exc)
            run.pause(_PAUSE)
        except exception.Ended:
            return
        except (exception.Superseded, exception.Interrupted):
            raise
        except Exception as exc:
            LOG.exception('recovery %s: something unforeseen', run.id)
            self._context.observer.recovery('error', run.recovery)
            errors.take(run, exc)


class _Errors:
    """What has happened unforeseen to a recovery, since it came into its state."""

    def __init__(self, context: contexts.Context) -> None:
        self._context = context
        self._count = 0
        self._state = ''

    def take(self, run: runs.Run, error: Exception) -> None:
        """Wait, ever longer, and after too many errors give up what can be given up.

        Before the decision that is the recovery: what is left of its backup is removed by whoever
        finds that the recovery has ended. After it there is no way back, so only its slot is given
        to others, and the error shows.
        """
        if run.recovery.state != self._state:
            self._state, self._count = run.recovery.state, 0
        self._count += 1
        if self._count >= self._context.options.max_errors:
            why = f'{self._count} times something unforeseen: {error}'[:_LONGEST]
            self._context.destinations.leave(run.id)
            self._context.observer.serves(run.id)
            if runs.before_commit(run.recovery) and not run.deciding():
                run.change(state=model.ENDED, outcome=model.FAILED, error=why)
                return
            run.change(error=why)
        run.pause(min(_PAUSE * 2.0 ** (self._count - 1), _PAUSE_AT_LAST))
