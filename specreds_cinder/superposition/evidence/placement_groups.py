# SPDX-License-Identifier: Apache-2.0
"""The placement group of an object, computed as RADOS does.

Sources: ``ceph_str_hash_rjenkins`` (src/common/ceph_hash.cc), ``ceph_stable_mod``
(src/include/rados.h) and ``pg_pool_t::hash_key`` (src/osd/osd_types.cc) of Ceph 16.
"""

from collections.abc import Sequence
import functools

import numpy
from numpy import typing as npt

Hashes = npt.NDArray[numpy.uint32]

_GOLDEN = 0x9e3779b9
_BLOCK = 12
_SHIFTS = (('r', 13), ('l', 8), ('r', 13),
           ('r', 12), ('l', 16), ('r', 5),
           ('r', 3), ('l', 10), ('r', 15))


def hashes(names: Sequence[bytes], namespace: str = '') -> Hashes:
    """Hash object names of a pool that uses rjenkins (every pool since 2010 does).

    :param names: object names, in any mix of lengths
    :param namespace: the RADOS namespace they are in; part of the hash
    """
    space = namespace.encode() + b'\x1f' if namespace else b''
    result = numpy.empty(len(names), dtype=numpy.uint32)
    by_length: dict[int, list[int]] = {}
    for index, name in enumerate(names):
        by_length.setdefault(len(name), []).append(index)
    for length, indices in by_length.items():
        joined = b''.join(space + names[index] for index in indices)
        rows = numpy.frombuffer(joined, dtype=numpy.uint8)
        result[indices] = _rjenkins(rows.reshape(len(indices), length + len(space)))
    return result


def stable_mod(values: Hashes, pg_num: int) -> Hashes:
    """Map hashes to placement groups of a pool with ``pg_num`` of them."""
    mask = (1 << (pg_num - 1).bit_length()) - 1
    low = values & numpy.uint32(mask)
    return numpy.where(low < pg_num, low, values & numpy.uint32(mask >> 1))


@functools.lru_cache(maxsize=64)
def markers(pg_num: int, namespace: str, prefix: str) -> tuple[bytes, ...]:
    """Return the name of one marker object for each placement group, in their order.

    :param prefix: what the markers' names begin with; a number follows
    """
    by_group: dict[int, bytes] = {}
    tried = 0
    while len(by_group) < pg_num:
        names = [f'{prefix}{number:08x}'.encode() for number in range(tried, tried + 4 * pg_num)]
        tried += len(names)
        for name, group in zip(names, stable_mod(hashes(names, namespace), pg_num), strict=True):
            by_group.setdefault(int(group), name)
    return tuple(by_group[group] for group in range(pg_num))


def _rjenkins(rows: npt.NDArray[numpy.uint8]) -> Hashes:
    """Bob Jenkins' 1996 hash of many byte strings of one length at a time."""
    count, length = rows.shape
    a = numpy.full(count, _GOLDEN, dtype=numpy.uint32)
    b = a.copy()
    c = numpy.zeros(count, dtype=numpy.uint32)
    whole = length - length % _BLOCK
    words = numpy.ascontiguousarray(rows[:, :whole]).view('<u4').reshape(count, whole // 4)
    for start in range(0, whole // 4, 3):
        a += words[:, start]
        b += words[:, start + 1]
        c += words[:, start + 2]
        _mix(a, b, c)
    # The lowest byte of c is reserved for the length, so its tail starts one byte later.
    tail = numpy.zeros((count, _BLOCK), dtype=numpy.uint8)
    rest = rows[:, whole:]
    tail[:, :min(8, rest.shape[1])] = rest[:, :8]
    tail[:, 9:9 + max(0, rest.shape[1] - 8)] = rest[:, 8:]
    words = tail.view('<u4')
    a += words[:, 0]
    b += words[:, 1]
    c += words[:, 2] + numpy.uint32(length)
    _mix(a, b, c)
    return c


def _mix(a: Hashes, b: Hashes, c: Hashes) -> None:
    x, y, z = a, b, c
    for direction, bits in _SHIFTS:
        x -= y
        x -= z
        x ^= z >> numpy.uint32(bits) if direction == 'r' else z << numpy.uint32(bits)
        x, y, z = y, z, x
