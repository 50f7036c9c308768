# SPDX-License-Identifier: Apache-2.0
"""The overlay: the child version, a qcow2 image in an RBD image of its own.

Its header names no backing file: the backing chain is given where the overlay is opened, so that
no path, pool or secret is in it, and one header serves every volume of the same size.

It has an exclusive lock from its creation: an offline merge fences its owner, also one that hangs,
and that no look has seen.
"""

from collections.abc import Iterator
import contextlib
import dataclasses
import errno
import functools
import json
import pathlib
import re
import struct
import subprocess
import tempfile
from typing import Any

import rados
import rbd

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.ceph import writes
from specreds_cinder.superposition.overlay import luks
from specreds_cinder.superposition.truth import record as records

# Subclusters have 512 bytes, so that QEMU never copies a part of one. With larger ones, it asks
# librbd which blocks of the volume are allocated. librbd takes the volume's lock for that, or
# breaks the lock of a primary that hangs.
CLUSTER_SIZE = 16 << 10
# Extended L2 entries: 16 bytes per cluster; reference counts: 2 bytes per cluster.
_ENTRY = 16
_REFCOUNT = 2
_SLACK = 64 << 20
_BLOCK = 4096
_TIMEOUT = 30
_BATCH = 8192
# Operations on data objects that are under way at a time.
DEPTH = 256
# The attribute of the header with the versions of the data objects that the creation has written.
_WRITTEN = 'specreds.written'
_CHANGED = (errno.ERANGE, errno.EOVERFLOW)
_NAMED = re.compile(r'(^|\.)super-([0-9a-f]{8}-[0-9a-f]{4})(\.|$)')
# Nova removes every image whose name begins with the id of a server that it deletes.
_NOVAS = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}', re.IGNORECASE)

# Large objects keep the removal of a thin image short (one stat per object that could exist);
# striping spreads neighbouring allocations over placement groups all the same.
_ORDER = 25
STRIPE_UNIT = 128 << 10
_STRIPE_COUNT = 16

# Nothing that the backup writes has to be durable before the collapse, so its librbd caches from
# the first write on. Size and age of the cache are bounded, so that the flush of a collapse takes
# 0.3 s at most (four times the size took 1.3 s, and was hardly faster before).
CACHE = {
    'rbd_cache': 'true',
    'rbd_cache_policy': 'writeback',
    'rbd_cache_writethrough_until_flush': 'false',
    'rbd_cache_size': str(32 << 20),
    'rbd_cache_max_dirty': str(8 << 20),
    'rbd_cache_target_dirty': str(2 << 20),
    'rbd_cache_max_dirty_age': '0.2',
}


def _encoded(entries: dict[str, str]) -> bytes:
    """Encode a ``map<string, bufferlist>`` as Ceph does."""
    parts = [struct.pack('<I', len(entries))]
    for key, value in sorted(entries.items()):
        for text in (f'conf_{key}', value):
            parts.append(struct.pack(f'<I{len(text)}s', len(text), text.encode()))
    return b''.join(parts)


# Limits of the volume in Ceph, as its metadata name them: Cinder sets the limits of a volume
# type for the back end.
_LIMIT = b'conf_rbd_qos_'
# Ceph has fewer of them; the metadata that follow may be of any kind.
_MOST_LIMITS, _MOST_BYTES = 32, 1 << 20


def _limits(io: Any, volume: records.Volume) -> dict[str, str]:
    """Return the limits of requests and bytes that are set on a volume's image, by option."""
    # By the header: an open image costs several requests more.
    request = struct.pack(f'<I{len(_LIMIT)}sQ', len(_LIMIT), _LIMIT, _MOST_LIMITS)
    _length, answer = io.execute(f'rbd_header.{volume.image_id}', 'rbd', 'metadata_list', request,
                                 _MOST_BYTES)
    return {name.decode().removeprefix('conf_'): value.decode()
            for name, value in _decoded(answer) if name.startswith(_LIMIT)}


def _decoded(answer: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a ``map<string, bufferlist>``, in their order."""
    [count], at = struct.unpack_from('<I', answer), 4
    for _ in range(count):
        entry = []
        for _ in range(2):
            [length] = struct.unpack_from('<I', answer, at)
            entry.append(answer[at + 4:at + 4 + length])
            at += 4 + length
        yield entry[0], entry[1]


def name(image: str, superposition: str) -> str:
    """Return the name of an image's overlay, which is unique to a superposition."""
    suffix = f'super-{superposition[:13]}'
    return f'{suffix}.{image}' if _NOVAS.match(image) else f'{image}.{suffix}'


def named(image: str) -> tuple[str, str] | None:
    """Return what the name of an overlay is made of.

    :returns: the name of its image and the beginning of its superposition's id; None if an image
        does not have the name of an overlay
    """
    match = _NAMED.search(image)
    if match is None:
        return None
    return image[:match.start()] or image[match.end():], match.group(2)


def is_striped(image: Any) -> bool:
    """Return whether an open image has the layout of an overlay."""
    return bool((image.stripe_unit(), image.stripe_count()) == (STRIPE_UNIT, _STRIPE_COUNT))


def create(cluster: ceph.Cluster, volume: records.Volume) -> None:
    """Create the overlay of a volume.

    :raises RecordChanged: another controller has removed the overlay meanwhile
    :raises ClusterTimeout: Ceph did not answer in time
    :raises ClusterError: the overlay could not be created
    """
    ref = volume.overlay_ref
    header = _header_of(cluster, volume)
    features = (rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_STRIPINGV2
                | rbd.RBD_FEATURE_EXCLUSIVE_LOCK)
    with cluster.ioctx(ref.pool, ref.namespace) as io, \
            ceph.answering(f'create overlay {ref}'), \
            trace.change('overlay.create', str(ref)):
        rbd.RBD().create(
            io, ref.image, presized(volume.size_bytes), _ORDER, old_format=False,
            features=features, stripe_unit=STRIPE_UNIT, stripe_count=_STRIPE_COUNT,
            # If it is the pool itself, librbd does not take rbd_default_data_pool.
            data_pool=volume.data_pool)
    try:
        _write(cluster, volume, header)
    except errors.VolumeGone:
        raise errors.RecordChanged(f'overlay {ref} was removed by another controller, which took '
                                   f'its creation for interrupted') from None


def _write(cluster: ceph.Cluster, volume: records.Volume, header: '_Blocks') -> None:
    """Write an overlay's qcow2 header, and the versions of its objects.

    :raises VolumeGone: the overlay was removed; none of its data is left
    """
    # Written to the header and the data objects directly: an image that is open for writing has
    # a watcher, which another controller that aborts would fence like a backup.
    ref = volume.overlay_ref
    objects = Objects.of(cluster, ref)
    version = _version(cluster, ref, objects.header)
    written: dict[int, int] = {}
    with cluster.ioctx(ref.pool, ref.namespace) as io, \
            cluster.ioctx(volume.data_pool, ref.namespace) as data, \
            ceph.answering(f'write overlay {ref}'), \
            trace.change('overlay.write', str(ref)):
        metadata = _encoded({**CACHE, **_limits(io, volume)})
        for offset, block in header:
            # The header lies within the first set of objects.
            unit, within = divmod(offset, STRIPE_UNIT)
            row, number = divmod(unit, _STRIPE_COUNT)
            data.write(objects.data(number).decode(), block, row * STRIPE_UNIT + within)
            written[number] = data.get_last_version()
        try:
            with rados.WriteOpCtx() as op:
                # Otherwise a header that was removed meanwhile would be made anew.
                op.assert_version(version)
                op.execute('rbd', 'metadata_set', metadata)
                op.set_xattr(_WRITTEN, json.dumps(written).encode())
                io.operate_write_op(op, objects.header)
        except rados.Error as exc:
            if abs(getattr(exc, 'errno', None) or 0) not in _CHANGED:
                raise
            for number in written:
                with contextlib.suppress(rados.ObjectNotFound):
                    writes.remove(data, objects.data(number).decode())
            raise errors.VolumeGone(f'there is no RBD image {ref} (any more)') from exc


def _version(cluster: ceph.Cluster, ref: records.VolumeRef, header: str) -> int:
    """Return the version of an overlay's header.

    :raises VolumeGone: the overlay was removed
    """
    with cluster.ioctx(ref.pool, ref.namespace) as io, ceph.answering(f'look at overlay {ref}'):
        try:
            io.stat(header)
        except rados.ObjectNotFound:
            raise errors.VolumeGone(f'there is no RBD image {ref} (any more)') from None
        return int(io.get_last_version())


def is_written(cluster: ceph.Cluster, volume: records.Volume) -> bool:
    """Return whether a client may have written to an overlay since its creation.

    :raises VolumeGone: there is no such overlay
    """
    ref = volume.overlay_ref
    objects = Objects.of(cluster, ref)
    with cluster.ioctx(ref.pool, ref.namespace) as io, \
            ceph.answering(f'read the versions of overlay {ref}'):
        try:
            written = json.loads(io.get_xattr(objects.header, _WRITTEN))
        except rados.ObjectNotFound:
            raise errors.VolumeGone(f'there is no RBD image {ref} (any more)') from None
    data = cluster.aio.ioctx(volume.data_pool_id, volume.namespace)
    versions = (version for names in objects.batches()
                for version in data.stat_versions(names, DEPTH))
    return any(version != written.get(str(number), 0) for number, version in enumerate(versions))


def used_bytes(cluster: ceph.Cluster, volume: records.Volume) -> int:
    """Return the bytes that an overlay takes in Ceph: the sum of the sizes of its objects."""
    try:
        objects = Objects.of(cluster, volume.overlay_ref)
    except (errors.PoolGone, errors.VolumeGone):
        return 0
    io = cluster.aio.ioctx(volume.data_pool_id, volume.namespace)
    return sum(sum(io.stat_sizes(names, DEPTH)) for names in objects.batches())


@dataclasses.dataclass(frozen=True)
class Objects:
    """The RADOS objects of an overlay, existing or not.

    :param header: name of its header object
    :param prefix: what the names of its data objects begin with
    :param count: number of data objects that may exist
    """

    header: str
    prefix: bytes
    count: int

    @classmethod
    def of(cls, cluster: ceph.Cluster, ref: records.VolumeRef,
           image_id: str | None = None) -> 'Objects':
        """Return the objects of an overlay. Parameters and errors: :func:`volume.opened`."""
        with volumes.opened(cluster, ref, image_id=image_id) as image:
            return cls(f'rbd_header.{image.id()}', image.block_name_prefix().encode(),
                       image.stat()['num_objs'])

    @classmethod
    def of_removed(cls, cluster: ceph.Cluster, volume: records.Volume, image_id: str) -> 'Objects':
        """Return the objects of a volume's overlay, whose header may be gone."""
        with contextlib.suppress(errors.VolumeGone):
            return cls.of(cluster, volume.overlay_ref, image_id)
        # As librbd names them; there may be a few less.
        pool = f'{volume.pool_id}.' if volume.data_pool_id != volume.pool_id else ''
        rows = -(-presized(volume.size_bytes) // (_STRIPE_COUNT << _ORDER))
        return cls(f'rbd_header.{image_id}', f'rbd_data.{pool}{image_id}'.encode(),
                   rows * _STRIPE_COUNT)

    def data(self, number: int) -> bytes:
        """Return the name of a data object."""
        return b'%s.%016x' % (self.prefix, number)

    def batches(self) -> Iterator[list[bytes]]:
        """Yield the names of all data objects, a few thousand at a time."""
        for start in range(0, self.count, _BATCH):
            yield [self.data(number)
                   for number in range(start, min(start + _BATCH, self.count))]


def presized(size: int) -> int:
    """Return the bytes of an RBD image that holds any qcow2 image of a virtual size."""
    clusters = -(-size // CLUSTER_SIZE)
    tables = -(-clusters * _ENTRY // CLUSTER_SIZE) * CLUSTER_SIZE
    counts = -(-2 * clusters * _REFCOUNT // CLUSTER_SIZE) * CLUSTER_SIZE
    return clusters * CLUSTER_SIZE + tables + counts + _SLACK


_Blocks = tuple[tuple[int, bytes], ...]


def _header_of(cluster: ceph.Cluster, volume: records.Volume) -> _Blocks:
    """Return the header of a volume's overlay."""
    if not volume.luks_bytes:
        return _header(volume.size_bytes)
    with volumes.opened(cluster, volume.ref) as image:
        copied = image.read(0, volume.luks_bytes)
    # The primary may change its header meanwhile. Opening a damaged copy fails; the primary has
    # written after the cut then, or the volume has a new passphrase.
    return _blocks(luks.encrypted(_qcow2(volume.disk_bytes), copied, CLUSTER_SIZE))


@functools.lru_cache(maxsize=128)
def _header(size: int) -> _Blocks:
    """Return the header of an unencrypted overlay for a disk."""
    return _blocks(_qcow2(size))


def _blocks(image: bytes) -> _Blocks:
    """Return the blocks of an image that are not zero, with their offsets."""
    blocks = []
    for offset in range(0, len(image), _BLOCK):
        block = image[offset:offset + _BLOCK]
        if block.count(0) != len(block):
            blocks.append((offset, block))
    return tuple(blocks)


@functools.lru_cache(maxsize=16)
def _qcow2(size: int) -> bytes:
    """Return an empty, unencrypted qcow2 image."""
    with tempfile.TemporaryDirectory(prefix='specreds-') as scratch:
        path = pathlib.Path(scratch, 'overlay.qcow2')
        # Without lazy reference counts, QEMU flushes the data of a new cluster before it writes
        # the L2 entry. Otherwise, if a promoted backup dies, a block that it has not flushed may
        # be neither the old nor the new one, but zero.
        command = ['qemu-img', 'create', '-q', '-f', 'qcow2', '-o',
                   f'compat=1.1,extended_l2=on,lazy_refcounts=off,cluster_size={CLUSTER_SIZE}',
                   str(path), str(size)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT, text=True)
        except FileNotFoundError:
            raise errors.SuperError('qemu-img is missing: install qemu-utils') from None
        except subprocess.CalledProcessError as exc:
            raise errors.SuperError(
                f'qemu-img could not make an overlay of {size} bytes: {exc.stderr.strip()}'
            ) from exc
        return path.read_bytes()
