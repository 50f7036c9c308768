# SPDX-License-Identifier: Apache-2.0
"""super: puts a set of volumes into superposition."""

from collections.abc import Collection, Mapping, Sequence
from concurrent import futures
import dataclasses
import logging
import threading
import time
from typing import Any

import tenacity

from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import cut as cuts
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import ledger as ledgers
from specreds_cinder.superposition import objectmap
from specreds_cinder.superposition import overlay
from specreds_cinder.superposition import rebuild
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import removal
from specreds_cinder.superposition import settings as tunables
from specreds_cinder.superposition import states
from specreds_cinder.superposition import sweep
from specreds_cinder.superposition import volume as volumes
from specreds_cinder.superposition.protocol import end

LOG = logging.getLogger(__name__)


class Creation(end.Ending):
    """Puts volumes into superposition."""

    def __init__(self, cluster: ceph.Cluster,
                 settings: tunables.Settings | None = None) -> None:
        super().__init__(cluster, settings)
        self._cutters: dict[tuple[int, str], cuts.Cutter] = {}
        self._lock = threading.Lock()

    def super(self, refs: Sequence[records.VolumeRef], reason: str = '',
              server_id: str | None = None, *, superposition: str | None = None,
              joint: bool = False, labels: Mapping[str, Any] | None = None,
              encrypted: Collection[records.VolumeRef] = (),
              read: Collection[records.VolumeRef] = ()) -> records.Record:
        """Put a set of volumes into superposition: all of them, or none.

        The backup must not open them before this returns.

        :param refs: the volumes of one server
        :param reason: reason of the superposition, kept in the record
        :param server_id: id of the server, kept in the record
        :param superposition: id of the superposition, a UUID; by default a new one
        :param joint: decided together with others, by :meth:`prepare` and :meth:`commit` instead
            of :meth:`collapse`
        :param labels: values of the caller, kept in the record
        :param encrypted: those of the volumes that servers open with a key
        :param read: those of the volumes that another host reads, beside the server's. Its client
            is fenced with the primary
        :raises InvalidInput: no volume is named, or one is named twice
        :raises VolumeGone: a volume does not exist
        :raises NotEligible: a volume cannot be superposed
        :raises AlreadySuperposed: a volume is in a superposition
        :raises ClusterTimeout: Ceph did not answer in time
        :raises Rebuilding: the client of a volume rebuilds its object map
        """
        if not refs or len(set(refs)) != len(refs):
            raise errors.InvalidInput('name at least one volume, and each only once')
        began = time.monotonic()
        superposition = superposition or records.new_id()
        eligible, ended = self._eligible(refs, superposition, frozenset(encrypted),
                                         frozenset(read))
        now = records.now()
        record = self.store.create(records.Record(
            id=superposition, state=states.CREATING, volumes=eligible, created_at=now,
            updated_at=now, reason=reason, server_id=server_id, joint=joint,
            labels=dict(labels or {})))
        try:
            self._each(lambda volume: self.store.claim(volume, superposition, record.home),
                       record.volumes)
            self._each(lambda pair: self._note_ended(*pair),
                       list(zip(record.volumes, ended, strict=True)))
            record = self._take(record)
        except BaseException:
            self._undo(record)
            raise
        LOG.info('superposition %s of %s: created in %.0f ms', record.id,
                 ', '.join(str(ref) for ref in refs), (time.monotonic() - began) * 1e3)
        return record

    def _eligible(self, refs: Sequence[records.VolumeRef], superposition: str,
                  encrypted: Collection[records.VolumeRef], read: Collection[records.VolumeRef]
                  ) -> tuple[tuple[records.Volume, ...], tuple[ledgers.Entries, ...]]:
        """Return volumes as records describe them, and the watchers of each that have ended.

        :raises NotEligible: a volume cannot be superposed
        """
        pools = self.cluster.pools()
        inspected = self._each(lambda ref: rebuild.inspect(self.cluster, ref), refs)
        without = [self._without_ended(image) for image in inspected]
        facts, ended = [image for image, _ in without], [dead for _, dead in without]
        for image in facts:
            if reasons := image.reasons(pools, encrypted=image.ref in encrypted,
                                        read=image.ref in read):
                raise errors.NotEligible(str(image.ref), reasons)
        eligible = tuple(recorded(image, pools, overlay.name(image.ref.image, superposition),
                                  encrypted=image.ref in encrypted) for image in facts)
        return eligible, tuple(ended)

    def objections(self, ref: records.VolumeRef, *, encrypted: bool = False,
                   read: bool = False) -> list[str]:
        """Return the reasons why :meth:`super` refuses a volume at the moment.

        Nothing is changed but an invalid object map, which the volume's client rebuilds.

        :param encrypted: servers open it with a key
        :param read: another host reads it, beside the server's
        :returns: the reasons; none if the volume is accepted
        """
        try:
            holder = self.find(ref)
        except errors.NotSuperposed:
            pass
        else:
            return [f'it is in superposition {holder.id} already']
        try:
            image, _ended = self._without_ended(rebuild.inspect(self.cluster, ref))
            return image.reasons(self.cluster.pools(), encrypted=encrypted, read=read)
        except errors.NotEligible as exc:
            return list(exc.reasons)
        except (errors.VolumeGone, errors.Rebuilding) as exc:
            return [str(exc)]

    def _without_ended(self, image: volumes.Facts) -> tuple[volumes.Facts, ledgers.Entries]:
        """Return an image without its watchers that have ended, and these."""
        ended = self._ended(image)
        return dataclasses.replace(image, clients=image.clients - ended.keys()), ended

    def _ended(self, image: volumes.Facts) -> ledgers.Entries:
        """Return the watchers of an image that are fenced for good, if it has several hosts.

        An OSD may list a dead client as a watcher for ever. One that an earlier decision has
        fenced writes nothing, so that it is not the primary. A client that owns the lock, or that
        another program has blocklisted, counts as any other.

        :returns: their entries in the ledger
        """
        if image.hosts < 2:
            return {}
        listed = self.fenced_clients.read(image.ref.home).entries
        watchers = (image.clients - image.owners) & listed.keys()
        return {client: ledgers.Entry(ledgers.PRIMARY, listed[client].superposition)
                for client in watchers - self.fence.outside(watchers)}

    def _note_ended(self, volume: records.Volume, ended: ledgers.Entries) -> None:
        """Enter watchers that have ended into the ledger, as clients of an earlier superposition.

        They are therefore never the backup's, and their fence is never lifted.
        """
        for client, entry in ended.items():
            self.ledger.enter(volume, [client], entry, replace=True)
            LOG.info('client %s of %s is listed as a watcher, but was fenced by superposition %s: '
                     'it does not count as the primary', client, volume.ref, entry.superposition)

    def _take(self, record: records.Record) -> records.Record:
        """Create the overlays and take the cuts in parallel, then swap the record."""
        with futures.ThreadPoolExecutor(1) as executor:
            taking = executor.submit(self._cuts, record)
            self._each(lambda volume: self._equip(volume, record), record.volumes)
            taken_cuts = taking.result()
        mapped = self._each(lambda volume: self._mapped(volume, taken_cuts[volume.pool_id]),
                            record.volumes)
        return self.store.swap(record, record.moved(
            states.SUPERPOSED, cuts=taken_cuts, volumes=tuple(mapped)))

    def _cuts(self, record: records.Record) -> dict[int, records.Cut]:
        """Take the cuts of all pools, until they bound all groups with objects of the volumes.

        :raises ClusterTimeout: such a group does not answer
        """
        pool_ids = sorted({pool_id for volume in record.volumes
                           for pool_id in (volume.pool_id, volume.data_pool_id)})
        deadline = time.monotonic() + self.cluster.timeout
        with futures.ThreadPoolExecutor(len(pool_ids)) as executor:
            while True:
                taking = {pool_id: executor.submit(
                    self._cutter(pool_id, record.namespace_of(pool_id)).take)
                    for pool_id in pool_ids}
                taken_cuts = {pool_id: future.result() for pool_id, future in taking.items()}
                silent = next((volume for volume in record.volumes
                               if not cuts.bounded(self.cluster, volume, taken_cuts)), None)
                if silent is None:
                    return taken_cuts
                if time.monotonic() > deadline:
                    raise errors.ClusterTimeout(
                        f'a placement group with objects of {silent.ref} does not answer')

    def _equip(self, volume: records.Volume, record: records.Record) -> None:
        """Enter the primary's clients into the ledger, arm the latch, and create the overlay."""
        self.ledger.enter(volume, volume.clients, ledgers.Entry(ledgers.PRIMARY, record.id),
                          replace=True)
        self.latch.arm(volume, record.id)
        overlay.create(self.cluster, volume)

    def _mapped(self, volume: records.Volume, cut: records.Cut) -> records.Volume:
        """Return a volume with the fingerprint of its object map, and its discards, at the cut.

        A map that has changed since the cut gets none, so that no later sweep finds it clean.
        """
        with self.cluster.ioctx(volume.pool, volume.namespace) as io, \
                ceph.answering(f'read the object map of {volume.ref}'):
            digest = objectmap.digest(io, volume.image_id)
            pending = self._existing(volume, objectmap.pending(io, volume.image_id))
        if sweep.moved(self.cluster, volume, cut):
            digest = ''
        return dataclasses.replace(volume, map_digest=digest, pending=pending)

    def _existing(self, volume: records.Volume, numbers: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of the objects of a volume that exist."""
        io = self.cluster.aio.ioctx(volume.data_pool_id, volume.namespace)
        versions = io.stat_versions([b'%s.%016x' % (volume.data_prefix.encode(), number)
                                     for number in numbers], sweep.DEPTH)
        return tuple(number for number, version in zip(numbers, versions, strict=True) if version)

    def _cutter(self, pool_id: int, namespace: str) -> cuts.Cutter:
        with self._lock:
            key = (pool_id, namespace)
            if key not in self._cutters:
                self._cutters[key] = cuts.Cutter(
                    lambda: cuts.take(self.cluster, pool_id, namespace))
            return self._cutters[key]

    def _undo(self, record: records.Record) -> None:
        """Remove a superposition whose creation failed; :meth:`resume` removes the rest."""
        try:
            self._drop_created(record)
        except errors.SuperError as exc:
            LOG.warning('superposition %s could not be created, and its remains not be removed: '
                        'resume it (%s)', record.id, exc)

    # Another controller that drops it, too, changes the record twice at most.
    @tenacity.retry(retry=tenacity.retry_if_exception_type(
        (errors.RecordChanged, errors.NotSuperposed)), reraise=True,
        stop=tenacity.stop_after_attempt(5))
    def _drop_created(self, record: records.Record) -> None:
        """Drop a superposition that this controller has created, also if another one did."""
        try:
            current = self.reload(record)
        except errors.NotSuperposed:
            # What this controller has made since is not removed by the other one.
            self._clean(dataclasses.replace(
                record, state=states.ABORTING, outcome=states.ABORTED),
                evict=self.settings.evict_backup)
        else:
            self._drop(current, states.ABORTED)
        for home in record.homes:
            removal.again(self.cluster, home,
                          names={volume.overlay for volume in record.volumes})


def recorded(image: volumes.Facts, pools: Mapping[int, ceph.Pool],
             overlay_name: str, *, encrypted: bool = False) -> records.Volume:
    """Return a volume as records describe it.

    :param encrypted: servers open it with a key
    """
    return records.Volume(
        pool=image.ref.pool, namespace=image.ref.namespace, image=image.ref.image,
        image_id=image.image_id, pool_id=image.pool_id, data_pool_id=image.data_pool_id,
        data_pool=pools[image.data_pool_id].name, data_prefix=image.data_prefix,
        size_bytes=image.size_bytes, object_size=image.object_size, features=image.features,
        overlay=overlay_name, clients=tuple(sorted(image.clients)),
        luks_bytes=image.luks.length if encrypted and image.luks is not None else 0)
