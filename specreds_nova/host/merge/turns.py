# SPDX-License-Identifier: Apache-2.0
"""The merges of a host: all copy at the same time, and only their ends take turns.

A merge of few bytes does not wait for one of many. At its end a guest is suspended, and the rest
is copied as fast as possible.
"""

from collections.abc import Callable, Iterator
import contextlib
import threading

# Guests that are suspended at a time. libvirt serves 5 requests of a client at a time by default
# (max_client_requests), and merges must leave some to everything else.
_SUSPENDED = 3
# Seconds after which a merge that waits for its turn looks whether it still should.
_TURN_S = 0.5


class Turns:
    """The merges of a host. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._disks = 0
        self._turns = threading.Semaphore(_SUSPENDED)

    @contextlib.contextmanager
    def copying(self, disks: int) -> Iterator[None]:
        """Count some more disks while they are copied."""
        with self._lock:
            self._disks += disks
        try:
            yield
        finally:
            with self._lock:
                self._disks -= disks

    @contextlib.contextmanager
    def turn(self, wait: Callable[[float], None]) -> Iterator[None]:
        """Wait for a turn to suspend a guest and copy the rest, and keep the turn meanwhile.

        :param wait: called again and again with 0 seconds; ends the waiting by an error
        """
        while not self._turns.acquire(timeout=_TURN_S):
            wait(0.0)
        try:
            yield
        finally:
            self._turns.release()

    @property
    def disks(self) -> int:
        """The number of disks that are copied."""
        return self._disks
