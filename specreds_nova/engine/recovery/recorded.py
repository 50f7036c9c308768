# SPDX-License-Identifier: Apache-2.0
"""The record of a recovery, as the engine that works on it reads and changes it."""

from collections.abc import Callable, Iterator
import contextlib
import dataclasses
import threading
from typing import Any, TypeVar

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import context as contexts

LOG = logging.getLogger(__name__)

_T = TypeVar('_T')

# Seconds between two calls of a service that does not answer: at first, and at last.
_PAUSE = 0.1
_PAUSE_AT_LAST = 2.0
# Seconds for which a recovery that was read counts as up to date.
_MOMENT = 1.0


class RecordedRun:
    """One engine's work on one recovery: its record, its steps and its patience.

    :param recovery: as it was taken over
    """

    def __init__(self, context: contexts.Context, recovery: model.Recovery) -> None:
        self.context = context
        self.options = context.options
        self._recovery = recovery
        self._lock = threading.Lock()
        self._read = context.clock.now()

    @property
    def recovery(self) -> model.Recovery:
        """The recovery, as it was read or changed last."""
        with self._lock:
            return self._recovery

    @property
    def id(self) -> str:
        """The id of the recovery."""
        return self._recovery.id

    @property
    def now(self) -> float:
        """Seconds since the epoch."""
        return self.context.clock.now()

    def fresh(self) -> model.Recovery:
        """Read the recovery, with its steps.

        :raises exception.Superseded: another engine has the recovery, or it has ended
        """
        stored = self.insist(self.context.store.get, self.id)
        if stored is None or stored.state == model.ENDED:
            raise exception.Ended(f'recovery {self.id} has ended')
        if stored.epoch != self._recovery.epoch:
            raise exception.Superseded(
                f'recovery {self.id} was taken over by engine {stored.engine}')
        with self._lock:
            self._recovery = stored
            self._read = self.now
        return stored

    def glance(self) -> model.Recovery:
        """Read the recovery, unless it was read within the last second.

        :raises exception.Superseded: another engine has the recovery, or it has ended
        """
        return self.fresh() if self.now - self._read >= _MOMENT else self.recovery

    def change(self, **values: Any) -> model.Recovery:
        """Change the recovery.

        :raises exception.Superseded: another engine has the recovery
        """
        changed = self.insist(lambda: self.context.store.change(self._recovery, **values))
        with self._lock:
            self._recovery = dataclasses.replace(changed, steps=self._recovery.steps)
            return self._recovery

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Record the begin and the end of a step.

        The dictionary that is yielded becomes the detail of the step.

        :raises exception.Superseded: another engine has the recovery
        """
        attempt = self.insist(self.context.store.begin_step, self._recovery, name)
        began = model.Step(name, attempt, self._recovery.engine or '', self.now)
        self._note(began)
        detail: dict[str, Any] = {}
        try:
            yield detail
        except (exception.Superseded, exception.Interrupted):
            raise
        except Exception as exc:
            detail.setdefault('error', str(exc))
            self._end(began, detail)
            raise
        self._end(began, detail)
        self.context.observer.step(name, self.now - began.began)

    def _end(self, began: model.Step, detail: dict[str, Any]) -> None:
        self.insist(self.context.store.end_step, self._recovery, began.name, began.attempt, detail)
        self._note(dataclasses.replace(began, ended=self.now, detail=dict(detail)))

    def _note(self, step: model.Step) -> None:
        """Add a step to the known steps, or replace it."""
        with self._lock:
            others = tuple(other for other in self._recovery.steps
                           if (other.name, other.attempt) != (step.name, step.attempt))
            self._recovery = dataclasses.replace(self._recovery, steps=(*others, step))

    def free(self) -> None:
        """Free the slot: nothing races, whatever is still to be done."""
        self.context.destinations.leave(self.id)
        self.context.observer.serves(self.id)

    def silent(self, host: str) -> bool:
        """Return whether a backup's host is not heard while other hosts are.

        Such a host is not called: the recovery could do nothing else while it waits.
        """
        suspects = self.context.suspects
        return suspects.suspected(host) and bool(suspects.healthy())

    def lost(self, host: str, since: float) -> bool:
        """Return whether a backup's host has to be given up.

        :param since: time since which it has not answered, in seconds since the epoch
        """
        return self.now - since >= self.options.destination_timeout and self.silent(host)

    def pause(self, seconds: float) -> None:
        """Sleep.

        :raises exception.Interrupted: the engine is being stopped
        """
        self.context.preparations.leave(self.id)
        self.wait(self.context.clock.sleep, seconds)

    def wait(self, wait: Callable[..., _T], *arguments: Any) -> _T:
        """Call a function that waits, and return its result.

        :raises exception.Interrupted: the engine is being stopped
        """
        if self.context.stopping():
            raise exception.Interrupted
        result = wait(*arguments)
        if self.context.stopping():
            raise exception.Interrupted
        return result

    def insist(self, call: Callable[..., _T], *arguments: Any,
               until: float | None = None) -> _T:
        """Call a service again until it answers, and return the answer.

        :param until: time after which to give up, in seconds since the epoch
        :raises exception.Unreachable: the service has not answered in time
        :raises exception.Interrupted: the engine is being stopped
        """
        pause = _PAUSE
        while True:
            try:
                return call(*arguments)
            except exception.Unreachable as exc:
                if until is not None and self.now >= until:
                    raise
                if pause == _PAUSE:
                    LOG.warning('recovery %s waits for a service: %s', self.id, exc)
            self.pause(pause)
            pause = min(pause * 2, _PAUSE_AT_LAST)
