# SPDX-License-Identifier: Apache-2.0
"""The properties of an RBD image at one moment, and whether it can be superposed."""

from collections.abc import Iterable, Iterator, Mapping
import contextlib
import dataclasses
import pathlib
import time
from typing import Any

import rbd

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import overrides
from specreds_cinder.superposition.evidence import placement_groups
from specreds_cinder.superposition.exclusion import latch
from specreds_cinder.superposition.overlay import luks
from specreds_cinder.superposition.truth import record as records

# The object that holds the options of a pool.
_POOL_OPTIONS = 'rbd_info'
_SECTOR = 512
# The largest disk of a qcow2 image with clusters of 16 KiB, as overlays have them.
_LARGEST = 64 << 40
_NEEDED = {
    rbd.RBD_FEATURE_EXCLUSIVE_LOCK:
        'it has no exclusive-lock (a multi-attach volume has none): with one writer only, enable '
        'it by "rbd feature enable exclusive-lock,object-map,fast-diff"',
    rbd.RBD_FEATURE_OBJECT_MAP:
        'it has no object-map: enable it by "rbd feature enable object-map,fast-diff"',
}
# Missing from python-rbd; values of src/include/rbd/features.h.
_DIRTY_CACHE = 1 << 11
# The kernel counts its watches from here (CEPH_LINGER_ID_START of Linux's
# include/linux/ceph/osd_client.h); librados uses addresses of its memory.
_KERNEL_WATCH = 0xffff << 48
_REFUSED = {
    rbd.RBD_FEATURE_JOURNALING:
        'it is journaled: its writes are replayed elsewhere; disable journaling first',
    rbd.RBD_FEATURE_MIGRATING: 'it is being migrated: wait for "rbd migration" to be committed',
    _DIRTY_CACHE:
        'the persistent write-back cache on its host holds writes that Ceph has not seen',
}


@dataclasses.dataclass(frozen=True)
class Facts:
    """The properties of an RBD image; the fields are as in :class:`record.Volume`.

    :param clients: addresses that watch the image or own a lock on it
    :param invalid_map: its object map is flagged as invalid
    :param luks: its LUKS header; None if it has none
    :param kernel: addresses of ``clients`` that are kernels ("rbd map")
    :param ids: ids that Ceph has given to ``clients``; empty if they are unknown
    :param overrides: reasons against it by options that the image or its pool sets for all clients
    """

    ref: records.VolumeRef
    image_id: str
    pool_id: int
    data_pool_id: int
    data_prefix: str
    size_bytes: int
    object_size: int
    features: int
    clients: frozenset[str]
    owners: frozenset[str]
    invalid_map: bool
    mirrored: bool
    luks: luks.Header | None
    kernel: frozenset[str] = frozenset()
    overrides: tuple[str, ...] = ()
    ids: frozenset[int] = frozenset()

    @property
    def hosts(self) -> int:
        """The number of hosts that have it open.

        The monitors give every client an id of its own: one id is one client, also if Ceph lists
        several addresses of it.
        """
        return min(len({address.host(client) for client in self.clients}),
                   len(self.ids) or len(self.clients))

    def reasons(self, pools: Mapping[int, ceph.Pool], *, encrypted: bool = False,
                read: bool = False) -> list[str]:
        """Return the reasons why the image cannot be superposed; none if it can.

        :param pools: the cluster's pools by id
        :param encrypted: servers open it with a key
        :param read: another host reads it, beside the server's
        """
        against = [text for bit, text in _NEEDED.items() if not self.features & bit]
        against += [text for bit, text in _REFUSED.items() if self.features & bit]
        if self.invalid_map and self.features & rbd.RBD_FEATURE_OBJECT_MAP:
            against.append('its object map is flagged invalid: run "rbd object-map rebuild"')
        if self.size_bytes % _SECTOR:
            against.append(f'its size of {self.size_bytes} bytes is no multiple of {_SECTOR}, '
                           f'which a disk needs: resize it')
        if self.size_bytes > _LARGEST:
            against.append('it is larger than 64 TiB, for which there is no overlay')
        if self.mirrored:
            against.append('it is mirrored to another cluster: disable mirroring first')
        against += self._encryption(encrypted)
        against += self.overrides
        if self.kernel:
            against.append(f'the kernel of a host has it mapped ({", ".join(sorted(self.kernel))}'
                           f'): one client serves all images that are mapped there, so a fence '
                           f'would cut all of them off')
        if self.hosts > 1 + read:
            against.append(
                f'clients on several hosts have it open ({", ".join(sorted(self.clients))}): '
                f'there must be one primary. If one has ended, and is still listed after a '
                f'minute, remove its watch by "ceph pg repeer '
                f'{self._header_group(pools[self.pool_id])}"')
        against += [f'pool {pools[pool_id].name} has a cache tier' for pool_id
                  in {self.pool_id, self.data_pool_id} if pools[pool_id].cache_tier]
        against += ceph.full(pools, (self.pool_id, self.data_pool_id))
        against += [f'pool {pools[pool_id].name} hashes the names of its objects by another '
                    f'function than rjenkins' for pool_id
                    in {self.pool_id, self.data_pool_id} if not pools[pool_id].rjenkins]
        return against

    def _header_group(self, pool: ceph.Pool) -> str:
        """Return the placement group of the image's header, as Ceph names it."""
        name = f'rbd_header.{self.image_id}'.encode()
        [group] = placement_groups.stable_mod(
            placement_groups.hashes([name], self.ref.namespace), pool.pg_num)
        return f'{self.pool_id}.{int(group):x}'

    def _encryption(self, encrypted: bool) -> list[str]:
        if encrypted:
            return (['it has no LUKS header, although it has an encryption key in Cinder']
                    if self.luks is None else self.luks.reasons())
        if self.luks is not None:
            return ['it has a LUKS header, but is not known to be encrypted by Cinder: the '
                    'overlay might hold plain text']
        return []


@contextlib.contextmanager
def opened(cluster: ceph.Cluster, ref: records.VolumeRef, *,
           read_only: bool = True, image_id: str | None = None) -> Iterator[Any]:
    """Open an RBD image; read-only, it registers no watch and takes no lock.

    :param image_id: open the image by this id, whatever its name is
    :raises VolumeGone: there is no such image
    """
    with cluster.ioctx(ref.pool, ref.namespace) as io, ceph.answering(f'use image {ref}'):
        try:
            with rbd.Image(io, None if image_id else ref.image, read_only=read_only,
                           image_id=image_id) as image:
                yield image
        except rbd.ImageNotFound:
            raise errors.VolumeGone(f'there is no RBD image {ref} (any more)') from None


def option(cluster: ceph.Cluster, ref: records.VolumeRef, name: str) -> tuple[str, float]:
    """Return the value of an option for an image, and a time after which it was not changed."""
    with opened(cluster, ref) as image:
        setting = next(each for each in image.config_list() if each['name'] == name)
        header = f'rbd_header.{image.id()}'
    if setting['source'] == rbd.RBD_CONFIG_SOURCE_CONFIG:
        path = pathlib.Path(cluster.conffile)
        return setting['value'], path.stat().st_mtime if path.exists() else 0.0
    # Of an image, locks change the same object.
    of_pool = setting['source'] == rbd.RBD_CONFIG_SOURCE_POOL
    with (cluster.ioctx(ref.pool, '' if of_pool else ref.namespace) as io,
          ceph.answering(f'read the options of {ref}')):
        _size, changed = io.stat(_POOL_OPTIONS if of_pool else header)
        return setting['value'], time.mktime(changed)


def names(cluster: ceph.Cluster, home: records.Home) -> list[str]:
    """Return the names of the images of a pool's namespace."""
    with cluster.ioctx(home.pool, home.namespace) as io, ceph.answering(f'list {home}'):
        listed: list[str] = rbd.RBD().list(io)
        return listed


def inspect(cluster: ceph.Cluster, ref: records.VolumeRef) -> Facts:
    """Return the properties of an image, without an effect on its clients.

    :raises VolumeGone: there is no such image
    :raises NotEligible: the image has format 1, which this code cannot read
    :raises ClusterTimeout: Ceph did not answer in time
    """
    with opened(cluster, ref) as image:
        if image.old_format():
            raise errors.NotEligible(str(ref), ['it is of RBD format 1: migrate it to format 2'])
        # Each of these is a request: every sweep makes them, also a sweep of a decision.
        lockers, watchers = _lockers(image), list(image.watchers_list())
        owners = _owners(lockers)
        features = image.features()
        with cluster.ioctx(ref.pool, ref.namespace) as io:
            pool_id = io.get_pool_id()
        data_pool_id = image.data_pool_id()
        return Facts(
            ref=ref, image_id=image.id(), pool_id=pool_id,
            data_pool_id=data_pool_id if data_pool_id >= 0 else pool_id,
            data_prefix=image.block_name_prefix(), size_bytes=image.size(),
            object_size=image.stat()['obj_size'], features=features,
            clients=(_addresses(watchers) | owners) - cluster.addresses, owners=owners,
            invalid_map=bool(image.flags() & rbd.RBD_FLAG_OBJECT_MAP_INVALID),
            ids=_ids(lockers, watchers, cluster.addresses),
            mirrored=_mirrored(image), overrides=tuple(overrides.of_image(image, ref)),
            kernel=_addresses(watcher for watcher in watchers
                              if watcher['cookie'] >= _KERNEL_WATCH),
            luks=luks.header(image.read(0, min(luks.HEAD, image.size()))))


def current(cluster: ceph.Cluster, volume: records.Volume) -> records.Volume:
    """Return a volume with the name that its image has at this moment.

    QEMU opens images by name. An image in the trash keeps its name, which another one may get.

    :raises VolumeGone: the image is gone
    :raises MergeFailed: the name does not lead to the image
    """
    with opened(cluster, volume.ref, image_id=volume.image_id) as image:
        named = dataclasses.replace(volume, image=image.get_name())
    with contextlib.suppress(errors.VolumeGone), opened(cluster, named.ref) as image:
        if image.id() == volume.image_id:
            return named
    raise errors.MergeFailed(
        f'the image of {volume.ref} cannot be opened by its name: is the image in the trash? '
        f'Restore it by "rbd trash restore --pool {volume.pool} {volume.image_id}", with '
        f'"--image" and another name if its name is taken, and repeat the merge')


def clients(cluster: ceph.Cluster, ref: records.VolumeRef,
            image_id: str | None = None) -> frozenset[str]:
    """Return the addresses that watch an image or own a lock on it, without this process's.

    :raises VolumeGone: there is no such image
    """
    return frozenset().union(*watchers_and_owners(cluster, ref, image_id))


def watchers(cluster: ceph.Cluster, ref: records.VolumeRef,
             image_id: str | None = None) -> frozenset[str]:
    """Return the addresses that watch an image, without this process's.

    A client that was killed owns the lock of its image for ever, and watches it for half a minute.

    :param image_id: as for :func:`opened`
    :raises VolumeGone: there is no such image
    """
    return watchers_and_owners(cluster, ref, image_id)[0]


def owners(cluster: ceph.Cluster, ref: records.VolumeRef,
           image_id: str | None = None) -> frozenset[str]:
    """Return the addresses that own a lock on an image, without this process's.

    :param image_id: as for :func:`opened`
    :raises VolumeGone: there is no such image
    """
    return watchers_and_owners(cluster, ref, image_id)[1]


def watchers_and_owners(cluster: ceph.Cluster, ref: records.VolumeRef,
                        image_id: str | None = None) -> tuple[frozenset[str], frozenset[str]]:
    """Return the addresses that watch an image, and those that own a lock on it.

    :param image_id: as for :func:`opened`
    :raises VolumeGone: there is no such image
    """
    with opened(cluster, ref, image_id=image_id) as image:
        return (_addresses(image.watchers_list()) - cluster.addresses,
                _owners(_lockers(image)) - cluster.addresses)


def _addresses(watchers: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    return address.clients(watcher['addr'] for watcher in watchers)


def _lockers(image: Any) -> list[tuple[str, str, str]]:
    """Return client, cookie and address of each owner of the exclusive lock but the latch."""
    # By the header; lock_get_owners() needs a writable open.
    lockers = image.list_lockers()
    return [locker for locker in (lockers['lockers'] if lockers else ())
            if locker[1] != latch.COOKIE]


def _owners(lockers: Iterable[tuple[str, str, str]]) -> frozenset[str]:
    return address.clients(addr for _client, _cookie, addr in lockers)


def _ids(lockers: Iterable[tuple[str, str, str]], watchers: Iterable[Mapping[str, Any]],
         without: frozenset[str]) -> frozenset[int]:
    """Return the ids of the clients that watch an image or own a lock on it.

    :param without: addresses of clients that do not count
    """
    clients = [(watcher['id'], watcher['addr']) for watcher in watchers]
    clients += [(int(client.removeprefix('client.')), addr)
                for client, _cookie, addr in lockers]
    return frozenset(number for number, addr in clients
                     if not address.clients([addr]) <= without)


def _mirrored(image: Any) -> bool:
    try:
        return bool(image.mirror_image_get_info()['state'] != rbd.RBD_MIRROR_IMAGE_DISABLED)
    except (rbd.InvalidArgument, rbd.ImageNotFound, rbd.FunctionNotSupported):
        return False
