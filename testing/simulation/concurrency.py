# SPDX-License-Identifier: Apache-2.0
"""Threads, queues, pools and times of the standard library, on the simulated hub.

Locks are real: no code of an engine waits for anything while it holds one.
"""

from collections import deque
from collections.abc import Callable
from concurrent import futures
import queue
import threading
from typing import Any
import uuid

from testing.simulation import hub as hubs

# The shortest wait in seconds: a rounded remainder of another one would take no time at all.
LEAST = 1e-3
# The bits of an id that its version and its variant replace, and the bits of version 4.
_NO_VERSION = ~(0xc000 << 48) & ~(0xf000 << 64)
_VERSION = 0x8000 << 48 | 4 << 76


class _World:
    """The hub that the modules below use."""

    hub: hubs.Hub


_WORLD = _World()


def use(hub: hubs.Hub) -> None:
    """Let simulated threads run on a hub."""
    _WORLD.hub = hub


def _in_real_time(seconds: float | None) -> float | None:
    """Return how long seconds of the running process last."""
    if seconds is None:
        return None
    return (seconds if seconds > LEAST else LEAST) / _WORLD.hub.clock().rate


class Event:
    """An event as in :mod:`threading`."""

    def __init__(self) -> None:
        self._set = False
        self._waiting: list[hubs.Actor] = []

    def is_set(self) -> bool:
        """Return whether it is set."""
        return self._set

    def set(self) -> None:
        """Set it, and wake what waits for it."""
        self._set = True
        waiting, self._waiting = self._waiting, []
        for actor in waiting:
            _WORLD.hub.wake(actor)

    def clear(self) -> None:
        """Unset it."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; return whether it is."""
        if self._set:
            return True
        hub = _WORLD.hub
        actor = hub.running
        assert actor is not None
        # Most of the waits of a simulation are these, so that they call little.
        if timeout is not None:
            timeout = (timeout if timeout > LEAST else LEAST) / actor.clock.rate
        self._waiting.append(actor)
        if not hub.park(timeout) and actor in self._waiting:
            self._waiting.remove(actor)
        return self._set


class Thread:
    """A thread as in :mod:`threading`, in the process that creates it."""

    def __init__(self, target: Callable[..., object], args: tuple[Any, ...] = (),
                 name: str = '', daemon: bool = True) -> None:
        del name, daemon
        self._target = target
        self._args = args
        self._owner = _WORLD.hub.owner
        self._actor: hubs.Actor | None = None
        self.ident: int | None = None

    def start(self) -> None:
        """Start it."""
        self.ident = 1
        self._actor = _WORLD.hub.spawn(self._owner, lambda: self._target(*self._args))

    def is_alive(self) -> bool:
        """Return whether it runs."""
        return self._actor is not None and not self._actor.over

    def join(self, timeout: float | None = None) -> None:
        """Wait for its end."""
        until = _WORLD.hub.now() + (timeout if timeout is not None else 1e9)
        while self.is_alive() and _WORLD.hub.now() < until:
            _WORLD.hub.sleep(0.05)


class Semaphore:
    """A semaphore as in :mod:`threading`."""

    def __init__(self, value: int = 1) -> None:
        self.value = value
        self._waiting: deque[hubs.Actor] = deque()

    def acquire(self, timeout: float | None = None) -> bool:
        """Take one; return False if there is none in time."""
        if self.value == 0:
            actor = _WORLD.hub.running
            assert actor is not None
            self._waiting.append(actor)
            if not _WORLD.hub.park(_in_real_time(timeout)):
                self._waiting.remove(actor)
                return False
            return True
        self.value -= 1
        return True

    def release(self) -> None:
        """Return one."""
        if self._waiting:
            _WORLD.hub.wake(self._waiting.popleft())
        else:
            self.value += 1


class Queue:
    """A queue as in :mod:`queue`."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._waiting: deque[hubs.Actor] = deque()

    def qsize(self) -> int:
        """Return the number of items."""
        return len(self._items)

    def put(self, item: Any) -> None:
        """Add an item."""
        self._items.append(item)
        if self._waiting:
            _WORLD.hub.wake(self._waiting.popleft())

    def get(self, timeout: float | None = None) -> Any:
        """Return the next item.

        :raises queue.Empty: there is none in time
        """
        while not self._items:
            actor = _WORLD.hub.running
            assert actor is not None
            self._waiting.append(actor)
            if not _WORLD.hub.park(_in_real_time(timeout)):
                if actor in self._waiting:
                    self._waiting.remove(actor)
                if not self._items:
                    raise queue.Empty
        return self._items.popleft()


class Future(futures.Future[Any]):
    """A future as in :mod:`concurrent.futures`, for which simulated threads wait."""

    def __init__(self) -> None:
        super().__init__()
        self._ended = Event()

    def finish(self, act: Callable[[], Any]) -> None:
        """Call a function, and keep its result or its error."""
        try:
            self.set_result(act())
        except Exception as exc:
            self.set_exception(exc)
        self._ended.set()

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result."""
        if not self.done():
            self._ended.wait(timeout)
        return super().result(0)


class ThreadPoolExecutor:
    """A pool as in :mod:`concurrent.futures`, in the process that creates it."""

    def __init__(self, max_workers: int, thread_name_prefix: str = '') -> None:
        del thread_name_prefix
        self._free = max_workers
        self._owner = _WORLD.hub.owner
        self._waiting: deque[tuple[Future, Callable[[], Any]]] = deque()

    def submit(self, act: Callable[..., Any], *arguments: Any, **values: Any) -> Future:
        """Call a function on a thread of the pool."""
        future = Future()
        self._waiting.append((future, lambda: act(*arguments, **values)))
        if self._free:
            self._free -= 1
            _WORLD.hub.spawn(self._owner, self._work)
        return future

    def shutdown(self, wait: bool = True, cancel_futures: bool = False) -> None:
        """End the pool; calls that were not begun are left out."""
        del wait
        if cancel_futures:
            self._waiting.clear()

    def _work(self) -> None:
        while self._waiting:
            future, act = self._waiting.popleft()
            future.finish(act)
        self._free += 1


class Threading:
    """The module :mod:`threading`."""

    Event = Event
    Lock = staticmethod(threading.Lock)
    Semaphore = Semaphore
    Thread = Thread


class Queues:
    """The module :mod:`queue`."""

    Empty = queue.Empty
    Queue = SimpleQueue = Queue


class Futures:
    """The package :mod:`concurrent.futures`."""

    CancelledError = futures.CancelledError
    Future = Future
    ThreadPoolExecutor = ThreadPoolExecutor


class Time:
    """The module :mod:`time`, by the clock of the running process."""

    @staticmethod
    def monotonic() -> float:
        """Return the seconds since an arbitrary time."""
        hub = _WORLD.hub
        running = hub.running
        return hub.time * (running.clock if running is not None else hub.clock()).rate

    @staticmethod
    def time() -> float:
        """Return the seconds since the epoch."""
        hub = _WORLD.hub
        return hub.time + hub.clock().ahead

    @staticmethod
    def sleep(seconds: float) -> None:
        """Sleep."""
        _WORLD.hub.sleep(seconds / _WORLD.hub.clock().rate)


class Uuid:
    """A random id as in :mod:`uuid`, which makes its text when that is needed."""

    __slots__ = ('_bits',)

    def __init__(self, bits: int) -> None:
        self._bits = bits

    @property
    def hex(self) -> str:
        """The id without hyphens."""
        return f'{self._bits & _NO_VERSION | _VERSION:032x}'

    def __str__(self) -> str:
        return str(uuid.UUID(int=self._bits, version=4))


class Uuids:
    """The module :mod:`uuid`, with ids that the seed determines."""

    UUID = uuid.UUID
    uuid5 = staticmethod(uuid.uuid5)

    @staticmethod
    def uuid4() -> 'Uuid':
        """Return an id."""
        return Uuid(_WORLD.hub.random.getrandbits(128))


MODULES = {'threading': Threading, 'queue': Queues, 'futures': Futures, 'time': Time,
           'uuid': Uuids}


def module(name: str) -> Any:
    """Return the simulation of a module."""
    return MODULES[name]
