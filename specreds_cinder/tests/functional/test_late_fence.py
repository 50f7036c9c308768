# SPDX-License-Identifier: Apache-2.0
"""Entries of the blocklist that come after a decision for the primary."""

from unittest import mock

import rbd

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.steps import end
from specreds_cinder.tests.functional import fence_base
from specreds_cinder.tests.functional import protocol_base


class LateFenceTestCase(fence_base.FenceTestCase):
    """A test of blocklist entries that come after a decision for the primary."""

    def dropped_before_a_fence(self) -> None:
        """Decide for the primary after a controller has died that was about to fence it."""
        record = self.collapse_cut_off('fence.add', 'before')
        self.assertEqual(0, self.primary.write(0, 0x57))
        self.assertEqual('dirty', self.protocol.resume(record))
        self.assert_nothing_left(record)

    def dropped_while_a_fence_was_under_way(self) -> None:
        """Decide for the primary after a controller has died whose fence comes late."""
        self.dropped_before_a_fence()
        # As when the monitors have elected a leader.
        self.protocol.fence.close(self.primary.clients)

    def dropped(self) -> set[str]:
        """Return the superpositions whose late fences are looked for."""
        return {record.id for record in self.protocol.dropped.read(self.record.home)}


class LateFenceTest(LateFenceTestCase):

    def test_fence_that_comes_after_its_controller_has_died_is_lifted(self) -> None:
        self.dropped_while_a_fence_was_under_way()
        self.protocol.tidy(self.record.home)
        self.assertEqual(set(), self.primary.clients & self.fenced())

    def test_late_fence_of_a_claimed_volume_is_left_to_its_superposition(self) -> None:
        self.dropped_while_a_fence_was_under_way()
        record = self.superpose(self.volume)
        with mock.patch.object(end, '_LATE_S', 0):
            self.protocol.tidy(record.home)
        self.assertTrue(self.primary.clients <= self.fenced())
        self.protocol.abort(record)
        self.protocol.tidy(record.home)
        self.assertEqual(set(), self.primary.clients & self.fenced())

    def test_fence_of_a_later_promotion_is_not_taken_for_a_late_one(self) -> None:
        self.dropped_while_a_fence_was_under_way()
        record = self.superpose(self.volume)
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.protocol.tidy(record.home)
        self.protocol.merge(record)
        self.protocol.tidy(record.home)
        self.assertTrue(self.primary.clients <= self.fenced())

    def test_late_fence_is_looked_for_an_hour_long(self) -> None:
        self.dropped_while_a_fence_was_under_way()
        self.protocol.tidy(self.record.home)
        self.assertIn(self.record.id, self.dropped())
        with mock.patch.object(end, '_LATE_S', 0):
            self.protocol.tidy(self.record.home)
        self.assertNotIn(self.record.id, self.dropped())

    def test_fence_by_librbd_or_an_operator_is_left(self) -> None:
        self.dropped_before_a_fence()
        for client in self.primary.clients:
            # An hour, as librbd does when it breaks the lock of a host that has failed.
            self.ceph.admin(['osd', 'blocklist', 'add', client, '3600'])
        self.protocol.tidy(self.record.home)
        self.assertTrue(self.primary.clients <= self.fenced())


class RemovedPoolTest(LateFenceTestCase):

    def make_pools(self) -> None:
        """Create a second pool."""
        self.second = self.make_pool('second', pg_num=1)

    def test_late_fence_is_lifted_though_the_pool_of_a_volume_was_removed(self) -> None:
        self.protocol.abort(self.record)
        gone = sp.VolumeRef(self.second, '', 'gone')
        with self.open_pool(gone.pool) as io:
            rbd.RBD().create(io, gone.image, protocol_base.SIZE, old_format=False)
        self.record = self.superpose(self.volume, gone)
        self.dropped_while_a_fence_was_under_way()
        self.ceph.delete_pool(gone.pool)
        with mock.patch.object(end, '_LATE_S', 0):
            self.protocol.tidy(self.record.home)
        self.assertEqual(set(), self.primary.clients & self.fenced())
        self.assertNotIn(self.record.id, self.dropped())
