# SPDX-License-Identifier: Apache-2.0
"""Which data objects of an image exist, read from its object map in bounded memory.

The map is a ``BitVector<2>`` (src/common/bit_vector.hpp of Ceph 16): a length-prefixed header
with the number of entries, then two bits per object, first object in the highest bits.
"""

from collections.abc import Iterable, Iterator
import hashlib
import struct
from typing import Any

import numpy
from numpy import typing as npt
import rados

from specreds_cinder.superposition import errors

_PREFIX = 'rbd_object_map.'
_HEADER = struct.Struct('<IBBIQ')
_PER_BYTE = 4
_SHIFTS = numpy.array([6, 4, 2, 0], dtype=numpy.uint8)
_CHUNK = 256 << 10
# OBJECT_PENDING of Ceph's include/rbd/object_map_types.h.
_PENDING = 2
# The lower bit of each state.
_LOWER = numpy.uint8(0x55)


def name(image_id: str) -> str:
    """Name the object that holds an image's object map."""
    return f'{_PREFIX}{image_id}'


def data_names(prefix: str, numbers: Iterable[int]) -> list[bytes]:
    """Return the names of data objects.

    :param prefix: prefix of the image's data objects
    """
    base = prefix.encode()
    return [b'%s.%016x' % (base, number) for number in numbers]


def existing(io: 'rados.Ioctx', image_id: str) -> Iterator[npt.NDArray[numpy.int64]]:
    """Yield the numbers of the objects that may exist, at most a million at a time.

    An object in any state but ``nonexistent`` counts: a pending one may exist or not.

    :param io: I/O context of the pool and namespace of the image's header
    :raises VolumeGone: there is no object map (any more)
    :raises ClusterError: it is not one that this code understands
    """
    for first, states in _states(io, image_id):
        yield numpy.flatnonzero(states) + first


def pending(io: 'rados.Ioctx', image_id: str) -> list[int]:
    """Return the numbers of the objects of which a removal has begun.

    Raises as :func:`existing` does.
    """
    return [int(number) + first for first, states in _states(io, image_id)
            for number in numpy.flatnonzero(states == _PENDING)]


def _states(io: 'rados.Ioctx', image_id: str) -> Iterator[tuple[int, npt.NDArray[Any]]]:
    """Yield the states of many objects at a time, and the number of the first of them."""
    first = 0
    for entries, raw in _chunks(io, image_id):
        states = (numpy.frombuffer(raw, dtype=numpy.uint8)[:, None] >> _SHIFTS) & 3
        yield first, states.reshape(-1)[:entries]
        first += entries


def digest(io: 'rados.Ioctx', image_id: str) -> str:
    """Return a fingerprint of the set of existing objects. Raises as :func:`existing` does.

    Whoever makes a snapshot marks all objects as clean, which says nothing about writes.
    """
    fingerprint = hashlib.blake2b(digest_size=16)
    for entries, raw in _chunks(io, image_id):
        fingerprint.update(b'%d:' % entries)
        states = numpy.frombuffer(raw, dtype=numpy.uint8)
        # A clean object is one that exists: both bits are set instead of the lower one.
        clean = states & (states >> 1) & _LOWER
        fingerprint.update((states ^ (clean << 1)).tobytes())
    return fingerprint.hexdigest()


def _chunks(io: 'rados.Ioctx', image_id: str) -> Iterator[tuple[int, bytes]]:
    oid = name(image_id)
    head = _read(io, oid, _HEADER.size, 0)
    if len(head) < _HEADER.size:
        raise errors.ClusterError(f'object map {oid} is cut short')
    length, _version, compat, _size, entries = _HEADER.unpack(head)
    if compat != 1:
        raise errors.ClusterError(f'object map {oid} has the unknown format {compat}')
    total = -(-entries // _PER_BYTE)
    for offset in range(0, total, _CHUNK):
        size = min(_CHUNK, total - offset)
        raw = _read(io, oid, size, 4 + length + offset)
        if len(raw) != size:
            raise errors.ClusterError(f'object map {oid} is cut short')
        yield min(size * _PER_BYTE, entries - offset * _PER_BYTE), raw


def _read(io: 'rados.Ioctx', oid: str, length: int, offset: int) -> bytes:
    try:
        raw: bytes = io.read(oid, length, offset)
    except rados.ObjectNotFound:
        raise errors.VolumeGone(f'{oid} is gone: was its image deleted?') from None
    return raw
