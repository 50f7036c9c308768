# SPDX-License-Identifier: Apache-2.0
"""The rate of stats that all background sweeps of one connection share."""

from collections.abc import Iterator
import contextlib
import threading
import time
import weakref

from specreds_cinder.superposition.ceph import cluster as ceph


class Budget:
    """Shares a rate between background sweeps, which pause while a decision sweeps.

    Each background sweep reserves a part of the time that follows the reservations before, so that
    sixty of them do not take more from the OSDs than one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free_at = 0.0
        self._decisions = 0

    @contextlib.contextmanager
    def deciding(self) -> Iterator[None]:
        """Make background sweeps pause while the context lasts."""
        with self._lock:
            self._decisions += 1
        try:
            yield
        finally:
            with self._lock:
                self._decisions -= 1

    @property
    def paused(self) -> bool:
        """Whether a decision sweeps."""
        return self._decisions > 0

    def reserve(self, objects: int, pace: float) -> float:
        """Reserve the time of a number of objects; return the seconds until it begins.

        :param pace: objects per second
        """
        with self._lock:
            now = time.monotonic()
            begin = max(now, self._free_at)
            self._free_at = begin + objects / pace
            return begin - now


_budgets: weakref.WeakKeyDictionary[ceph.Cluster, Budget] = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def budget(cluster: ceph.Cluster) -> Budget:
    """Return the budget of all background sweeps that use a connection."""
    with _lock:
        return _budgets.setdefault(cluster, Budget())
