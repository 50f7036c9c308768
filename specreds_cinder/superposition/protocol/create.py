# SPDX-License-Identifier: Apache-2.0
"""super: a set of volumes gets two versions."""

from collections.abc import Mapping, Sequence
from concurrent import futures
import dataclasses
import logging
import threading
import time
from typing import Any

from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import cut as cuts
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import ledger as ledgers
from specreds_cinder.superposition import objectmap
from specreds_cinder.superposition import overlay
from specreds_cinder.superposition import record as records
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
              server: str | None = None, *, superposition: str | None = None,
              joint: bool = False, labels: Mapping[str, Any] | None = None) -> records.Record:
        """Put a set of volumes into superposition: all of them, or none.

        The backup may read nothing of them before this returns.

        :param refs: the volumes of one server
        :param reason: why, for whoever looks at the record
        :param server: whose volumes they are, for whoever looks at the record
        :param superposition: its id, a UUID; by default a new one
        :param joint: it will be decided together with others: by :meth:`prepare` and
            :meth:`commit` instead of :meth:`collapse`
        :param labels: kept in the record, for the caller
        :raises InvalidInput: no volume, or one named twice
        :raises VolumeGone: a volume does not exist
        :raises NotEligible: a volume cannot be superposed
        :raises AlreadySuperposed: a volume is in a superposition
        :raises ClusterTimeout: Ceph did not answer in time
        """
        if not refs or len(set(refs)) != len(refs):
            raise errors.InvalidInput('name at least one volume, and each only once')
        began = time.monotonic()
        superposition = superposition or records.new_id()
        found = self._eligible(refs, superposition)
        now = records.now()
        record = self.store.create(records.Record(
            id=superposition, state=states.CREATING, volumes=found, created_at=now,
            changed_at=now, reason=reason, server=server, joint=joint,
            labels=dict(labels or {})))
        try:
            self._each(lambda volume: self.store.claim(volume, superposition, record.home),
                       record.volumes)
            record = self._take(record)
        except BaseException:
            self._undo(record)
            raise
        LOG.info('superposition %s of %s took %.0f ms', record.id,
                 ', '.join(str(ref) for ref in refs), (time.monotonic() - began) * 1e3)
        return record

    def _eligible(self, refs: Sequence[records.VolumeRef],
                  superposition: str) -> tuple[records.Volume, ...]:
        pools = self.cluster.pools()
        facts = self._each(lambda ref: volumes.inspect(self.cluster, ref), refs)
        for one in facts:
            if reasons := one.reasons(pools):
                raise errors.NotEligible(str(one.ref), reasons)
        return tuple(records.Volume(
            pool=one.ref.pool, namespace=one.ref.namespace, image=one.ref.image,
            image_id=one.image_id, pool_id=one.pool_id, data_pool_id=one.data_pool_id,
            data_pool=pools[one.data_pool_id].name, data_prefix=one.data_prefix, size=one.size,
            object_size=one.object_size, features=one.features,
            overlay=overlay.name(one.ref.image, superposition),
            clients=tuple(sorted(one.clients))) for one in facts)

    def _take(self, record: records.Record) -> records.Record:
        """Make the overlays and take the cuts, side by side; then the record says superposed."""
        pool_ids = sorted({pool_id for volume in record.volumes
                           for pool_id in (volume.pool_id, volume.data_pool_id)})
        with futures.ThreadPoolExecutor(len(pool_ids)) as executor:
            taking = {pool_id: executor.submit(
                self._cutter(pool_id, record.namespace_of(pool_id)).take)
                for pool_id in pool_ids}
            self._each(lambda volume: self._equip(volume, record.id), record.volumes)
            taken = {pool_id: future.result() for pool_id, future in taking.items()}
        mapped = self._each(lambda volume: self._mapped(volume, taken[volume.pool_id]),
                            record.volumes)
        return self.store.swap(record, record.moved(
            states.SUPERPOSED, cuts=taken, volumes=tuple(mapped)))

    def _equip(self, volume: records.Volume, superposition: str) -> None:
        """Enter the primary's clients into the ledger, and make the overlay."""
        self.ledger.enter(volume, volume.clients,
                          ledgers.Entry(ledgers.PRIMARY, superposition), replace=True)
        overlay.create(self.cluster, volume)

    def _mapped(self, volume: records.Volume, cut: records.Cut) -> records.Volume:
        """Note which objects exist at the cut.

        A map that has moved since the cut gets no fingerprint: no later sweep finds it clean.
        """
        with self.cluster.ioctx(volume.pool, volume.namespace) as io, \
                ceph.answering(f'read the object map of {volume.ref}'):
            digest = objectmap.digest(io, volume.image_id)
        if sweep.moved(self.cluster, volume, cut):
            digest = ''
        return dataclasses.replace(volume, map_digest=digest)

    def _cutter(self, pool_id: int, namespace: str) -> cuts.Cutter:
        with self._lock:
            key = (pool_id, namespace)
            if key not in self._cutters:
                self._cutters[key] = cuts.Cutter(
                    lambda: cuts.take(self.cluster, pool_id, namespace))
            return self._cutters[key]

    def _undo(self, record: records.Record) -> None:
        """Take a half-made superposition back; what cannot be is left to :meth:`resume`."""
        try:
            self._drop(self.reload(record), states.ABORTED)
        except errors.SuperError as exc:
            LOG.warning('superposition %s was left unfinished (%s): resume it', record.id, exc)
