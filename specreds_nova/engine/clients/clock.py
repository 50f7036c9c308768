# SPDX-License-Identifier: Apache-2.0
"""Time."""

import threading
import time


class Clock:
    """The system's. It never goes backwards, whatever is done to the system's.

    :param stopping: ends whatever sleeps when it is set
    """

    def __init__(self, stopping: threading.Event | None = None) -> None:
        self._stopping = stopping or threading.Event()
        self._offset = time.time() - time.monotonic()

    def now(self) -> float:
        """Give the seconds since the epoch."""
        return time.monotonic() + self._offset

    def sleep(self, seconds: float) -> None:
        """Let time pass, unless the engine is being stopped."""
        self._stopping.wait(seconds)

    def stopping(self) -> bool:
        """Tell whether the engine is being stopped: nothing sleeps any more."""
        return self._stopping.is_set()
