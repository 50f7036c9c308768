# SPDX-License-Identifier: Apache-2.0
"""Threads that make the calls of fibers, by the rank of each call."""

import collections
from collections.abc import Callable, Sequence
import queue
import threading
from typing import Any

from specreds_nova.engine import exception

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
