# SPDX-License-Identifier: Apache-2.0
"""The bandwidth of the merges of a host, which the disks that are copied share equally.

All servers of the host are merged at the same time, so that a merge of few bytes does not wait for
one of many.
"""

from collections.abc import Iterator
import contextlib
import threading

# Bytes per second that a disk always has, since the system of a guest always writes a little.
_LEAST = 256 << 10


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

    @property
    def disks(self) -> int:
        """The number of disks that are copied."""
        return self._disks

    def share(self) -> int:
        """Return the rate that each disk may have now, in bytes per second; 0 for any."""
        if not self._per_host:
            return self._per_disk
        with self._lock:
            share = max(_LEAST, self._per_host // max(1, self._disks))
        return min(share, self._per_disk) if self._per_disk else share
