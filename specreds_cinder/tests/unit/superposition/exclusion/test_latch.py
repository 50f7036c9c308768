# SPDX-License-Identifier: Apache-2.0
"""The stored form of a latch, and the clients that are taken for owners of a lock."""

from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.exclusion import latch
from specreds_cinder.tests.unit import fakes

# As cls_lock of Ceph 16 wrote them: one owner, and none.
OWNED = bytes.fromhex(
    '01016d00000001000000010121000000082b10000000000000140000006175746f2031333938303534383034363330'
    '303801012f00000000000000000000000101011c0000000100000073781bd910000000020000007f00000100000000'
    '00000000000000000108000000696e7465726e616c')
FREE = bytes.fromhex('010111000000000000000108000000696e7465726e616c')
ID = '0f6a8f9c-0000-4000-8000-000000000001'


class LockTest(testtools.TestCase):

    def test_stored_form_is_that_of_ceph(self) -> None:
        for raw in (OWNED, FREE):
            self.assertEqual(raw, latch.Lock.load(raw).dump())

    def test_opened_latch_leaves_the_lock_as_it_was(self) -> None:
        for raw in (OWNED, FREE):
            lock = latch.Lock.load(raw)
            closed = latch.Lock.load(lock.closed(ID).dump())
            self.assertEqual(ID, closed.superposition)
            self.assertNotEqual('internal', closed.tag)
            self.assertEqual(lock.owners, closed.owners[:-1])
            self.assertEqual(raw, closed.opened().dump())

    def test_latch_closed_twice_has_one_owner(self) -> None:
        lock = latch.Lock.load(OWNED).closed(ID)
        self.assertEqual(lock, lock.closed(ID))

    def test_lock_without_a_latch_names_no_superposition(self) -> None:
        self.assertIsNone(latch.Lock().superposition)
        self.assertIsNone(latch.Lock.load(OWNED).superposition)

    def test_other_bytes_are_an_error(self) -> None:
        for raw in (b'', OWNED[:-1], OWNED + b'x', b'\x02' + OWNED[1:],
                    FREE.replace(b'\x11\0\0\0\0', b'\x11\0\0\0\x01')):
            self.assertRaises(errors.ClusterError, latch.Lock.load, raw)


class UnownedTest(testtools.TestCase):
    """The version of a header whose lock has no owner."""

    def version(self, lock: bytes | None, superposition: str = '') -> int:
        """Return it.

        :param lock: as it is stored; None if it was never taken
        :param superposition: its latch is no owner
        """
        io = mock.Mock(**{
            'get_xattrs.return_value': [] if lock is None else [('lock.rbd_lock', lock)],
            'get_last_version.return_value': 7})
        cluster: Any = fakes.Cluster(io)
        return latch.Latch(cluster, mock.Mock()).unowned(fakes.volume(), superposition)

    def test_free_lock_has_a_version(self) -> None:
        self.assertEqual([7, 7], [self.version(FREE), self.version(None)])

    def test_owned_lock_has_no_version(self) -> None:
        self.assertEqual(0, self.version(OWNED))
        self.assertEqual(0, self.version(latch.Lock.load(FREE).closed(ID).dump()))

    def test_own_latch_is_no_owner(self) -> None:
        self.assertEqual([7, 0], [self.version(latch.Lock.load(lock).closed(ID).dump(), ID)
                                  for lock in (FREE, OWNED)])
