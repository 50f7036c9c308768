# SPDX-License-Identifier: Apache-2.0
"""super: puts a set of volumes into superposition."""

from collections.abc import Collection, Mapping, Sequence
from concurrent import futures
import dataclasses
import logging
import time
from typing import Any

import tenacity

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.evidence import cut as cuts
from specreds_cinder.superposition.evidence import objectmap
from specreds_cinder.superposition.evidence import rebuild
from specreds_cinder.superposition.evidence import sweep
from specreds_cinder.superposition.exclusion import handover
from specreds_cinder.superposition.exclusion import ledger as ledgers
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.overlay import removal
from specreds_cinder.superposition.steps import base
from specreds_cinder.superposition.steps import clients as looks
from specreds_cinder.superposition.steps import end
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states

LOG = logging.getLogger(__name__)


def superpose(site: base.Site, refs: Sequence[records.VolumeRef], reason: str = '',
              server_id: str | None = None, *, superposition: str | None = None,
              labels: Mapping[str, Any] | None = None,
              encrypted: Collection[records.VolumeRef] = (),
              read: Collection[records.VolumeRef] = (),
              dead: bool = False) -> records.Record:
    """Put a set of volumes into superposition: all of them, or none.

    The backup must not open them before this returns.

    :param refs: the volumes of one server
    :param reason: reason of the superposition, kept in the record
    :param server_id: id of the server, kept in the record
    :param superposition: id of the superposition, a UUID; by default a new one
    :param labels: values of the caller, kept in the record
    :param encrypted: the volumes that servers open with a key
    :param read: the volumes that another host reads, beside the server's. Its client
        is fenced with the primary
    :param dead: the only host with clients of the volumes is dead as a fact. They are fenced
        before the cut, and no decision sweeps, unless a client may live: the host may have booted
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
    eligible, ended, owned = _eligible(site, refs, superposition, frozenset(encrypted),
                                       frozenset(read))
    fenced = _dead(site, eligible) if dead and not read else ()
    now = records.now()
    record = site.store.create(records.Record(
        id=superposition, state=states.CREATING, volumes=eligible, created_at=now,
        updated_at=now, reason=reason, server_id=server_id, fenced=fenced,
        labels=dict(labels or {})))
    try:
        site.each(lambda volume: site.store.claim(volume, superposition, record.home),
                  record.volumes)
        site.each(lambda pair: _note_ended(site, *pair),
                  list(zip(record.volumes, ended, strict=True)))
        record = _take(site, record, owned)
    except BaseException:
        _undo(site, record)
        raise
    LOG.info('superposition %s of %s: created in %.0f ms', record.id,
             ', '.join(str(ref) for ref in refs), (time.monotonic() - began) * 1e3)
    return record


def _eligible(site: base.Site, refs: Sequence[records.VolumeRef], superposition: str,
              encrypted: Collection[records.VolumeRef], read: Collection[records.VolumeRef]
              ) -> tuple[tuple[records.Volume, ...], tuple[ledgers.Entries, ...],
                         frozenset[str]]:
    """Return volumes as records describe them, and the watchers of each that have ended.

    :returns: also the ids of the images whose only client owns the lock, and that nobody reads
    :raises NotEligible: a volume cannot be superposed
    """
    pools = site.cluster.pools()
    inspected = site.each(lambda ref: rebuild.inspect(site.cluster, ref), refs)
    without = [_without_ended(site, image) for image in inspected]
    facts, ended = [image for image, _ in without], [dead for _, dead in without]
    for image in facts:
        if reasons := image.reasons(pools, encrypted=image.ref in encrypted,
                                    read=image.ref in read):
            raise errors.NotEligible(str(image.ref), reasons)
    eligible = tuple(recorded(image, pools, overlay.name(image.ref.image, superposition),
                              encrypted=image.ref in encrypted) for image in facts)
    owned = frozenset(image.image_id for image in facts if image.ref not in read
                      and len(image.clients) == 1 and image.clients == image.owners)
    return eligible, tuple(ended), owned


def _dead(site: base.Site, eligible: Sequence[records.Volume]) -> tuple[str, ...]:
    """Return the clients of volumes whose host is dead as a fact; none if one may live.

    A host that has booted since has the same address, and may have started a server again. Its
    clients answer. Among several clients of a volume, nobody can tell who has answered.
    """
    used = [volume for volume in eligible if volume.clients]
    if any(len(volume.clients) > 1 for volume in used) or any(
            site.each(lambda volume: handover.lives(site.cluster, volume), used)):
        LOG.warning('clients of %s may live, although their host is said to be dead: they are '
                    'not fenced first', ', '.join(str(volume.ref) for volume in eligible))
        return ()
    return tuple(sorted({client for volume in used for client in volume.clients}))


def objections(site: base.Site, ref: records.VolumeRef, *, encrypted: bool = False,
               read: bool = False) -> list[str]:
    """Return the reasons why :func:`superpose` refuses a volume at the moment.

    Nothing is changed but an invalid object map, which the volume's client rebuilds.

    :param encrypted: servers open it with a key
    :param read: another host reads it, beside the server's
    :returns: the reasons; none if the volume is accepted
    """
    try:
        holder = site.find(ref)
    except errors.NotSuperposed:
        pass
    else:
        return [f'it is in superposition {holder.id} already']
    try:
        image, _ended = _without_ended(site, rebuild.inspect(site.cluster, ref))
        return image.reasons(site.cluster.pools(), encrypted=encrypted, read=read)
    except errors.NotEligible as exc:
        return list(exc.reasons)
    except (errors.VolumeGone, errors.Rebuilding) as exc:
        return [str(exc)]


def _without_ended(site: base.Site, image: volumes.Facts) -> tuple[volumes.Facts, ledgers.Entries]:
    """Return an image without its watchers that have ended, and these."""
    ended = _ended(site, image)
    return dataclasses.replace(image, clients=image.clients - ended.keys()), ended


def _ended(site: base.Site, image: volumes.Facts) -> ledgers.Entries:
    """Return the watchers of an image that are fenced for good, if it has several hosts.

    An OSD may list a dead client as a watcher for ever. One that an earlier decision has
    fenced writes nothing, so that it is not the primary. A client that owns the lock, or that
    another program has blocklisted, counts as any other.

    :returns: their entries in the ledger
    """
    if image.hosts < 2:
        return {}
    listed = site.fenced_clients.read(image.ref.home).entries
    watchers = (image.clients - image.owners) & listed.keys()
    return {client: ledgers.Entry(ledgers.PRIMARY, listed[client].superposition)
            for client in watchers - site.fence.outside(watchers)}


def _note_ended(site: base.Site, volume: records.Volume, ended: ledgers.Entries) -> None:
    """Enter watchers that have ended into the ledger, as clients of an earlier superposition.

    They are therefore never the backup's, and their fence is never lifted.
    """
    for client, entry in ended.items():
        site.ledger.enter(volume, [client], entry, replace=True)
        LOG.info('client %s of %s is listed as a watcher, but was fenced by superposition %s: '
                 'it does not count as the primary', client, volume.ref, entry.superposition)


def _take(site: base.Site, record: records.Record, owned: Collection[str]) -> records.Record:
    """Create the overlays, take the cuts and look at the index at once, then swap the record.

    :param owned: ids of the images whose owners are asked to hand their locks over
    """
    owned_volumes = [volume for volume in record.volumes if volume.image_id in owned]
    if record.fenced:
        record = _seal_first(site, record)
        owned_volumes = []
    with futures.ThreadPoolExecutor(2) as executor:
        taking = executor.submit(_handed_over_and_cut, site, record, owned_volumes)
        listing = executor.submit(site.store.enter_again, record)
        site.each(lambda volume: _equip(site, volume, record), record.volumes)
        handed, taken_cuts = taking.result()
        listing.result()
    mapped = site.each(
        lambda volume: _mapped(site, volume, taken_cuts[volume.pool_id], volume in handed),
        record.volumes)
    return site.store.swap(record, record.moved(
        states.SUPERPOSED, cuts=taken_cuts, volumes=tuple(mapped)))


def _seal_first(site: base.Site, record: records.Record) -> records.Record:
    """Fence a primary that is dead, and close the latches, before the cuts.

    A placement group that answers a cut has the osdmap of the cut, and refuses a fenced client
    from then on. Behind the latches, nobody else takes a lock.

    :returns: the record, with the version of each header whose lock no living client has
    """
    site.each(lambda volume: _enter_primary(site, volume, record), record.volumes)
    clients = frozenset(record.fenced) | looks.entries(site, record).keys()
    if clients != set(record.fenced):
        record = looks.fencing(site, record, tuple(sorted(clients)))
    site.assert_unchanged(record)
    with trace.span('fence', record.id):
        site.fence.close(clients)
    site.each(lambda volume: site.latch.arm(volume, record.id), record.volumes)
    # Whoever drops the record after this disarms the latches, so that none is closed.
    site.assert_unchanged(record)

    def seal(volume: records.Volume) -> records.Volume:
        site.latch.close(volume, record.id)
        sealed = volumes.owners(site.cluster, volume.ref) <= clients
        return dataclasses.replace(
            volume, handed=site.latch.version(volume, record.id) if sealed else 0)
    with trace.span('seal', record.id):
        return dataclasses.replace(record, volumes=tuple(site.each(seal, record.volumes)))


def _handed_over_and_cut(site: base.Site, record: records.Record,
                         owned_volumes: Sequence[records.Volume]
                         ) -> tuple[list[records.Volume], dict[int, records.Cut]]:
    """Ask for the locks of volumes, and then take the cuts.

    Whoever lets go of a lock writes what it has cached, and touches the object map.

    :returns: the volumes whose primary has handed its lock over, and the cuts
    """
    with trace.span('handover', record.id):
        let_go = site.each(
            lambda volume: handover.request(site.cluster, site.latch, volume), owned_volumes)
    return ([volume for volume, each in zip(owned_volumes, let_go, strict=True) if each],
            _cuts(site, record))


def _cuts(site: base.Site, record: records.Record) -> dict[int, records.Cut]:
    """Take the cuts of all pools, until they bound all groups with objects of the volumes.

    :raises ClusterTimeout: such a group does not answer
    """
    pool_ids = sorted({pool_id for volume in record.volumes
                       for pool_id in (volume.pool_id, volume.data_pool_id)})
    deadline = time.monotonic() + site.cluster.timeout
    with futures.ThreadPoolExecutor(len(pool_ids)) as executor:
        while True:
            taking = {pool_id: executor.submit(
                site.cutter(pool_id, record.namespace_of(pool_id)).take)
                      for pool_id in pool_ids}
            taken_cuts = {pool_id: future.result() for pool_id, future in taking.items()}
            silent = next((volume for volume in record.volumes
                           if not cuts.bounded(site.cluster, volume, taken_cuts)), None)
            if silent is None:
                return taken_cuts
            answered = False
            # A cut costs a write in each group, so only silent groups are asked again.
            while not answered:
                if time.monotonic() > deadline:
                    raise errors.ClusterTimeout(
                        f'a placement group with objects of {silent.ref} does not answer')
                answered = any(cuts.any_answers(
                    site.cluster, pool_id, record.namespace_of(pool_id), cut)
                    for pool_id, cut in taken_cuts.items())


def _equip(site: base.Site, volume: records.Volume, record: records.Record) -> None:
    """Enter the primary's clients into the ledger, arm the latch, and create the overlay."""
    if not record.fenced:
        _enter_primary(site, volume, record)
        site.latch.arm(volume, record.id)
    overlay.create(site.cluster, volume)


def _enter_primary(site: base.Site, volume: records.Volume, record: records.Record) -> None:
    site.ledger.enter(volume, volume.clients, ledgers.Entry(ledgers.PRIMARY, record.id),
                      replace=True)


def _mapped(site: base.Site, volume: records.Volume, cut: records.Cut, handed: bool
            ) -> records.Volume:
    """Return a volume with the fingerprint of its object map, and its discards, at the cut.

    A map that has changed since the cut gets none, so that no later sweep finds it clean.

    :param handed: its primary has handed the lock over
    """
    with site.cluster.ioctx(volume.pool, volume.namespace) as io, \
            ceph.answering(f'read the object map of {volume.ref}'):
        digest = objectmap.digest(io, volume.image_id)
        pending = _existing(site, volume, objectmap.pending(io, volume.image_id))
    if sweep.moved(site.cluster, volume, cut):
        digest = ''
    version = _unowned(site, volume) if handed else volume.handed
    # A change after this look changes the header. One before it is left to the sweeps.
    if version and sweep.changes(volume, volumes.inspect(site.cluster, volume.ref)):
        version = 0
    return dataclasses.replace(volume, map_digest=digest, pending=pending, handed=version)


def _unowned(site: base.Site, volume: records.Volume) -> int:
    """Return the version of a volume's header, as long as nobody may write without changing it.

    A client that hung when another one broke its lock takes itself for the owner. The ledger has
    such a client, unless the client has been fenced for good.

    :returns: 0 if somebody may
    """
    others = site.ledger.read(volume).keys() - set(volume.clients)
    if site.fence.outside(others):
        return 0
    return site.latch.unowned(volume)


def _existing(site: base.Site, volume: records.Volume, numbers: Sequence[int]) -> tuple[int, ...]:
    """Return the numbers of the objects of a volume that exist."""
    io = site.cluster.aio.ioctx(volume.data_pool_id, volume.namespace)
    versions = io.stat_versions([b'%s.%016x' % (volume.data_prefix.encode(), number)
                                 for number in numbers], sweep.DEPTH)
    return tuple(number for number, version in zip(numbers, versions, strict=True) if version)


def _undo(site: base.Site, record: records.Record) -> None:
    """Remove a superposition whose creation failed; :meth:`Protocol.resume` removes the rest."""
    try:
        _drop_created(site, record)
    except errors.SuperError as exc:
        LOG.warning('superposition %s could not be created, and its remains not be removed: '
                    'resume it (%s)', record.id, exc)


# Another controller that drops it, too, changes the record twice at most.
@tenacity.retry(
    retry=tenacity.retry_if_exception_type((errors.RecordChanged, errors.NotSuperposed)),
    reraise=True, stop=tenacity.stop_after_attempt(5))
def _drop_created(site: base.Site, record: records.Record) -> None:
    """Drop a superposition that this controller has created, also if another one did."""
    try:
        current = site.reload(record)
    except errors.NotSuperposed:
        # What this controller has made since is not removed by the other one.
        end.clean(site, dataclasses.replace(
            record, state=states.ABORTING, outcome=states.ABORTED), evict=True)
    else:
        end.drop(site, current, states.ABORTED)
    for home in record.homes:
        removal.again(site.cluster, home, names={volume.overlay for volume in record.volumes})


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
