# SPDX-License-Identifier: Apache-2.0
"""The RBD images of the benchmarks."""

import collections
from collections.abc import Iterable, Iterator
import os
import socket
import struct

import rbd

from specreds_cinder import superposition as sp

MIB = 1 << 20
GIB = 1 << 30
OBJECT = 4 * MIB
# A volume as Cinder makes it.
_FEATURES = (rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_EXCLUSIVE_LOCK
             | rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_FAST_DIFF
             | rbd.RBD_FEATURE_DEEP_FLATTEN)
_IN_FLIGHT = 16
_SMALL_IN_FLIGHT = 128
_SMALL = 4096
# The form of an object map: see specreds_cinder/superposition/evidence/objectmap.py.
_LENGTH = 4
_MAPPED_PER_BYTE = 4
_POPULATED_SIZE = 100 * GIB


def create(cluster: sp.Cluster, image: str, size: int, pool: str = 'volumes') -> sp.VolumeRef:
    """Make a thin image of ``size`` bytes."""
    with cluster.ioctx(pool) as io:
        rbd.RBD().create(io, image, size, old_format=False, features=_FEATURES)
    return sp.VolumeRef(pool, '', image)


def own(cluster: sp.Cluster, ref: sp.VolumeRef, number: int) -> None:
    """Let a client that has died own the lock of an image, as a failed host leaves it.

    :param number: number of the client, which is part of its address
    """
    def enveloped(body: bytes) -> bytes:
        return struct.pack('<BBI', 1, 1, len(body)) + body

    def text(content: str) -> bytes:
        return struct.pack('<I', len(content)) + content.encode()
    # cls_lock: the owner's name and cookie, then expiry, address and description.
    name = struct.pack('<Bq', 8, number) + text(f'auto {number}')
    address = b'\1' + enveloped(struct.pack('<III', 1, number, 16) + struct.pack(
        '=HH4s8x', socket.AF_INET, 0, socket.inet_aton('127.0.0.9')))
    owner = enveloped(name) + enveloped(struct.pack('<II', 0, 0) + address + text(''))
    lock = enveloped(struct.pack('<I', 1) + owner + b'\1' + text('internal'))
    with cluster.ioctx(ref.pool) as io:
        with rbd.Image(io, ref.image, read_only=True) as image:
            header = f'rbd_header.{image.id()}'
        io.set_xattr(header, 'lock.rbd_lock', lock)


def remove(cluster: sp.Cluster, ref: sp.VolumeRef) -> None:
    """Remove an image."""
    with cluster.ioctx(ref.pool) as io:
        rbd.RBD().remove(io, ref.image)


def fill(cluster: sp.Cluster, ref: sp.VolumeRef, extents: Iterable[tuple[int, int]]) -> None:
    """Write data that does not compress into parts of an image.

    :param extents: offset and length of each, in bytes
    """
    noise = os.urandom(OBJECT)
    with cluster.ioctx(ref.pool) as io, rbd.Image(io, ref.image) as image:
        pending: collections.deque[rbd.Completion] = collections.deque()
        for offset, length in _by_object(extents):
            if len(pending) == _IN_FLIGHT:
                pending.popleft().wait_for_complete_and_cb()
            pending.append(image.aio_write(noise[:length], offset, lambda _completion: None))
        for completion in pending:
            completion.wait_for_complete_and_cb()
        image.flush()


def _by_object(extents: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    for offset, length in extents:
        end = offset + length
        while offset < end:
            part = min(end, (offset // OBJECT + 1) * OBJECT) - offset
            yield offset, part
            offset += part


def populated(cluster: sp.Cluster, objects: int) -> sp.VolumeRef:
    """Return a volume of 100 GiB of which the first objects exist, with 4 KiB in each.

    The first call makes it. The objects are written past librbd, which would update
    the object map for each of them, and the map is made anew at the end: several times faster,
    and the same image.
    """
    try:
        ref = create(cluster, f'objects-{objects}', _POPULATED_SIZE)
    except rbd.ImageExists:
        return sp.VolumeRef('volumes', '', f'objects-{objects}')
    with cluster.ioctx(ref.pool) as io, rbd.Image(io, ref.image) as image:
        prefix = image.block_name_prefix()
        pending: collections.deque[object] = collections.deque()
        for number in range(objects):
            if len(pending) == _SMALL_IN_FLIGHT:
                pending.popleft().wait_for_complete()  # type: ignore[attr-defined]
            pending.append(io.aio_write_full(f'{prefix}.{number:016x}', b'x' * _SMALL))
        for completion in pending:
            completion.wait_for_complete()  # type: ignore[attr-defined]
        image.rebuild_object_map()
    return ref


def mapped(cluster: sp.Cluster, objects: int) -> sp.VolumeRef:
    """Make a volume whose object map says that all objects exist, though none does.

    A stat of a missing object costs the client as much as one of an object that exists. librbd
    must not write to the volume, since the checksums of the map are wrong.
    """
    ref = create(cluster, f'mapped-{objects}', objects * OBJECT)
    with cluster.ioctx(ref.pool) as io:
        with rbd.Image(io, ref.image, read_only=True) as image:
            oid = f'rbd_object_map.{image.id()}'
        length, = struct.unpack('<I', io.read(oid, _LENGTH))
        io.write(oid, b'\x55' * (objects // _MAPPED_PER_BYTE), _LENGTH + length)
    return ref


def snapshot(cluster: sp.Cluster, ref: sp.VolumeRef, name: str) -> None:
    """Take a protected snapshot, from which clones can be made."""
    with cluster.ioctx(ref.pool) as io, rbd.Image(io, ref.image) as image:
        image.create_snap(name)
        image.protect_snap(name)


def clone(cluster: sp.Cluster, parent: sp.VolumeRef, name: str, image: str) -> sp.VolumeRef:
    """Make a clone of a snapshot, as Cinder does for a volume from an image."""
    with cluster.ioctx(parent.pool) as io:
        rbd.RBD().clone(io, parent.image, name, io, image, features=_FEATURES)
    return sp.VolumeRef(parent.pool, '', image)
