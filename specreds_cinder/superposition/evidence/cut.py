# SPDX-License-Identifier: Apache-2.0
"""The cut: the instant of superposition, as a vector of RADOS versions.

RADOS gives every write in a placement group a ``user_version`` that strictly increases in that
group (``PrimaryLogPG``: the maximum of the group's last and the object's, plus one), and keeps it
through failures and splits. One small write to a marker object in every group therefore bounds
all writes before it: an object was written after the cut iff its version is greater.

A group that does not answer, because its OSDs have failed, must not keep all volumes of its pool
from being superposed. Its bound is :data:`UNBOUNDED`, the version of no write, so that any object
that is found in the group counts as written after the cut. :func:`bounded` tells whether a volume
has such an object.
"""

from collections.abc import Callable, Mapping, Sequence
import threading

import numpy

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.evidence import objectmap
from specreds_cinder.superposition.evidence import placement_groups
from specreds_cinder.superposition.truth import record as records

MARKER = 'specreds.cut.'
UNBOUNDED = 0
# An OSD that lives answers within milliseconds; a loaded one answers some of many writes.
PATIENCE_S = 0.5
_TRIES = 5


def take(cluster: ceph.Cluster, pool_id: int, namespace: str) -> records.Cut:
    """Write a marker into every placement group of a pool.

    The pool's placement groups are read before and after the writes: if a group was split or
    merged in between, a marker may bound only a part of its group.

    :returns: the cut, in which a group that did not answer is :data:`UNBOUNDED`
    :raises ClusterTimeout: Ceph did not answer in time
    :raises ClusterError: the pool is gone, or its placement groups keep changing
    """
    before = pool_facts(cluster, pool_id)
    io = cluster.aio.ioctx(pool_id, namespace)
    for _ in range(_TRIES):
        names = placement_groups.markers(before.pg_num, namespace, MARKER)
        with trace.change('cut', before.name):
            versions = io.write_answered(names, b'\0', PATIENCE_S)
        after = pool_facts(cluster, pool_id)
        if (after.pg_num, after.merges) == (before.pg_num, before.merges):
            return records.Cut(after.pg_num, after.merges, tuple(
                UNBOUNDED if version is None else version for version in versions))
        before = after
    raise errors.ClusterError(
        f'the placement groups of pool {before.name} changed during {_TRIES} cuts: try again '
        f'when they have settled')


def pool_facts(cluster: ceph.Cluster, pool_id: int) -> ceph.Pool:
    """Return the properties of a pool at this moment.

    :raises ClusterError: the pool is gone
    """
    pool = cluster.pools().get(pool_id)
    if pool is None:
        raise errors.ClusterError(f'pool {pool_id} does not exist any more')
    return pool


def groups_of(names: Sequence[bytes], namespace: str, cut: records.Cut
              ) -> placement_groups.Hashes:
    """Return the placement group of each object, as of a cut."""
    return placement_groups.stable_mod(placement_groups.hashes(names, namespace), cut.pg_num)


def bounded(cluster: ceph.Cluster, volume: records.Volume, taken: Mapping[int, records.Cut]
            ) -> bool:
    """Report whether cuts bound the groups of all existing objects of a volume, and of its map.

    The map is compared at each sweep, so that an object which is created later shows, whatever the
    bound of its group.

    :param taken: the cuts by pool id
    """
    cut = taken[volume.data_pool_id]
    if answered_by_all(cut) and answered_by_all(taken[volume.pool_id]):
        return True
    oid = objectmap.name(volume.image_id).encode()
    if not _bounds([oid], volume, taken[volume.pool_id]):
        return False
    with cluster.ioctx(volume.pool, volume.namespace) as io, \
            ceph.answering(f'read the object map of {volume.ref}'):
        return all(_bounds(objectmap.data_names(volume.data_prefix, numbers.tolist()), volume, cut)
                   for numbers in objectmap.existing(io, volume.image_id))


def any_answers(cluster: ceph.Cluster, pool_id: int, namespace: str, cut: records.Cut) -> bool:
    """Report whether a placement group that did not answer a cut does so now."""
    names = placement_groups.markers(cut.pg_num, namespace, MARKER)
    silent = [name for name, version in zip(names, cut.versions, strict=True)
              if version == UNBOUNDED]
    answers = cluster.aio.ioctx(pool_id, namespace).stat_answered(silent, PATIENCE_S)
    return any(answer is not None for answer in answers)


def answered_by_all(cut: records.Cut) -> bool:
    """Report whether every placement group answered a cut."""
    return UNBOUNDED not in cut.versions


def _bounds(names: Sequence[bytes], volume: records.Volume, cut: records.Cut) -> bool:
    groups = numpy.unique(groups_of(names, volume.namespace, cut))
    return bool(numpy.all(numpy.array(cut.versions)[groups] != UNBOUNDED))


class Cutter:
    """Shares cuts between callers: one cut serves all callers that came before it began.

    Lock protocol: ``_changed`` guards all fields. A caller that finds no cut running runs the next
    one, outside the lock; each waiting caller takes the first result of a cut that *started*
    after the caller came. A failed cut fails only its runner: a waiting caller runs the next.
    """

    def __init__(self, run: Callable[[], records.Cut]) -> None:
        self._run = run
        self._changed = threading.Condition()
        self._running = False
        self._started = 0
        self._finished = 0
        self._result: records.Cut | None = None

    def take(self) -> records.Cut:
        """Return a cut that started after this call."""
        with self._changed:
            needed = self._started + 1
            while self._running:
                self._changed.wait()
                if self._finished >= needed and self._result is not None:
                    return self._result
            self._running = True
            self._started += 1
            mine = self._started
        result: records.Cut | None = None
        try:
            result = self._run()
            return result
        finally:
            with self._changed:
                self._running = False
                if result is not None:
                    self._finished, self._result = mine, result
                self._changed.notify_all()
