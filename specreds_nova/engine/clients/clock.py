# SPDX-License-Identifier: Apache-2.0
"""The clock of an engine."""

import threading
import time

from specreds_nova.engine import fibers as all_fibers


class Clock:
    """The time of an engine, which never goes backwards, and the clock of the system.

    What an engine measures is in seconds of the first. Times in the database are by the
    second, which other programs have as well, and which NTP or an administrator may set.

    :param stopping: event that ends all sleeps
    """

    def __init__(self, stopping: threading.Event | None = None) -> None:
        self._stopping = stopping or threading.Event()
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Return the seconds since the epoch, as the clock of the system had it at the start."""
        return time.monotonic() + self._offset

    def wall(self) -> float:
        """Return the seconds since the epoch by the clock of the system, which may be set.

        Times in the database, and times of other services, are compared with these.
        """
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
