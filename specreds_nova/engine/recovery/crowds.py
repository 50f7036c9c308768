# SPDX-License-Identifier: Apache-2.0
"""How often a recovery looks for something, by how many look for the same."""

import collections
from collections.abc import Iterator
import contextlib
import threading

# Looks of all recoveries of an engine per second, for each thing.
_RATE = 100.0
# The same while more recoveries than these race: looks would take the processor time of the engine
# from servers that do not serve yet.
_MANY, _RATE_BESIDE_MANY = 50, 25.0


class Crowd:
    """The recoveries that wait for the same thing. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    def change(self, by: int) -> None:
        """Note that recoveries wait, or do not wait any more."""
        with self._lock:
            self._count += by

    def interval(self, seconds: float, racing: int = 0) -> float:
        """Return the seconds between two looks of one recovery.

        :param seconds: shortest interval, which few recoveries have
        :param racing: recoveries of this engine that have a backup, or are about to have one
        """
        rate = _RATE if racing <= _MANY else _RATE_BESIDE_MANY
        with self._lock:
            return max(seconds, self._count / rate)


class Crowds:
    """The crowds of an engine, by what they wait for."""

    def __init__(self) -> None:
        self._crowds: collections.defaultdict[str, Crowd] = collections.defaultdict(Crowd)

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[Crowd]:
        """Count the caller among those that wait for something."""
        crowd = self._crowds[what]
        crowd.change(1)
        try:
            yield crowd
        finally:
            crowd.change(-1)
