# SPDX-License-Identifier: Apache-2.0
"""The clock of an engine."""

import threading
import time

from specreds_nova.engine import fibers as all_fibers


class Clock:
    """A clock that never goes backwards, even if the clock of the system is set.

    :param stopping: event that ends all sleeps
    """

    def __init__(self, stopping: threading.Event | None = None) -> None:
        self._stopping = stopping or threading.Event()
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return time.monotonic() + self._offset

    def wall(self) -> float:
        """Return the seconds since the epoch by the clock of the system, which may be set."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the engine is being stopped."""
        self._stopping.wait(seconds)

    def stopping(self) -> bool:
        """Return whether the engine is being stopped, so that nothing sleeps."""
        return self._stopping.is_set()


class FiberClock(Clock):
    """A clock for fibers and threads.

    :param stopping: event that ends all sleeps of threads
    """

    def __init__(self, fibers: all_fibers.Fibers, stopping: threading.Event) -> None:
        super().__init__(stopping)
        self._fibers = fibers

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the engine is being stopped."""
        if self._fibers.inside():
            self._fibers.sleep(seconds)
        else:
            super().sleep(seconds)
