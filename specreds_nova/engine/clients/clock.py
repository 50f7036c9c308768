# SPDX-License-Identifier: Apache-2.0
"""The clock of an engine."""

import threading
import time


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

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the engine is being stopped."""
        self._stopping.wait(seconds)

    def stopping(self) -> bool:
        """Return whether the engine is being stopped, so that nothing sleeps."""
        return self._stopping.is_set()
