# SPDX-License-Identifier: Apache-2.0
"""The bandwidth of the merges of a host, which the disks that are copied share equally.

All servers of the host are merged at the same time, so that a merge of few bytes does not wait for
one of many. Only their ends take turns: the rest is copied as fast as possible, since the guest is
suspended for it.
"""

from collections.abc import Callable, Iterator
import contextlib
import threading

from specreds_cinder.superposition import merge_rate

# Guests that are suspended at a time. libvirt serves 5 requests of a client at a time by default
# (max_client_requests), and those of the merges must leave some to everything else.
_SUSPENDED = 3
# Seconds after which a merge that waits for its turn looks whether it still should.
_TURN_S = 0.5


class Bandwidth:
    """The bandwidth. May be used by several threads.

    :param per_disk: highest rate of a disk in bytes per second, 0 for none
    :param per_host: highest rate of all disks together, 0 for none
    """

    def __init__(self, per_disk: int, per_host: int) -> None:
        self._per_disk = per_disk
        self._per_host = per_host
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

    def share(self) -> int:
        """Return the rate that each disk may have now, in bytes per second; 0 for any."""
        with self._lock:
            disks = self._disks
        return merge_rate.lowest(self._per_disk, merge_rate.equal_share(self._per_host, disks))
