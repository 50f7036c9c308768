# SPDX-License-Identifier: Apache-2.0
"""The object map is read in chunks of any size."""

import struct
from unittest import mock

import hypothesis
from hypothesis import strategies
import rados
import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.evidence import objectmap

# Of src/include/rbd/object_map_types.h.
NONEXISTENT, EXISTS, PENDING, EXISTS_CLEAN = range(4)
_STATES = strategies.lists(strategies.integers(NONEXISTENT, EXISTS_CLEAN), max_size=200)
# What Ceph 16 stores for an image of six objects, of which 0, 1 and 5 were written.
_KNOWN = bytes.fromhex('0e000000010108000000060000000000000050100c00000071c2d25901000000eaf08cd0')


class FakeIo:
    """An I/O context with one object."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.longest = 0

    def read(self, oid: str, length: int, offset: int = 0) -> bytes:
        assert oid == 'rbd_object_map.abc'
        self.longest = max(self.longest, length)
        return self._data[offset:offset + length]


def encode(states: list[int]) -> bytes:
    """Write a map as Ceph does: two bits an object, first object in the highest bits."""
    packed = bytearray(-(-len(states) // 4))
    for index, state in enumerate(states):
        packed[index // 4] |= state << (6 - 2 * (index % 4))
    return struct.pack('<IBBIQ', 14, 1, 1, 8, len(states)) + bytes(packed) + b'checksums'


def existing(io: FakeIo) -> list[int]:
    return [number for part in objectmap.existing(io, 'abc') for number in part.tolist()]


class ObjectMapTest(testtools.TestCase):

    def test_map_of_ceph_16_is_read(self) -> None:
        self.assertEqual([0, 1, 5], existing(FakeIo(_KNOWN)))

    @hypothesis.given(_STATES)
    def test_fingerprint_is_of_the_objects_that_exist(self, states: list[int]) -> None:
        def digest(entries: list[int]) -> str:
            return objectmap.digest(FakeIo(encode(entries)), 'abc')
        snapshot = [EXISTS_CLEAN if state == EXISTS else state for state in states]
        self.assertEqual(digest(states), digest(snapshot))
        for index, state in enumerate(states):
            other = NONEXISTENT if state == EXISTS else EXISTS
            if state != EXISTS_CLEAN:
                self.assertNotEqual(digest(states), digest(
                    [*states[:index], other, *states[index + 1:]]))

    @hypothesis.given(_STATES, strategies.integers(1, 60))
    def test_pending_objects_are_listed(self, states: list[int], chunk: int) -> None:
        with mock.patch.object(objectmap, '_CHUNK', chunk):
            self.assertEqual([index for index, state in enumerate(states) if state == PENDING],
                             objectmap.pending(FakeIo(encode(states)), 'abc'))

    @hypothesis.given(_STATES, strategies.integers(1, 60))
    def test_existing_objects_are_listed_in_chunks(self, states: list[int], chunk: int) -> None:
        with mock.patch.object(objectmap, '_CHUNK', chunk):
            io = FakeIo(encode(states))
            self.assertEqual([index for index, state in enumerate(states)
                              if state != NONEXISTENT], existing(io))
            self.assertLessEqual(io.longest, max(chunk, 18))

    @hypothesis.given(_STATES, strategies.integers(1, 60))
    def test_different_maps_have_different_digests(self, states: list[int], chunk: int) -> None:
        digest = objectmap.digest(FakeIo(encode(states)), 'abc')
        with mock.patch.object(objectmap, '_CHUNK', 4):
            by_four = objectmap.digest(FakeIo(encode(states)), 'abc')
            self.assertEqual(by_four, objectmap.digest(FakeIo(encode(states) + b'more'), 'abc'))
        self.assertNotEqual(digest, objectmap.digest(FakeIo(encode([*states, EXISTS])), 'abc'))
        self.assertNotEqual(digest, objectmap.digest(FakeIo(encode([*states, NONEXISTENT])),
                                                     'abc'))
        for index, state in enumerate(states):
            other = [*states[:index], (state + 1) % 4, *states[index + 1:]]
            self.assertNotEqual(digest, objectmap.digest(FakeIo(encode(other)), 'abc'))
            break

    def test_large_map_is_read_in_parts_of_256_kib(self) -> None:
        # 16 TiB in objects of 4 MiB: a map of one MiB.
        io = FakeIo(encode([]) [:10] + struct.pack('<Q', 4 << 20) + bytes(1 << 20))
        self.assertEqual([], existing(io))
        self.assertLessEqual(io.longest, 256 << 10)

    def test_truncated_map_is_an_error(self) -> None:
        for data in (b'', encode([1] * 100)[:17], encode([1] * 100)[:30]):
            error = self.assertRaises(errors.ClusterError, existing, FakeIo(data))
            self.assertIn('rbd_object_map.abc', str(error))

    def test_unknown_format_is_an_error(self) -> None:
        data = bytearray(encode([1]))
        data[5] = 2
        self.assertRaises(errors.ClusterError, existing, FakeIo(bytes(data)))

    def test_missing_map_means_that_the_volume_is_gone(self) -> None:
        io = mock.Mock(**{'read.side_effect': rados.ObjectNotFound('gone', 2)})
        self.assertRaises(errors.VolumeGone, objectmap.digest, io, 'abc')

    def test_map_that_is_removed_between_two_chunks_means_the_same(self) -> None:
        data = encode([EXISTS] * 8)
        for read in (objectmap.digest, objectmap.pending):
            io = mock.Mock(**{'read.side_effect': [
                data[:18], data[18:19], rados.ObjectNotFound('gone', 2)]})
            with mock.patch.object(objectmap, '_CHUNK', 1):
                self.assertRaises(errors.VolumeGone, read, io, 'abc')
