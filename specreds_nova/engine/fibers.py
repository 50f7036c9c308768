# SPDX-License-Identifier: Apache-2.0
"""Fibers: functions that mostly wait, thousands of them in one thread.

A recovery waits for services, hosts and times, and computes next to nothing. As a thread of its
own each would cost memory and fight for the interpreter. A fiber is written like a thread: it
sleeps, and calls clients. Its calls are made by a few other threads, and the thread of the fibers
runs other fibers meanwhile.
"""

import collections
from collections.abc import Callable, Sequence
from concurrent import futures
import functools
import heapq
import itertools
import queue
import threading
import time
from typing import Any, Generic, TypeVar

import greenlet  # type: ignore[import-untyped]
from oslo_log import log as logging

from specreds_nova import progress
from specreds_nova.engine import exception

LOG = logging.getLogger(__name__)

# Seconds after which the thread hangs if it has not run what was posted to it.
_HANGS = 10.0
# Calls that are made together at most: locks in the database last as long as all of them.
_TOGETHER = 100

_A = TypeVar('_A')
_T = TypeVar('_T')

# Ranks of calls. Calls of a lower rank wait for calls of a higher one.
_RANKS = FIRST, SECOND, LAST = range(3)
# Every so many calls, one of a lower rank is made, of each of them in turn: none waits for ever.
_TURN = 8


class Call:
    """A call that another thread makes for a fiber.

    :param then: called when the call has ended
    """

    __slots__ = ('_error', '_function', '_then', '_value')

    def __init__(self, function: Callable[[], Any], then: Callable[[], object]) -> None:
        self._function = function
        self._then = then
        self._value: Any = None
        self._error: BaseException | None = None

    def make(self) -> None:
        """Make the call."""
        try:
            self._value = self._function()
        except BaseException as exc:
            # The thread makes other calls after this one.
            self._error = exc
        self._then()

    def cancel(self) -> None:
        """End the call, which has not begun."""
        self._error = exception.Interrupted()
        self._then()

    def result(self) -> Any:
        """Return the result of the call, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._value


class Callers:
    """Threads that make calls: calls of the highest rank first, in order.

    A thread that has made a call takes the next one that waits, and is woken only if none waited:
    a pool of :mod:`concurrent.futures` takes a third of the processor time of a short call for its
    futures and for its own queue.

    :param threads: greatest number of threads; they are started when they are needed
    """

    def __init__(self, threads: int, name: str) -> None:
        self._most = threads
        self._name = name
        self._lock = threading.Lock()
        self._waiting: tuple[collections.deque[Call], ...] = tuple(
            collections.deque() for _ in range(LAST + 1))
        self._made = 0
        self._closed = False
        # Threads that were started, and how many of them wait to be woken.
        self._started = self._idle = 0
        self._wakes: queue.SimpleQueue[None] = queue.SimpleQueue()

    def submit(self, call: Call, rank: int) -> None:
        """Have a call made.

        :raises exception.Interrupted: the threads are being stopped
        :raises RuntimeError: no thread can be started, and there is none
        """
        with self._lock:
            if self._closed:
                raise exception.Interrupted
            # A thread takes the first call at the moment at which it is free.
            self._waiting[rank].append(call)
            wakes = self._idle > 0
            starts = not wakes and self._started < self._most
            self._idle -= wakes
            self._started += starts
            number = self._started
        if wakes:
            self._wakes.put(None)
        elif starts:
            try:
                threading.Thread(target=self._work, name=f'{self._name}_{number}',
                                 daemon=True).start()
            except RuntimeError:
                # The machine allows no more threads.
                if self._take_back(call, rank):
                    raise

    def _take_back(self, call: Call, rank: int) -> bool:
        """Return whether no thread will make a call, for which none could be started."""
        with self._lock:
            self._started -= 1
            if self._started or call not in self._waiting[rank]:
                return False
            self._waiting[rank].remove(call)
            return True

    def close(self) -> None:
        """Cancel the calls that have not begun; the threads end with their calls."""
        with self._lock:
            self._closed = True
            cancelled = [call for calls in self._waiting for call in calls]
            for calls in self._waiting:
                calls.clear()
            idle, self._idle = self._idle, 0
        for _ in range(idle):
            self._wakes.put(None)
        for call in cancelled:
            call.cancel()

    def _work(self) -> None:
        """Make calls until the threads are being stopped."""
        while True:
            with self._lock:
                if self._closed:
                    return
                call = self._next()
                self._idle += call is None
            if call is None:
                self._wakes.get()
            else:
                call.make()

    def _next(self) -> Call | None:
        """Take the next call; return None if none waits."""
        if not any(self._waiting):
            return None
        self._made += 1
        return next(self._waiting[rank] for rank in self._order()
                    if self._waiting[rank]).popleft()

    def _order(self) -> Sequence[int]:
        """Return the ranks in the order in which they are served by the next call."""
        turn, left = divmod(self._made, _TURN)
        if left:
            return _RANKS
        lower = _RANKS[1:]
        first = (turn - 1) % len(lower)
        return [*lower[first:], *lower[:first], FIRST]


class _Wait:
    """A wait of a fiber, which ends once. Only the thread of the fibers ends it."""

    __slots__ = ('_fiber', '_over')

    def __init__(self) -> None:
        self._fiber = greenlet.getcurrent()
        self._over = False

    def end(self) -> None:
        """Continue the fiber, unless the wait has ended."""
        if not self._over:
            self._over = True
            self._fiber.switch()


class Fibers:
    """A thread that runs fibers, and threads that make their calls.

    Every method may be called by any thread. Outside of fibers, calls and sleeps are the usual
    ones of the calling thread.

    :param keepers: number of threads for calls to the database
    :ivar callers: number of threads that make the other calls of fibers
    """

    def __init__(self, callers: int, keepers: int = 6) -> None:
        self.callers = callers
        self._callers = Callers(callers, 'caller')
        # Services and hosts that hang may occupy all callers, but decisions have to be recorded.
        self._keepers = Callers(keepers, 'keeper')
        # What the thread of the fibers does next; None to look at times.
        self._ready: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        # Waits by the time of their end. Only the thread of the fibers uses them.
        self._timers: list[tuple[float, int, _Wait]] = []
        self._numbers = itertools.count()
        self._stopped = threading.Event()
        self._closed = False
        # Fibers that have not ended.
        self._count = 0
        self._hub: greenlet.greenlet | None = None
        self._thread = threading.Thread(target=self._run, name='recoveries', daemon=True)
        self._progress = progress.Progress(self._thread, _HANGS)
        # Whether the thread has run what the last look at its progress has posted.
        self._answered = True

    def start(self) -> None:
        """Start the thread of the fibers."""
        self._thread.start()

    def stop(self) -> None:
        """Wake all fibers that sleep; no fiber sleeps after that."""
        self._stopped.set()
        self._ready.put(None)

    def close(self) -> None:
        """Cancel the calls that have not begun; the thread ends with the last fiber."""
        self._closed = True
        self.stop()
        for callers in (self._callers, self._keepers):
            callers.close()

    def problems(self) -> list[str]:
        """Return whether the thread has ended or hangs.

        Each call posts something that the thread has to run before a later call.
        """
        problems = self._progress.problems()
        if self._answered and not problems:
            self._answered = False
            self._progress.note()
            self._ready.put(self._answer)
        return problems

    def spawn(self, function: Callable[..., object], *arguments: Any) -> None:
        """Run a function as a fiber, with the rank of the caller."""
        rank = self._rank()

        def begin() -> None:
            fiber = greenlet.greenlet(self._begin, self._hub)
            fiber.rank = rank
            fiber.switch(function, arguments)
        self._ready.put(begin)

    def rank(self, rank: int) -> None:
        """Set the rank of the calls of a fiber."""
        if self.inside():
            greenlet.getcurrent().rank = rank

    @staticmethod
    def _rank() -> int:
        return int(getattr(greenlet.getcurrent(), 'rank', FIRST))

    def inside(self) -> bool:
        """Return whether the caller is a fiber."""
        return self._hub is not None and greenlet.getcurrent().parent is self._hub

    def sleep(self, seconds: float) -> None:
        """Sleep, in a fiber, unless the fibers are being stopped."""
        self.wait(_Wait(), seconds)

    def call(self, function: Callable[..., _T], *arguments: Any, **more: Any) -> _T:
        """Call a function by another thread while the fiber waits, and return its result.

        :raises exception.Interrupted: the fibers are closed
        """
        return self._call(self._callers, function, *arguments, **more)

    def keep(self, function: Callable[..., _T], *arguments: Any, **more: Any) -> _T:
        """Call the database, as :meth:`call` calls services and hosts.

        :raises exception.Interrupted: the fibers are closed
        """
        return self._call(self._keepers, function, *arguments, **more)

    def _call(self, callers: Callers, function: Callable[..., _T], *arguments: Any,
              **more: Any) -> _T:
        if not self.inside():
            return function(*arguments, **more)
        wait = _Wait()
        call = Call(functools.partial(function, *arguments, **more),
                                lambda: self._ready.put(wait.end))
        callers.submit(call, self._rank())
        self._switch()
        result: _T = call.result()
        return result

    def together(self, functions: Sequence[Callable[[], _T]]) -> list[_T]:
        """Call functions as fibers at the same time, and return their results when all have ended.

        The first error is raised, when all have ended.
        """
        if not self.inside():
            return [function() for function in functions]
        answers: list[futures.Future[_T]] = [futures.Future() for _ in functions]
        left, over = list(answers), Event(self)

        def run(function: Callable[[], _T], answer: futures.Future[_T]) -> None:
            try:
                answer.set_result(function())
            except BaseException as exc:
                answer.set_exception(exc)
            left.remove(answer)
            if not left:
                over.set()
        for function, answer in zip(functions[1:], answers[1:], strict=True):
            self.spawn(run, function, answer)
        run(functions[0], answers[0])
        while left:
            over.wait()
        return [answer.result() for answer in answers]

    # For events

    def wait(self, wait: _Wait, seconds: float | None) -> None:
        """Run other fibers until a wait of this fiber ends, or the time is over."""
        if self._stopped.is_set() and seconds is not None:
            return
        if seconds is not None:
            heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._numbers), wait))
        self._switch()

    def end(self, wait: _Wait) -> None:
        """End the wait of a fiber, from any thread."""
        self._ready.put(wait.end)

    def _switch(self) -> None:
        assert self._hub is not None, 'fibers run once the thread has begun'
        self._hub.switch()

    # The thread

    def _answer(self) -> None:
        self._progress.rest()
        self._answered = True

    def _run(self) -> None:
        self._hub = greenlet.getcurrent()
        while not self._closed or self._count:
            for _ in range(max(1, self._ready.qsize())):
                ready = self._next()
                if ready is not None:
                    ready()
            now = float('inf') if self._stopped.is_set() else time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2].end()

    def _begin(self, function: Callable[..., object], arguments: Sequence[Any]) -> None:
        self._count += 1
        try:
            function(*arguments)
        except (exception.Interrupted, greenlet.GreenletExit):
            # The engine is being stopped, or has ended.
            return
        except BaseException:
            LOG.exception('unexpected error of a fiber')
        finally:
            self._count -= 1

    def _next(self) -> Callable[[], object] | None:
        """Return what to do next; None if a time is over, or the fibers are being stopped."""
        try:
            if not self._timers:
                return self._ready.get()
            return self._ready.get(timeout=max(0.0, self._timers[0][0] - time.monotonic()))
        except queue.Empty:
            return None


class Event:
    """An event for which fibers and threads may wait.

    :param fibers: the fibers; None for threads alone
    """

    def __init__(self, fibers: Fibers | None = None) -> None:
        self._fibers = fibers
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._waits: list[_Wait] = []

    def set(self) -> None:
        """Set the event, and continue all that wait for it."""
        with self._lock:
            self._event.set()
            waits, self._waits = self._waits, []
        for wait in waits:
            assert self._fibers is not None, 'only fibers are noted'
            self._fibers.end(wait)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the event, and return whether it is set."""
        if self._fibers is None or not self._fibers.inside():
            return self._event.wait(seconds)
        wait = _Wait()
        with self._lock:
            if self._event.is_set():
                return True
            self._waits.append(wait)
        self._fibers.wait(wait, seconds)
        return self._event.is_set()


class _Waiting(Generic[_A, _T]):
    """A call that waits to be made together with others, and its answer."""

    __slots__ = ('answer', 'wait', 'what')

    def __init__(self, what: _A) -> None:
        self.what = what
        self.wait = _Wait()
        self.answer: _T | BaseException | None = None


class Gathered(Generic[_A, _T]):
    """Calls of the database that are made together, if several fibers wait for them.

    While some are made, those that come meanwhile wait, and are made together after that.

    :param make: makes calls, and returns for each the result or the error
    """

    def __init__(self, fibers: Fibers, make: Callable[[Sequence[_A]], Sequence[_T | Exception]]
                 ) -> None:
        self._fibers = fibers
        self._make = make
        # Only the thread of the fibers uses these.
        self._waiting: list[_Waiting[_A, _T]] = []
        self._makes = False

    def call(self, what: _A) -> _T:
        """Return the result of a call that is made after this one has begun, or raise its error.

        :raises exception.Interrupted: the fibers are closed
        """
        if not self._fibers.inside():
            [answer] = self._make([what])
            return _answered(answer)
        call = _Waiting[_A, _T](what)
        self._waiting.append(call)
        if not self._makes:
            self._makes = True
            self._fibers.spawn(self._make_all)
        self._fibers.wait(call.wait, None)
        assert call.answer is not None
        return _answered(call.answer)

    def _make_all(self) -> None:
        while self._waiting:
            some, self._waiting = self._waiting[:_TOGETHER], self._waiting[_TOGETHER:]
            answers: Sequence[_T | BaseException]
            try:
                answers = self._fibers.keep(self._make, [call.what for call in some])
            except BaseException as exc:
                answers = [exc] * len(some)
            for call, answer in zip(some, answers, strict=True):
                call.answer = answer
                self._fibers.end(call.wait)
        self._makes = False


def _answered(answer: _T | BaseException) -> _T:
    if isinstance(answer, BaseException):
        raise answer
    return answer


class Client:
    """A client whose methods are called by other threads while a fiber waits.

    :param client: what is called; it may be used by several threads
    """

    def __init__(self, fibers: Fibers, client: Any) -> None:
        self._fibers = fibers
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return functools.partial(self._fibers.call, getattr(self._client, name))
