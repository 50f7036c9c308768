# SPDX-License-Identifier: Apache-2.0
"""The record of a recovery, as the engine that works on it reads and changes it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
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

    The end of a step is written together with what follows it at once, mostly the begin of the
    next step: a transaction costs more than the work of most steps. An engine that is killed
    between the end of a step and that transaction has not written the end, as if it were killed
    before the end. What follows may only read: before it changes anything elsewhere, it has to
    begin a step, or to change the recovery.

    :param recovery: as it was taken over, with its steps
    """

    def __init__(self, context: contexts.Context, recovery: model.Recovery) -> None:
        self.context = context
        self.options = context.options
        # As it is stored, but with the steps that are not written yet.
        self._recovery = recovery
        self._lock = threading.Lock()
        self._read = context.clock.now()
        # Not written yet: steps that took no time, ends of other steps, and values.
        self._brief: list[model.Step] = []
        self._ended: list[model.Step] = []
        self._planned: dict[str, Any] = {}

    @property
    def recovery(self) -> model.Recovery:
        """The recovery, as it was read or changed last."""
        with self._lock:
            if self._planned:
                return dataclasses.replace(self._recovery, **self._planned)
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
        """Read what others may have changed of the recovery.

        :raises exception.Superseded: another engine has the recovery, or it has ended
        """
        self.flush()
        current = self.insist(lambda: self.context.store.refresh(self._recovery))
        with self._lock:
            self._recovery = dataclasses.replace(self._recovery, abort=current.abort)
            self._read = self.now
            return self._recovery

    def glance(self) -> model.Recovery:
        """Read the recovery, unless it was read or changed within the last second.

        :raises exception.Superseded: another engine has the recovery, or it has ended
        """
        return self.fresh() if self.now - self._read >= _MOMENT else self.recovery

    def change(self, **values: Any) -> model.Recovery:
        """Change the recovery, with all that is not written yet.

        :raises exception.Superseded: another engine has the recovery
        """
        self._write((), values)
        return self.recovery

    def _write(self, begun: Sequence[model.Step], values: Mapping[str, Any]
               ) -> Sequence[model.Step]:
        """Write steps and values, with all that is not written yet.

        :param begun: steps that begin
        :returns: these steps, as they are recorded
        """
        with self._lock:
            recovery, brief, ended = self._recovery, self._brief, self._ended
            self._brief, self._ended = [], []
            new = {**self._planned, **values}
        try:
            changed = self._insist(self._sleep, lambda: self.context.store.change(
                recovery, begun=[*brief, *begun], ended=ended, **new))
        except Exception:
            with self._lock:
                self._brief, self._ended = [*brief, *self._brief], [*ended, *self._ended]
            raise
        with self._lock:
            self._recovery = dataclasses.replace(changed, steps=self._recovery.steps)
            self._planned = {name: value for name, value in self._planned.items()
                             if name not in new}
            self._read = self.now
        for step, stored in zip([*brief, *begun], changed.steps, strict=True):
            self._note(stored, step.attempt)
        return changed.steps[len(brief):]

    def plan(self, **values: Any) -> None:
        """Change the recovery together with the step that begins next.

        Nothing but this run may depend on the values before that step.
        """
        with self._lock:
            self._planned |= values

    def flush(self) -> None:
        """Write what is not written yet.

        :raises exception.Superseded: another engine has the recovery
        """
        if self._brief or self._ended or self._planned:
            self.change()

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[dict[str, Any]]:
        """Record the begin of a step at once, and its end together with what follows.

        The dictionary that is yielded becomes the detail of the step.

        :raises exception.Superseded: another engine has the recovery
        """
        [began] = self._write([self._new(name, self.now)], {})
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

    def took(self, name: str, began: float, detail: Mapping[str, Any]) -> None:
        """Record a step that has changed nothing elsewhere, together with what follows.

        :param began: time at which it began, in seconds since the epoch
        """
        step = dataclasses.replace(self._new(name, began), ended=self.now, detail=dict(detail))
        self._note(step)
        with self._lock:
            self._brief.append(step)
        self.context.observer.step(name, self.now - began)

    def _new(self, name: str, began: float) -> model.Step:
        """Return a new step, with the attempt that follows the known ones."""
        attempt = 1 + max((step.attempt for step in self.recovery.steps if step.name == name),
                          default=0)
        return model.Step(name, attempt, self._recovery.engine or '', began)

    def _end(self, began: model.Step, detail: dict[str, Any]) -> None:
        ended = dataclasses.replace(began, ended=self.now, detail=dict(detail))
        self._note(ended)
        with self._lock:
            self._ended.append(ended)

    def _note(self, step: model.Step, attempt: int | None = None) -> None:
        """Add a step to the known steps, or replace it.

        :param attempt: that with which it is known; None for its own
        """
        key = step.name, step.attempt if attempt is None else attempt
        with self._lock:
            others = tuple(other for other in self._recovery.steps
                           if (other.name, other.attempt) != key)
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
        """Write what is not written yet, and sleep.

        :raises exception.Interrupted: the engine is being stopped
        :raises exception.Superseded: another engine has the recovery
        """
        self.flush()
        self._sleep(seconds)

    def _sleep(self, seconds: float) -> None:
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
        # The database may not answer either: it must not delay what has a limit.
        return self._insist(self.pause if until is None else self._sleep, call, *arguments,
                            until=until)

    def _insist(self, rest: Callable[[float], None], call: Callable[..., _T], *arguments: Any,
                until: float | None = None) -> _T:
        pause = _PAUSE
        while True:
            try:
                return call(*arguments)
            except exception.Unreachable as exc:
                if until is not None and self.now >= until:
                    raise
                if pause == _PAUSE:
                    LOG.warning('recovery %s waits for a service: %s', self.id, exc)
            rest(pause)
            pause = min(pause * 2, _PAUSE_AT_LAST)
