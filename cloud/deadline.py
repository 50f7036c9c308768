# SPDX-License-Identifier: Apache-2.0
"""Time limits that allow for a busy machine."""

from collections.abc import Callable
import os
import time

# A limit is extended at most so many times, however busy the machine is.
_LONGEST = 6.0


def crowding() -> float:
    """Return how many processes want each processor, by the average of the last minute."""
    return os.getloadavg()[0] / len(os.sched_getaffinity(0))


def extended(seconds: float, crowding: Callable[[], float] = crowding) -> float:
    """Return a limit on a quiet machine as one on this machine, as busy as it is.

    :param crowding: returns how many processes want each processor
    """
    return seconds * min(max(crowding(), 1.0), _LONGEST)


class Deadline:
    """The time by which something that needs processors has happened, unless it hangs.

    Where several processes want each processor, a second counts for as much of a second as one
    process computes in it. A limit need not be chosen for the slowest machine then, and what hangs
    is still found early on a quiet one.

    :param seconds: the limit on a machine that has nothing else to do
    :param clock: returns seconds
    :param crowding: returns how many processes want each processor
    """

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic,
                 crowding: Callable[[], float] = crowding) -> None:
        self._left = seconds
        self._clock = clock
        self._crowding = crowding
        self._began = self._seen = clock()

    @property
    def passed(self) -> bool:
        """Whether it is over. Ask often: the time since the last call counts by the load now."""
        now = self._clock()
        self._left -= (now - self._seen) / extended(1.0, self._crowding)
        self._seen = now
        return self._left <= 0

    @property
    def elapsed(self) -> float:
        """Seconds since the beginning, by the clock."""
        return self._clock() - self._began
