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
from specreds_nova.engine.recovery import stamps

LOG = logging.getLogger(__name__)

_T = TypeVar('_T')

# Seconds between two calls of a service that does not answer: at first, and at last.
_PAUSE = 0.1
_PAUSE_AT_LAST = 2.0
# Seconds for which a recovery that was read counts as up to date.
_MOMENT = 1.0


class _Taken:
    """A step that a run takes.

    :ivar step: the step as it is known here
    :ivar stored: the step as it is stored; None if it is not
    :ivar writing: whether the step is being written
    """

    def __init__(self, step: model.Step) -> None:
        self.step = step
        self.stored: model.Step | None = None
        self.writing = False


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
        self.options, self.settings = context.options, context.settings
        # As it is stored, but with the steps as they are known here.
        self._recovery = recovery
        self._lock = threading.Lock()
        self._read = context.clock.now()
        # What is not written yet: steps that have begun or ended, and values.
        self._unwritten: list[_Taken] = []
        self._planned: dict[str, Any] = {}
        # Seconds for which services that this run needs have not answered: no limit counts them.
        self.away = 0.0

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
        """Seconds of this engine's own clock, to be compared with each other only."""
        return self.context.clock.now()

    def _age(self, stamp: float) -> float:
        """Return the seconds since a time in the database."""
        return stamps.age(self.context.clock, stamp)

    def suspected_for(self, host: model.Host) -> float:
        """Return for how many seconds a host is suspected, or trusted again.

        :param host: as it was read just before
        """
        known = self.context.leases.known(host, self.now)
        return self._age(host.since) if known is None else known

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
        """Change the recovery, and write the steps that have ended.

        :raises exception.Superseded: another engine has the recovery
        """
        self._write(values)
        return self.recovery

    def _write(self, values: Mapping[str, Any], begun: Sequence[_Taken] = (), *,
               waits: bool = False) -> None:
        """Write values and steps, with all that is not written yet.

        :param begun: steps that begin
        :param waits: whether to write the begins of steps that have not ended, too
        """
        with self._lock:
            recovery, new = self._recovery, {**self._planned, **values}
            before = [taken for taken in self._unwritten
                      if not taken.writing and (waits or taken.step.ended is not None)]
            written = [(taken, taken.step) for taken in (*before, *begun)]
            for taken in before:
                taken.writing = True
        try:
            changed = self._insist(self._sleep, lambda: self.context.store.change(
                recovery, begun=[step for taken, step in written if taken.stored is None],
                ended=[step for taken, step in written if taken.stored is not None], **new))
            with self._lock:
                self._recovery = dataclasses.replace(changed, steps=self._recovery.steps)
                self._planned = {name: value for name, value in self._planned.items()
                                 if name not in new}
                self._read = self.now
                self._wrote(written, changed.steps)
        finally:
            for taken in before:
                taken.writing = False

    def _wrote(self, written: Sequence[tuple[_Taken, model.Step]], begun: Sequence[model.Step]
               ) -> None:
        """Note what is stored of steps, which may have ended since they were written.

        :param written: the steps, each as it was written
        :param begun: the steps among them that were not stored before, as they are stored now
        """
        stored = iter(begun)
        for taken, step in written:
            taken.stored = next(stored) if taken.stored is None else step
            self._note(taken, taken.stored if taken.step == step else dataclasses.replace(
                taken.step, attempt=taken.stored.attempt))
        self._unwritten = [taken for taken in self._unwritten if taken.step != taken.stored]

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
        if self._planned or any(not taken.writing for taken in self._unwritten):
            self._write({}, waits=True)

    def discard(self) -> None:
        """Discard what is not written yet, as if the engine had been killed before."""
        with self._lock:
            for taken in self._unwritten:
                self._note(taken, taken.stored)
            self._unwritten, self._planned = [], {}

    @contextlib.contextmanager
    def step(self, name: str, *, reads: bool = False) -> Iterator[dict[str, Any]]:
        """Record the begin of a step at once, and its end together with what follows.

        The dictionary that is yielded becomes the detail of the step.

        :param reads: whether the step changes nothing elsewhere: its begin is recorded when the
            run waits, or together with the end
        :raises exception.Superseded: another engine has the recovery
        """
        taken, began = _Taken(self._new(name)), self.now
        if reads:
            self._put(taken, taken.step)
        else:
            self._write({}, [taken])
        detail: dict[str, Any] = {}
        try:
            yield detail
        except (exception.Superseded, exception.Interrupted):
            raise
        except Exception as exc:
            detail.setdefault('error', str(exc))
            self._end(taken, detail)
            raise
        self._end(taken, detail)
        self.context.observer.step(name, self.now - began)

    def _new(self, name: str) -> model.Step:
        """Return a new step, with the attempt that follows the known ones."""
        attempt = 1 + max((step.attempt for step in self.recovery.steps if step.name == name),
                          default=0)
        return model.Step(name, attempt, self._recovery.engine or '', self.context.clock.wall())

    def _end(self, taken: _Taken, detail: dict[str, Any]) -> None:
        self._put(taken, dataclasses.replace(
            taken.step, ended=self.context.clock.wall(), detail=dict(detail)))

    def _put(self, taken: _Taken, step: model.Step) -> None:
        """Replace a step by what is still to be written."""
        with self._lock:
            self._note(taken, step)
            if taken not in self._unwritten:
                self._unwritten.append(taken)

    def _note(self, taken: _Taken, step: model.Step | None) -> None:
        """Replace a known step, or add it to the known ones; remove it if it is None."""
        steps = list(self._recovery.steps)
        place = steps.index(taken.step) if taken.step in steps else len(steps)
        steps[place:place + 1] = [] if step is None else [step]
        self._recovery = dataclasses.replace(self._recovery, steps=tuple(steps))
        if step is not None:
            taken.step = step

    def free(self) -> None:
        """Free the slot: nothing races, whatever is still to be done."""
        self.context.capacity.leave(self.id)

    def silent(self, host: str) -> bool:
        """Return whether a backup's host is not heard while other hosts are.

        Such a host is not called: the recovery could do nothing else while it waits.
        """
        suspects = self.context.suspects
        return suspects.suspected(host) and bool(suspects.healthy())

    def lost(self, host: str, since: float) -> bool:
        """Return whether a backup's host has to be given up.

        A nova-compute that is silent beside a living sentinel does nothing for a recovery either.

        :param since: time since which it has not answered, by the engine's clock
        """
        suspects = self.context.suspects
        return self.now - since >= self.settings.destination_timeout and (
            self.silent(host) or (suspects.speaks(host) and bool(suspects.healthy())))

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

        :param until: time after which to give up, by the engine's clock
        :raises exception.Unreachable: the service has not answered in time
        :raises exception.Interrupted: the engine is being stopped
        """
        # The database may not answer either: it must not delay what has a limit.
        return self._insist(self.pause if until is None else self._sleep, call, *arguments,
                            until=until)

    def _insist(self, rest: Callable[[float], None], call: Callable[..., _T], *arguments: Any,
                until: float | None = None) -> _T:
        pause, began = _PAUSE, self.now
        while True:
            try:
                answer = call(*arguments)
            except exception.Unreachable as exc:
                if until is not None and self.now >= until:
                    raise
                if pause == _PAUSE:
                    LOG.warning('recovery %s waits for a service: %s', self.id, exc)
            else:
                if pause > _PAUSE:
                    self.away += self.now - began
                return answer
            rest(pause)
            pause = min(pause * 2, _PAUSE_AT_LAST)
