# SPDX-License-Identifier: Apache-2.0
"""The base of all steps of the protocol: the cluster, and the records of superpositions."""

import builtins
from collections.abc import Callable, Collection, Sequence
from concurrent import futures
import contextlib
import dataclasses
import logging
import threading
from typing import Any, TypeVar

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import settings as tunables
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.evidence import cut as cuts
from specreds_cinder.superposition.evidence import seen as seens
from specreds_cinder.superposition.exclusion import dropped as drops
from specreds_cinder.superposition.exclusion import fence
from specreds_cinder.superposition.exclusion import fenced as fences
from specreds_cinder.superposition.exclusion import latch as latches
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.superposition.truth import store as stores

LOG = logging.getLogger(__name__)

_T = TypeVar('_T')
_R = TypeVar('_R')


class Site:
    """The superpositions on one cluster, by their records. Safe to share between threads."""

    def __init__(self, cluster: ceph.Cluster, settings: tunables.Settings | None = None) -> None:
        self.cluster = cluster
        self.settings = settings or tunables.Settings()
        self.store = stores.Store(cluster)
        self.ledger = ledgers.Ledger(cluster)
        self.fenced_clients = fences.FencedClients(cluster)
        self.dropped = drops.Dropped(cluster)
        self.latch = latches.Latch(cluster, self.store)
        self.first_sweeps = seens.FirstSweeps()
        self.fence = fence.Fence(cluster, self.settings.fence_expiry_s)
        self._cutters: dict[tuple[int, str], cuts.Cutter] = {}
        self._lock = threading.Lock()
        # The superpositions whose records are known to be unreadable.
        self._unreadable: set[str] = set()

    def show(self, superposition: str, home: records.Home) -> records.Record:
        """Return a superposition by its id and the home of one of its volumes.

        :raises NotSuperposed: it does not exist, or has ended
        """
        try:
            return self.store.read(superposition, home)
        except errors.NotSuperposed:
            entry = self.store.index(home, superposition).get(superposition)
            if entry is None or entry.home == home:
                raise
            return self.store.read(superposition, entry.home)

    def reload(self, record: records.Record) -> records.Record:
        """Return the current record of a superposition."""
        return self.store.read(record.id, record.home)

    def there(self, record: records.Record) -> records.Record:
        """Return a record without the volumes whose pool was removed: nothing is left of them.

        A pool that has another name is still there by its id, and a copy of it by its name.
        """
        pools = self.cluster.pools()
        names = {pool.name for pool in pools.values()}
        volumes_there = tuple(volume for volume in record.volumes
                              if volume.pool_id in pools or volume.pool in names)
        if volumes_there == record.volumes:
            return record
        for volume in set(record.volumes) - set(volumes_there):
            LOG.warning('superposition %s: the pool of %s was removed, and the volume with it',
                        record.id, volume.ref)
        used = {pool_id for volume in volumes_there
                for pool_id in (volume.pool_id, volume.data_pool_id)}
        return dataclasses.replace(record, volumes=volumes_there, cuts={
            pool_id: cut for pool_id, cut in record.cuts.items() if pool_id in used})

    def assert_unchanged(self, record: records.Record) -> None:
        """Make sure that no other controller has changed a record.

        :raises RecordChanged: another one has
        :raises NotSuperposed: another one has removed it
        """
        if self.reload(record).version != record.version:
            raise errors.RecordChanged(
                f'superposition {record.id} was changed by another controller meanwhile; '
                f'look at it again')

    def list(self, home: records.Home, unreadable: dict[str, errors.ClusterError] | None = None
             ) -> 'builtins.list[records.Record]':
        """Return the superpositions that have a volume in a home, oldest first.

        Those whose records cannot be read are left out, and logged once. A placement group that
        does not answer may have a record, and must not keep the others from being continued.

        :param unreadable: receives the errors of those that are left out, by id
        :raises ClusterTimeout: Ceph did not answer when the index was read
        """
        def read(entry: tuple[str, stores.Entry]) -> records.Record | None:
            try:
                return self.store.read(entry[0], entry[1].home)
            except errors.NotSuperposed:
                return None
            except errors.ClusterError as exc:
                self._leave_out(entry[0], entry[1].home, exc)
                if unreadable is not None:
                    unreadable[entry[0]] = exc
                return None
        listed = self.each(read, tuple(self.store.index(home).items()))
        return sorted((record for record in listed if record is not None),
                      key=lambda record: record.created_at)

    def _leave_out(self, superposition: str, home: records.Home, error: errors.ClusterError
                   ) -> None:
        if superposition not in self._unreadable:
            self._unreadable.add(superposition)
            remedy = ('Its pool was removed or renamed' if isinstance(error, errors.PoolGone) else
                      'If a newer release has written the object, upgrade this service. Otherwise '
                      'the object is damaged: copy it before you repair it'
                      if isinstance(error, errors.UnreadableObject) else
                      'It is read again at each pass')
            LOG.error('object %s in %s: %s. Superposition %s is neither continued nor fenced '
                      'anew; others are. %s', stores.object_name(superposition), home, error,
                      superposition, remedy)

    def find(self, ref: records.VolumeRef) -> records.Record:
        """Return the superposition that a volume is in.

        :raises NotSuperposed: the volume is in none
        :raises UnreadableObject: the volume is, or may be, in one whose record cannot be read
        """
        try:
            with volumes.opened(self.cluster, ref) as image:
                image_id = image.id()
        except errors.VolumeGone:
            unreadable: dict[str, errors.ClusterError] = {}
            for record in self.list(ref.home, unreadable):
                if ref in {volume.ref for volume in record.volumes}:
                    return record
            for error in unreadable.values():
                raise error from None
            raise errors.NotSuperposed(f'volume {ref} is in no superposition') from None
        claim, last = self.store.claimed(ref.home, image_id), None
        # The record of a claim is gone if the superposition has ended since the claim was read.
        # Another one may have claimed the volume by now.
        while claim is not None and claim != last:
            with contextlib.suppress(errors.NotSuperposed):
                return self.store.read(claim.superposition, claim.home)
            claim, last = self.store.claimed(ref.home, image_id), claim
        raise errors.NotSuperposed(f'volume {ref} is in no superposition')

    def overlay_bytes(self, record: records.Record) -> int:
        """Return the bytes that the overlays of a superposition take in Ceph."""
        return sum(self.each(lambda volume: overlay.used_bytes(self.cluster, volume),
                             record.volumes))

    @staticmethod
    def overlay_capacity(record: records.Record) -> int:
        """Return the sum of the virtual sizes of a superposition's overlays, in bytes."""
        return sum(overlay.presized(volume.size_bytes) for volume in record.volumes)

    def fence_left(self, record: records.Record) -> float | None:
        """Return the seconds until the fence of a superposition expires; None without a fence."""
        left = self.fence.remaining()
        return min((left[client] for client in record.fenced if client in left), default=None)

    def cutter(self, pool_id: int, namespace: str) -> cuts.Cutter:
        """Return what takes the cuts of a pool and namespace for all callers."""
        with self._lock:
            return self._cutters.setdefault((pool_id, namespace), cuts.Cutter(
                lambda: cuts.take(self.cluster, pool_id, namespace)))

    def tidy_index(self, home: records.Home, older_s: float) -> int:
        """Remove index entries whose record was never written, or is gone.

        :param older_s: age in seconds up to which entries stay: their record may be written yet
        :returns: number of entries that were removed
        """
        gone = self.store.missing({
            superposition: entry for superposition, entry in self.store.index(home).items()
            if entry.age_seconds >= older_s})
        for superposition in gone:
            self.store.unlist(superposition, home)
        return len(gone)

    def label(self, record: records.Record, **labels: Any) -> records.Record:
        """Set some of a superposition's labels.

        A merge that runs meanwhile fails, since the record has changed: a label therefore can
        announce that the overlays of a promoted superposition are about to be opened.

        :raises RecordChanged: another controller changed the record in between
        """
        record = self.reload(record)
        return self.store.swap(record, dataclasses.replace(
            record, labels={**record.labels, **labels}))

    def keep_fenced(self, homes: Collection[records.Home], clients: Collection[str],
                    superposition: str, server_id: str | None = None,
                    fenced_at: str | None = None) -> None:
        """List clients whose blocklist entries outlive the superposition, or the fence.

        :param homes: the homes of all volumes: each list tells of the clients of its volumes
        :param fenced_at: a time at which all of them were fenced already, by default this moment
        """
        entry = fences.Entry(superposition, server_id, fenced_at or records.now())
        for home in homes:
            self.fenced_clients.enter(home, clients, entry)

    def admit(self, record: records.Record, request: str, *steps: str) -> records.Record:
        """Return the current record, in a state that admits a request.

        :param steps: steps one of which the request has to take; any step if none is named
        :raises Conflict: it is in another state
        """
        record = self.reload(record)
        allowed = [state for state in states.STATES if request in states.STEPS[state]
                   and (not steps or states.STEPS[state][request] in steps)]
        if record.state not in allowed:
            raise errors.Conflict(
                f'superposition {record.id} is {record.state}, not {" or ".join(allowed)}',
                record.state)
        return record

    def each(self, work: Callable[[_T], _R], items: Sequence[_T]) -> 'builtins.list[_R]':
        """Call a function for several items at a time; all calls end before an error is raised."""
        if len(items) < 2:
            return [work(item) for item in items]
        with futures.ThreadPoolExecutor(min(self.settings.workers, len(items))) as executor:
            pending = [executor.submit(work, item) for item in items]
        return [future.result() for future in pending]

    def users(self, record: records.Record) -> frozenset[str]:
        """Return the clients that have the overlays of a superposition open."""
        return frozenset().union(*self.each(
            lambda volume: self.visible(volumes.watchers, volume.overlay_ref), record.volumes))

    def owners(self, record: records.Record) -> frozenset[str]:
        """Return the clients that own the lock of an overlay of a superposition.

        One that hangs owns the lock long after its watch has expired, whether a look has entered
        the client into the ledger or not.
        """
        return frozenset().union(*self.each(
            lambda volume: self.visible(volumes.owners, volume.overlay_ref), record.volumes))

    def visible(self, clients: Callable[[ceph.Cluster, records.VolumeRef, str | None],
                                        frozenset[str]],
                ref: records.VolumeRef, image_id: str | None = None) -> frozenset[str]:
        """Return the clients of an image by a function; none if the image is gone."""
        with contextlib.suppress(errors.VolumeGone):
            return clients(self.cluster, ref, image_id)
        return frozenset()
