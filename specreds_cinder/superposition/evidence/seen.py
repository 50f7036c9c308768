# SPDX-License-Identifier: Apache-2.0
"""The exact versions of objects, which the first clean sweep of a superposition has seen.

A later sweep compares versions for equality. That survives a merge of placement groups, behind
which the cut bounds nothing. It also shows an object that was removed, or replaced by an older one
(``rados cp``), whose version is smaller. The versions are kept as fingerprints, in this process
only. Without them, a sweep compares with the cut alone.
"""

import collections
from collections.abc import Mapping, Sequence
import dataclasses
import hashlib
import threading

import numpy
from numpy import typing as npt

from specreds_cinder.superposition.truth import record as records

# Superpositions that are remembered: another controller may end one unseen.
_MOST = 4096


@dataclasses.dataclass(frozen=True)
class Volume:
    """What a clean sweep has seen of a volume.

    :param batches: a fingerprint of the numbers and versions of each batch of objects
    :param map_version: version of its object map
    """

    batches: tuple[bytes, ...]
    map_version: int


Volumes = Mapping[records.VolumeRef, Volume]


def fingerprint(numbers: Sequence[int], versions: 'npt.NDArray[numpy.uint64]') -> bytes:
    """Return a fingerprint of objects and their versions."""
    digest = hashlib.blake2b(numpy.array(numbers, dtype=numpy.int64).tobytes(), digest_size=16)
    digest.update(versions.tobytes())
    return digest.digest()


class FirstSweeps:
    """The first clean sweep of each superposition. Safe to share between threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: collections.OrderedDict[str, Volumes] = collections.OrderedDict()

    def get(self, superposition: str) -> Volumes:
        """Return what was seen of each volume; empty if there was no clean sweep."""
        return self._seen.get(superposition, {})

    def keep(self, superposition: str, seen: Volumes) -> None:
        """Keep what a clean sweep has seen, unless there was another one before."""
        with self._lock:
            self._seen.setdefault(superposition, seen)
            if len(self._seen) > _MOST:
                self._seen.popitem(last=False)
