# SPDX-License-Identifier: Apache-2.0
"""Limit how many backups are prepared concurrently, oldest first.

Preparation is work of this process. If all recoveries of a host were prepared at once, each would
take as long as all of them together, and the most urgent one would not be the first.
"""

import collections
from collections.abc import Iterator
import contextlib
import threading
import time

from specreds_nova.engine import fibers as all_fibers

# Recoveries prepared at once: while one waits for Cinder or Nova, others work.
_CONCURRENT = 12
# Seconds without a place that becomes free after which a recovery does not wait for one: those
# that prepare may wait for a slow service.
_PATIENCE = 1.0
# Looks of all recoveries that wait per second: a rack has thousands of them, for minutes.
_LOOKS = 100.0


class PreparationLimit:
    """Places for recoveries of this engine that prepare. May be used by threads and fibers.

    :param fibers: the fibers that use it
    """

    def __init__(self, count: int = _CONCURRENT, patience: float = _PATIENCE,
                 fibers: all_fibers.Fibers | None = None) -> None:
        self._count = count
        self._patience = patience
        self._fibers = fibers
        self._lock = threading.Lock()
        self._held: set[str] = set()
        # The recoveries that wait, in order.
        self._waiting: collections.OrderedDict[str, all_fibers.Event] = collections.OrderedDict()
        self._freed = float('-inf')

    def take(self, recovery_id: str) -> None:
        """Wait for a place, unless none becomes free: preparation begins in either case."""
        with self._lock:
            if len(self._held) < self._count:
                self._held.add(recovery_id)
                return
            event = self._waiting[recovery_id] = all_fibers.Event(self._fibers)
        while not event.wait(self._pause()):
            with self._lock:
                if time.monotonic() - self._freed < self._patience:
                    continue
                # The first one that notices it tells all others.
                others = [*self._waiting.values()]
                self._waiting.clear()
            for other in others:
                other.set()
            return

    def _pause(self) -> float:
        """Return the seconds until a recovery that waits looks whether it still has to."""
        return max(self._patience, len(self._waiting) / _LOOKS)

    def leave(self, recovery_id: str) -> None:
        """Free the place of a recovery that is prepared. May be repeated."""
        with self._lock:
            if recovery_id not in self._held:
                return
            self._held.remove(recovery_id)
            self._freed = time.monotonic()
            if not self._waiting:
                return
            turn, event = self._waiting.popitem(last=False)
            self._held.add(turn)
        event.set()


class Turns:
    """Queues of recoveries that need the same resource, which one of each queue has at a time.

    Queues save work, and safety does not depend on them: after some time without progress, no
    recovery waits.

    :param fibers: the fibers that use it
    """

    def __init__(self, fibers: all_fibers.Fibers | None = None) -> None:
        self._fibers = fibers
        self._lock = threading.Lock()
        # By resource: its queue, and the number of recoveries in the queue.
        self._queues: dict[str, tuple[PreparationLimit, int]] = {}

    def taken(self, thing: str | None) -> bool:
        """Return whether a recovery has a resource, so that others would wait for their turn."""
        with self._lock:
            return thing in self._queues

    @contextlib.contextmanager
    def of(self, thing: str | None, recovery_id: str) -> Iterator[None]:
        """Wait for the turn of a recovery, and end it.

        :param thing: name of the resource; None for none
        """
        if thing is None:
            yield
            return
        with self._lock:
            queue, count = self._queues.get(thing) or (
                PreparationLimit(1, fibers=self._fibers), 0)
            self._queues[thing] = queue, count + 1
        try:
            queue.take(recovery_id)
            yield
        finally:
            queue.leave(recovery_id)
            with self._lock:
                queue, count = self._queues.pop(thing)
                if count > 1:
                    self._queues[thing] = queue, count - 1
