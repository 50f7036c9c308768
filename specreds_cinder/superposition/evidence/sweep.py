# SPDX-License-Identifier: Apache-2.0
"""The sweep: was any object of the volumes written after the cut?

A sweep stats each existing object, and examines the object map, which lists the existing objects,
and the header of the image. Versions are compared with the cut, and with those that the first
clean sweep has seen (:mod:`seen`). The map is compared by content if its version has changed: the
backup's librbd may take the exclusive lock while the primary does not hold it, which touches the
objects of map and header without any write of data.

A volume whose primary has handed its lock over (:mod:`handover`) is not swept, unless its header
has changed since.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
import contextlib
import dataclasses
import functools
import threading
import time

import numpy
from numpy import typing as npt
import rados

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import librados
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.evidence import cut as cuts
from specreds_cinder.superposition.evidence import objectmap
from specreds_cinder.superposition.evidence import pace as pacing
from specreds_cinder.superposition.evidence import placement_groups
from specreds_cinder.superposition.evidence import seen as seens
from specreds_cinder.superposition.truth import record as records

_BATCH = 16384
DEPTH = 1024


@dataclasses.dataclass(frozen=True)
class SweepReport:
    """The result of a sweep.

    :param dirty: the primary has written after the cut
    :param first: the first dirty object with the reason, or why nothing is proven; None if clean
    :param objects: number of objects examined
    :param seconds: duration of the sweep
    :param unproven: no write was found, but one cannot be ruled out, for a reason that need not be
        a write of the primary
    """

    dirty: bool
    first: str | None
    objects: int
    seconds: float
    unproven: bool = False

    @property
    def clean(self) -> bool:
        """Whether it is proven that the primary has not written."""
        return not self.dirty and not self.unproven


class _Stopped(Exception):
    """The background sweep is stopped."""


class Sweeper:
    """Sweeps the volumes of one superposition.

    :param depth: stats in flight at a time
    :param pace: objects per second at most, of all sweeps with a pace together; None for as fast
        as it goes
    :param thorough: examine every object even after the first dirty one, and send an operation
        with the osdmap of this client to every placement group of the pools. Behind a fence, that
        makes the sweep a barrier: no OSD accepts a fenced write once the sweep has ended.
    :param renew: called after each batch of objects; an error that it raises ends the sweep
    :param first: the first clean sweeps of superpositions; None to compare with the cut alone
    :param sealed: the volumes that nobody has written to, and nobody can: they are not swept; by
        default those whose header has not changed since the hand-over
    """

    def __init__(self, cluster: ceph.Cluster, record: records.Record, *, depth: int = DEPTH,
                 pace: float | None = None, thorough: bool = False,
                 renew: Callable[[], None] = lambda: None,
                 first: seens.FirstSweeps | None = None,
                 sealed: Collection[records.Volume] | None = None) -> None:
        self._cluster = cluster
        self._sealed = sealed
        self._volumes = record.volumes
        self._record = record
        self._first_sweeps = first or seens.FirstSweeps()
        self._earlier: seens.Volumes = {}
        self._seen: dict[records.VolumeRef, seens.Volume] = {}
        self._fingerprints: list[bytes] = []
        self._depth = depth
        self._pace = pace
        self._thorough = thorough
        self._renew = renew
        self._budget = pacing.budget(cluster)
        self._stop = threading.Event()
        self._swept = 0
        self._first: str | None = None
        self._unproven: str | None = None

    def stop(self) -> None:
        """Make a paced sweep in another thread end at its next pause."""
        self._stop.set()

    def run(self) -> SweepReport:
        """Sweep once.

        :raises ClusterTimeout: an OSD or monitor did not answer, so nothing is proven
        :raises ClusterError: a stat failed
        """
        began = time.monotonic()
        self._volumes = tuple(volume for volume in self._record.volumes
                              if not self._untouched(volume))
        with contextlib.nullcontext() if self._pace else self._budget.deciding():
            self._sweep()
        dirty = self._first is not None
        if not dirty and self._unproven is None and self._volumes == self._record.volumes:
            self._first_sweeps.keep(self._record.id, self._seen)
        return SweepReport(dirty, self._first if dirty else self._unproven, self._swept,
                           time.monotonic() - began,
                           unproven=not dirty and self._unproven is not None)

    @property
    def _known(self) -> bool:
        """Whether the result is known, and nothing else has to be examined.

        What is unproven may be dirty, too: the primary lives then.
        """
        return self._first is not None and not self._thorough

    def _sweep(self) -> None:
        """Sweep from the beginning."""
        self._swept = 0
        self._first = self._unproven = None
        self._seen = {}
        self._earlier = self._first_sweeps.get(self._record.id)
        for step in self._steps():
            step()
            if self._known:
                break

    def _untouched(self, volume: records.Volume) -> bool:
        """Return whether nobody has written to a volume, by its header alone.

        Whoever writes has the lock, and whoever takes or breaks the lock changes the header. So
        does whoever makes a snapshot, for example, which proves nothing.
        """
        if self._sealed is not None:
            return volume in self._sealed
        return volume.handed > 0 and self._cluster.aio.ioctx(
            volume.pool_id, volume.namespace).stat_versions(
                [f'rbd_header.{volume.image_id}'.encode()], 1) == [volume.handed]

    def _steps(self) -> Iterator[Callable[[], None]]:
        if not self._volumes:
            return
        for volume in self._volumes:
            yield functools.partial(self._volume, volume)
        # After the volumes, so that a merge of placement groups before any stat is noticed.
        yield self._groups
        if self._thorough:
            for pool_id in self._record.cuts:
                yield functools.partial(self._barrier, pool_id)

    def _volume(self, volume: records.Volume) -> None:
        try:
            facts = volumes.inspect(self._cluster, volume.ref)
        except errors.VolumeGone:
            self._unprove(f'image {volume.ref} is gone')
            return
        changed = changes(volume, facts)
        if changed is not None:
            self._unprove(changed)
        if facts.image_id != volume.image_id:
            return
        try:
            with self._cluster.ioctx(volume.pool, volume.namespace) as io, \
                    ceph.answering(f'read the object map of {volume.ref}'):
                self._objects(volume, _batches(objectmap.existing(io, volume.image_id)))
                # Whoever changes the image changes its map as well.
                if not self._known and changed is None:
                    self._map(volume, io)
        except errors.VolumeGone as exc:
            self._unprove(str(exc))

    def _objects(self, volume: records.Volume, batches: Iterable[Sequence[int]]) -> None:
        """Examine objects of an image."""
        self._fingerprints = []
        for numbers, names, versions in self._versions(volume, batches):
            self._examine(volume, numbers, names, versions)
            if self._known:
                return
        earlier = self._earlier.get(volume.ref)
        if earlier is not None and earlier.batches != tuple(self._fingerprints):
            self._unprove(f'objects of {volume.ref} have other versions than at the first sweep')

    def _versions(self, volume: records.Volume, batches: Iterable[Sequence[int]]
                  ) -> Iterator[tuple[Sequence[int], list[bytes], list[int]]]:
        """Yield the numbers of each batch of objects, their names, and their versions."""
        io = self._cluster.aio.ioctx(volume.data_pool_id, volume.namespace)
        for numbers in batches:
            names = objectmap.data_names(volume.data_prefix, numbers)
            yield numbers, names, self._stat(io, names)

    def _examine(self, volume: records.Volume, numbers: Sequence[int], names: list[bytes],
                 versions: list[int]) -> None:
        trace.progress('sweep', self._record.id, self._swept)
        self._renew()
        cut = self._record.cuts[volume.data_pool_id]
        groups = cuts.groups_of(names, volume.namespace, cut)
        bounds = numpy.array(cut.versions, dtype=numpy.uint64)[groups]
        swept = numpy.array(versions, dtype=numpy.uint64)
        self._fingerprints.append(seens.fingerprint(numbers, swept))
        # No object has the version of a marker, unless RADOS gave it to two writes that were in
        # flight together: an erasure-coded group knows its last version only once a write is
        # logged. Such a write may have come after the marker.
        after = numpy.flatnonzero((swept >= bounds) & (swept > 0))
        if len(after):
            self._dirty(f'{names[after[0]].decode()} of {volume.ref} was written')
        # An object without a version is gone. Its discard was under way at the cut, and has
        # removed it since; a client that died before it changed the map leaves no other trace.
        gone = [name for number, name, version in zip(numbers, names, versions, strict=True)
                if not version and number in volume.pending] if volume.pending else []
        if gone:
            self._dirty(f'{gone[0].decode()} of {volume.ref} was discarded')

    def _stat(self, io: librados.IoCtx, names: list[bytes]) -> list[int]:
        if self._pace is None:
            self._swept += len(names)
            return io.stat_versions(names, self._depth)
        versions: list[int] = []
        # The objects of a tenth of a second at a time.
        slice_ = max(1, int(self._pace / 10))
        for start in range(0, len(names), slice_):
            part = names[start:start + slice_]
            if self._stop.wait(self._budget.reserve(len(part), self._pace)):
                raise _Stopped
            while self._budget.paused:
                if self._stop.wait(_PAUSE_S):
                    raise _Stopped
            versions += io.stat_versions(part, self._depth)
            self._swept += len(part)
        return versions

    def _map(self, volume: records.Volume, io: 'rados.Ioctx') -> None:
        oid = objectmap.name(volume.image_id)
        version, bound = _map_version(self._cluster, volume, self._record.cuts[volume.pool_id])
        self._seen[volume.ref] = seens.Volume(tuple(self._fingerprints), version)
        earlier = self._earlier.get(volume.ref)
        if version < bound and (earlier is None or version == earlier.map_version):
            return
        if objectmap.digest(io, volume.image_id) != volume.map_digest:
            self._dirty(f'{oid} of {volume.ref} changed: objects were created or discarded')
            return
        # An equal map may have changed in between: if the primary had created and discarded an
        # object, it would own the lock. Behind a fence only the contents count, which are equal: a
        # client that meets the fence may release its lock on the map, which touches it.
        if self._thorough:
            return
        owners = volumes.inspect(self._cluster, volume.ref).owners
        if owners & self._record.clients:
            self._dirty(f'{oid} of {volume.ref} was touched by the primary')
        elif volume.handed and not owners:
            # The primary may have taken its lock again, and handed it over again.
            self._unprove(f'{oid} of {volume.ref} was touched by a client that has gone')

    def _barrier(self, pool_id: int) -> None:
        """Send an operation with the osdmap of this client to every placement group of a pool.

        If the volumes are not clean, the primary is started again, and all its writes must have an
        end. If they are clean, a group that does not answer needs no barrier: none of the objects
        is in that group, since all of them were swept. librbd changes the object map before it
        creates an object, and the map, which a fenced client cannot change any more, is equal.

        :raises ClusterTimeout: a group does not answer, and the volumes are not clean
        """
        io, markers = _markers(self._cluster, self._record, pool_id)
        if self._first is not None or self._unproven is not None:
            io.stat_versions(markers, self._depth)
        else:
            io.stat_answered(markers, cuts.PATIENCE_S)

    def _groups(self) -> None:
        pools = self._cluster.pools()
        for pool_id, cut in self._record.cuts.items():
            pool = pools.get(pool_id)
            if pool is None:
                self._unprove(f'pool {pool_id} does not exist any more')
            # Groups split from a bounded group are bounded, too; merged groups are not. What the
            # first sweep has seen was compared for equality.
            elif not self._earlier and (
                    pool.pg_num < cut.pg_num or pool.merges != cut.merges):
                self._unprove(f'placement groups of pool {pool.name} were merged since the cut')

    def _dirty(self, reason: str) -> None:
        if self._first is None:
            self._first = reason

    def _unprove(self, reason: str) -> None:
        if self._unproven is None:
            self._unproven = reason


def changes(volume: records.Volume, facts: volumes.Facts) -> str | None:
    """Return how an image differs from its properties at the cut; None if it does not.

    Administrators and other services change images, too, also images of a server that has died.
    """
    if facts.image_id != volume.image_id:
        return f'image {volume.ref} was replaced by another one'
    if facts.size_bytes != volume.size_bytes:
        return f'image {volume.ref} was resized'
    if facts.features != volume.features or facts.invalid_map:
        return f'image {volume.ref} has other features, or its object map is invalid'
    return None


def barrier(cluster: ceph.Cluster, record: records.Record) -> None:
    """Send an operation with the osdmap of this client to every placement group of the pools.

    After this returns, no OSD accepts a write of a client that is blocklisted in that map.

    :raises ClusterTimeout: a placement group does not answer
    """
    for pool_id in record.cuts:
        io, markers = _markers(cluster, record, pool_id)
        io.stat_versions(markers, DEPTH)


def _batches(arrays: Iterable[npt.NDArray[numpy.int64]]) -> Iterator[list[int]]:
    for numbers in arrays:
        for start in range(0, len(numbers), _BATCH):
            yield numbers[start:start + _BATCH].tolist()


def _markers(cluster: ceph.Cluster, record: records.Record, pool_id: int
             ) -> tuple[librados.IoCtx, Sequence[bytes]]:
    pool = cuts.pool_facts(cluster, pool_id)
    namespace = record.namespace_of(pool_id)
    return (cluster.aio.ioctx(pool_id, namespace),
            placement_groups.markers(pool.pg_num, namespace, cuts.MARKER))


def moved(cluster: ceph.Cluster, volume: records.Volume, cut: records.Cut) -> bool:
    """Report whether the RADOS object of a volume's object map was touched after the cut."""
    version, bound = _map_version(cluster, volume, cut)
    return version >= bound


def _map_version(cluster: ceph.Cluster, volume: records.Volume, cut: records.Cut
                 ) -> tuple[int, int]:
    """Return the version of the RADOS object of a volume's object map, and its bound."""
    oid = objectmap.name(volume.image_id).encode()
    io = cluster.aio.ioctx(volume.pool_id, volume.namespace)
    version, = io.stat_versions([oid], 1)
    group, = cuts.groups_of([oid], volume.namespace, cut)
    return version, cut.versions[int(group)]


class BackgroundSweep:
    """Sweeps repeatedly in a thread, at a bounded pace, until dirty or until the context ends.

    :param on_dirty: called once, in the thread, with the report of the dirty sweep
    :param pace: objects per second at most, of all background sweeps together
    """

    def __init__(self, cluster: ceph.Cluster, record: records.Record,
                 on_dirty: Callable[[SweepReport], None], *, pace: float,
                 first: seens.FirstSweeps | None = None) -> None:
        if not pace > 0:
            raise errors.InvalidInput(f'the pace of a sweep must be positive, not {pace}')
        self._budget = pacing.budget(cluster)
        self._sweeper = Sweeper(cluster, record, pace=pace, first=first,
                                depth=min(DEPTH, max(1, int(pace / 20))))
        self._on_dirty = on_dirty
        self._ended = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._loop, daemon=True,
                                        name=f'watch-{record.id[:8]}')
        self.passes = 0
        self.error: errors.SuperError | None = None

    def __enter__(self) -> 'BackgroundSweep':
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
        self._thread.join()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Make the thread end, without waiting for that: an OSD may keep it from ending."""
        self._ended.set()
        self._sweeper.stop()

    def _loop(self) -> None:
        while not self._ended.is_set():
            try:
                report = self._sweeper.run()
            except _Stopped:
                return
            except errors.SuperError as exc:
                # A cluster that does not answer proves nothing: try again.
                self.error = exc
                self._ended.wait(_RETRY)
                continue
            self.error = None
            self.passes += 1
            if report.dirty:
                self._on_dirty(report)
                return
            # The sweep of an almost empty volume is so short that its header would be read in a
            # tight loop; a thousand of them would leave decisions no processor.
            self._ended.wait(max(self._budget.reserve(1, _PASSES), _SHORTEST - report.seconds,
                                 self._pause()))

    def _pause(self) -> float:
        """Return the seconds between two passes, which grow with the age of the watch."""
        return min((time.monotonic() - self._began) * _PAUSE, _LONGEST_PAUSE_S)


_RETRY = 0.2
_PAUSE_S = 0.02
_SHORTEST = 0.1
# Passes per second at most, of all background sweeps together. Each one opens its volumes and asks
# the monitors, which takes some milliseconds of the processor.
_PASSES = 100.0
# Part of its age for which a watch pauses between two passes, and seconds at most. A race takes a
# minute, and a decision sweeps by itself. Without pauses, a superposition that nobody decides
# takes a sixth of an OSD's processor for ever.
_PAUSE = 1 / 16
_LONGEST_PAUSE_S = 60.0
