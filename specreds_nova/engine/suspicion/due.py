# SPDX-License-Identifier: Apache-2.0
"""The time at which the next late host is to be suspected: no part of the engine sleeps longer."""

import math
import threading


class Due:
    """A time of the listening clock. Every method may be called by any thread."""

    def __init__(self) -> None:
        self._at = math.inf
        self._reached = threading.Event()

    def set(self, at: float) -> None:
        """Set the time; infinity if no host is late."""
        self._at = at

    def left(self, now: float) -> float:
        """Return the seconds until the time; infinity without one."""
        return self._at - now

    def move(self, horizon: float) -> None:
        """Take the time up to which every message was read, and wake :meth:`wait` if it is due."""
        if horizon >= self._at:
            self._reached.set()

    def wait(self, seconds: float) -> None:
        """Wait until the time is reached, but no longer than some seconds."""
        self._reached.wait(seconds)
        self._reached.clear()
