# SPDX-License-Identifier: Apache-2.0
"""The bandwidth that all merges in a Ceph cluster share, whichever host or service makes them."""

from collections.abc import Mapping
import threading
from typing import Any

from specreds_cinder.superposition import merge_rate
from specreds_cinder.superposition import states


class MergeBandwidth:
    """The bandwidth of the merges that have begun. May be used by several threads.

    A merge has begun once its record says so, and each pass of the housekeeping reads all records
    of the back end. Between two passes, the service knows of the merges that were begun or read
    through it. The other back ends of the cluster report their numbers.

    :param limit: highest rate of all disks together in bytes per second, 0 for none
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        # The number of disks that are merged, by superposition.
        self._disks: dict[str, int] = {}
        # By other back end of the cluster: its pool, and the number of disks merged in the pool.
        self._others: dict[str, tuple[str, int]] = {}

    def note(self, shown: Mapping[str, Any], state: str | None = None) -> None:
        """Note whether a superposition is merged.

        :param shown: the worker's description of the superposition
        :param state: its state, if that has changed since
        """
        with self._lock:
            if (state or shown['state']) == states.MERGING:
                self._disks[shown['id']] = len(shown['volumes'])
            else:
                self._disks.pop(shown['id'], None)

    def replace(self, superpositions: list[dict[str, Any]]) -> None:
        """Note all superpositions of the back end: the merges of others have ended."""
        disks = {shown['id']: len(shown['volumes']) for shown in superpositions
                 if shown['state'] == states.MERGING}
        with self._lock:
            self._disks = disks

    @property
    def disks(self) -> int:
        """The number of disks of this back end that are merged."""
        with self._lock:
            return sum(self._disks.values())

    @property
    def others(self) -> dict[str, tuple[str, int]]:
        """The pools of other back ends of the cluster, and the numbers of disks merged there."""
        with self._lock:
            return self._others

    def replace_others(self, others: dict[str, tuple[str, int]]) -> None:
        """Note what the other back ends of the cluster merge: by back end, pool and number."""
        with self._lock:
            self._others = others

    def share(self, shown: Mapping[str, Any]) -> int:
        """Return the rate in bytes per second that each disk of a superposition may have.

        The superposition counts as one that is merged. 0 stands for any rate.
        """
        with self._lock:
            others = sum(self._disks.values()) - self._disks.get(shown['id'], 0)
            # Back ends of one pool count the same disks.
            others += sum(dict(self._others.values()).values())
        return merge_rate.equal_share(self._limit, others + len(shown['volumes']))
