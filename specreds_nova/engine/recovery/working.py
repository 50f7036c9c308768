# SPDX-License-Identifier: Apache-2.0
"""How an engine brings one recovery to its end, attempt by attempt."""

from collections.abc import Callable

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import restarting
from specreds_nova.engine.recovery import run as runs

LOG = logging.getLogger(__name__)

# Seconds until it goes on with what something unforeseen has happened to.
_PAUSE = 1.0


class Worker:
    """Takes recoveries over. Every method may be called by any thread.

    :param attempt: makes one attempt, from wherever it is
    :param name: the engine's
    """

    def __init__(self, world: runs.World, attempt: Callable[[runs.Run], object],
                 name: str) -> None:
        self._world = world
        self._attempt = attempt
        self._name = name

    def bring_to_end(self, recovery_id: str, begun: model.Recovery | None = None) -> None:
        """Work on a recovery until it has ended.

        :param begun: as this engine has just made it, for itself
        :raises exception.Superseded: another engine goes on with it
        :raises run.Interrupted: this engine is being stopped
        """
        # What has patience with the database before there is a recovery.
        waiting = runs.Run(self._world, model.Recovery(recovery_id, '', '', '', '', 0.0))
        try:
            recovery = begun or waiting.insist(
                self._world.store.take_over, recovery_id, self._name)
        except exception.NotFound:
            return
        if recovery.state == model.ENDED:
            return
        LOG.info('recovery %s of server %s is worked on, epoch %d', recovery_id, recovery.server,
                 recovery.epoch)
        while recovery.state != model.ENDED:
            self._once(runs.Run(self._world, recovery))
            found = waiting.insist(self._world.store.get, recovery_id)
            if found is None:
                return
            if found.state != model.ENDED and found.epoch != recovery.epoch:
                raise exception.Superseded(f'engine {found.engine} has taken it over')
            recovery = found
        self._world.observer.recovery('end', recovery)

    def _once(self, run: runs.Run) -> None:
        try:
            attempt = restarting.attempt if restarting.concerns(run.recovery) else self._attempt
            attempt(run)
        except runs.Again as exc:
            LOG.info('recovery %s begins anew: %s', run.id, exc)
        except exception.Unreachable as exc:
            LOG.warning('recovery %s waits: %s', run.id, exc)
            run.pause(_PAUSE)
        except exception.Ended:
            return
        except (exception.Superseded, runs.Interrupted):
            raise
        except Exception:
            LOG.exception('recovery %s: something unforeseen', run.id)
            self._world.observer.recovery('error', run.recovery)
            run.pause(_PAUSE)
