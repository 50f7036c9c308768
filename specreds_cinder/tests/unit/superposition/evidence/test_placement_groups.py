# SPDX-License-Identifier: Apache-2.0
"""Placement as RADOS computes it: known answers, and properties of any name and pool."""

import ddt
import hypothesis
from hypothesis import strategies
import numpy
import testtools

from specreds_cinder.superposition.evidence import placement_groups

# What "ceph osd map POOL NAME [NAMESPACE]" of Ceph 16 says of a pool with 12 placement groups.
KNOWN = (
    ('a', '', 0x29eec818, 0x8),
    ('a', 'tenant-1', 0x4ff69f99, 0x9),
    ('ab', '', 0x9879ac41, 0x1),
    ('rbd_data.1', '', 0x8bc8228e, 0x6),
    ('rbd_data.1', 'tenant-1', 0x19e8c13, 0x3),
    ('rbd_header.10', '', 0x532c07c1, 0x1),
    ('specreds.cut.00000000', '', 0xd576d245, 0x5),
    ('specreds.cut.00000000', 'tenant-1', 0x9d60f9a9, 0x9),
    # One byte less than a block of the hash, a whole block, one more.
    ('12345678901', '', 0x79f32d84, 0x4),
    ('123456789012', '', 0xf7e45e60, 0x0),
    ('1234567890123', '', 0x8f57066a, 0xa),
    ('rbd_data.10226b8b4567.0000000000000000', '', 0x87bd7b9a, 0xa),
    ('rbd_data.10226b8b4567.0000000000000000', 'tenant-1', 0xe25b5195, 0x5),
    ('rbd_data.3.ffe12345abcd.00000000000fffff', '', 0x2ed54d95, 0x5),
    ('rbd_data.3.ffe12345abcd.00000000000fffff', 'tenant-1', 0x98c8d149, 0x9),
    ('ümlaut', '', 0xd6b56182, 0x2),
    ('a name of thirty-five characters!!!', '', 0x5e4358a7, 0x7),
)
VALUES = strategies.lists(strategies.integers(0, 2**32 - 1), min_size=1, max_size=50)
GROUPS = strategies.integers(1, 70_000)


class HashesTest(testtools.TestCase):

    def test_hashes_equal_those_of_ceph_16(self) -> None:
        for name, namespace, value, group in KNOWN:
            hashes = placement_groups.hashes([name.encode()], namespace)
            self.assertEqual(value, int(hashes[0]), name)
            self.assertEqual(group, int(placement_groups.stable_mod(hashes, 12)[0]), name)

    def test_names_of_many_lengths_at_once(self) -> None:
        for space in ('', 'tenant-1'):
            known = [(name.encode(), value) for name, namespace, value, _group in KNOWN
                     if namespace == space]
            self.assertEqual([value for _name, value in known],
                             placement_groups.hashes([name for name, _value in known],
                                                     space).tolist())

    def test_no_names_have_no_hashes(self) -> None:
        self.assertEqual([], placement_groups.hashes([]).tolist())


class StableModTest(testtools.TestCase):

    @hypothesis.given(VALUES, GROUPS)
    def test_group_is_below_the_count(self, values: list[int], count: int) -> None:
        groups = placement_groups.stable_mod(numpy.array(values, dtype=numpy.uint32), count)
        self.assertTrue((groups < count).all())

    @hypothesis.given(VALUES, strategies.integers(0, 16))
    def test_group_is_the_remainder_for_powers_of_two(self, values: list[int], power: int) -> None:
        groups = placement_groups.stable_mod(numpy.array(values, dtype=numpy.uint32), 1 << power)
        self.assertEqual([value % (1 << power) for value in values], groups.tolist())

    @hypothesis.given(VALUES, GROUPS)
    def test_split_moves_objects_to_new_groups_only(self, values: list[int], count: int) -> None:
        hashes = numpy.array(values, dtype=numpy.uint32)
        before = placement_groups.stable_mod(hashes, count)
        after = placement_groups.stable_mod(hashes, count + 1)
        self.assertTrue(((before == after) | (after == count)).all())


@ddt.ddt
class MarkersTest(testtools.TestCase):

    @ddt.data(1, 2, 3, 12, 32, 100, 256)
    def test_each_group_has_one_marker(self, count: int) -> None:
        for namespace in ('', 'tenant'):
            names = placement_groups.markers(count, namespace, 'mark.')
            self.assertEqual(list(range(count)), placement_groups.stable_mod(
                placement_groups.hashes(names, namespace), count).tolist())
            self.assertTrue(all(name.startswith(b'mark.') for name in names))
            self.assertEqual(count, len(set(names)))
