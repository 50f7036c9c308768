# SPDX-License-Identifier: Apache-2.0
"""A promoted server that is not merged yet is superposed again."""

from unittest import mock

import nbd
import rbd

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import states
from specreds_cinder.superposition.protocol import create
from specreds_cinder.tests.functional import protocol_base
from specreds_cinder.tests.functional import second_base
from specreds_cinder.tests.functional import test_latch

ALL, FIRST, PRIMARY, SECOND = (second_base.ALL, second_base.FIRST, second_base.PRIMARY,
                               second_base.SECOND)


class DecisionTest(second_base.SecondTestCase):

    def test_second_backup_sees_the_writes_of_the_first(self) -> None:
        record = self.superpose_again()
        backup = self.make_backup(record)
        self.assertEqual([0x50, 0x51, 0x51], self.read(backup, PRIMARY, FIRST, ALL))
        self.assertFalse(self.protocol.check(record).dirty)

    def test_write_of_the_first_backup_is_dirty(self) -> None:
        record = self.superpose_again()
        self.write(self.server, FIRST, 0x61)
        self.assertTrue(self.protocol.check(record).dirty)
        self.assertEqual('dirty', self.protocol.collapse(record).outcome)
        self.assertEqual(states.GONE, self.state(record))
        self.write(self.server, FIRST, 0x62)
        self.protocol.merge(self.first, backup=self.server.hook)
        self.server.end()
        self.assertEqual(0x62, self.places()[1])
        self.assert_nothing_left(self.first)

    def test_abort_leaves_the_first_backup_as_it_was(self) -> None:
        clients = self.server_clients()
        record = self.superpose_again()
        backup = self.make_backup(record)
        self.write(backup, SECOND, 0x52)
        self.protocol.abort(record)
        self.assert_dropped(record)
        self.write(self.server, SECOND, 0x61)
        self.assertTrue(clients.isdisjoint(self.fenced()))
        self.assertTrue(self.primary.clients <= self.fenced())
        self.kill(backup, record)
        self.protocol.merge(self.first, backup=self.server.hook)
        self.server.end()
        self.assertEqual([0x50, 0x51, 0x61, 0x51], self.places())
        self.assert_nothing_left(self.first)

    def test_promoted_second_backup_is_merged_with_both_overlays(self) -> None:
        record = self.promoted_again()
        self.assertEqual(states.GONE, self.state(self.first))
        self.assertEqual(record.id, self.protocol.find(self.volume).id)
        self.protocol.merge(record)
        self.assertEqual([0x50, 0x51, 0x52, 0x52], self.places())
        self.assert_nothing_left(self.first)
        self.assert_nothing_left(record)
        self.server.kill()

    def test_promoted_second_backup_is_merged_while_it_runs(self) -> None:
        record = self.superpose_again()
        backup = self.make_backup(record)
        self.write(backup, SECOND, 0x52)
        self.assertEqual('promoted',
                         self.protocol.collapse(record, backup=backup.hook).outcome)
        self.write(backup, ALL, 0x53)
        self.protocol.merge(record, backup=backup.hook)
        self.write(backup, PRIMARY, 0x54)
        backup.end()
        self.assertEqual([0x54, 0x51, 0x52, 0x53], self.places())
        self.assert_nothing_left(self.first)
        self.assert_nothing_left(record)
        self.server.kill()

    def test_third_backup_runs_on_three_overlays(self) -> None:
        second = self.promoted_again()
        third = self.superpose_again()
        self.assertEqual(2, len(third.volumes[0].layers))
        backup = self.make_backup(third)
        self.assertEqual([0x50, 0x51, 0x52, 0x52],
                         self.read(backup, PRIMARY, FIRST, SECOND, ALL))
        self.write(backup, ALL, 0x53)
        self.assertEqual('promoted', self.protocol.collapse(third, backup=backup.hook).outcome)
        self.assertEqual(states.GONE, self.state(second))
        backup.end()
        self.protocol.merge(third)
        self.assertEqual([0x50, 0x51, 0x52, 0x53], self.places())
        for record in (self.first, second, third):
            self.assert_nothing_left(record)
        self.server.kill()

    def test_late_dirty_server_is_started_again_on_its_overlay(self) -> None:
        record = self.superpose_again()
        old = self.server_clients()
        with sp.trace.observe(self.at('fence', 'before', lambda: self.write(
                self.server, FIRST, 0x61))):
            self.assertEqual('late-dirty', self.protocol.collapse(record).outcome)
        self.assert_dropped(record)
        first = self.protocol.reload(self.first)
        self.assertTrue(old <= set(first.fenced))
        self.assertRaises(nbd.Error, self.write, self.server, FIRST, 0x62)
        self.server.kill()
        again = self.make_backup(first, speculative=False)
        self.assertEqual([0x50, 0x61, 0x51], self.read(again, PRIMARY, FIRST, ALL))
        self.write(again, SECOND, 0x63)
        again.end()
        self.protocol.tidy(first.home)
        self.protocol.merge(first)
        self.assertEqual([0x50, 0x61, 0x63, 0x51], self.places())
        self.assertTrue(old | self.primary.clients <= self.fenced())
        self.assert_nothing_left(first)

    def test_stranger_cannot_write_to_the_overlay_of_a_failed_server(self) -> None:
        record = self.promoted_again()
        layer, volume = record.volumes[0].parents
        self.assertEqual([record.id] * 2, [self.protocol.latch.superposition(image)
                                           for image in (layer, volume)])
        stranger = test_latch.Stranger(self, layer)
        stranger.wait_refused()
        self.protocol.merge(record)
        self.assertEqual(protocol_base.DEAD, stranger.end())
        self.assertEqual([0x50, 0x51, 0x52, 0x52], self.places())


class RefusedTest(second_base.SecondTestCase):

    def test_promoted_version_is_superposed_on_request_only(self) -> None:
        self.assertRaises(sp.AlreadySuperposed, self.protocol.super, [self.volume])

    def test_one_superposition_is_over_a_promoted_one_at_a_time(self) -> None:
        self.superpose_again()
        self.assertRaises(sp.Conflict, self.superpose_again)

    def test_all_volumes_of_a_promoted_superposition_belong_to_the_next_one(self) -> None:
        self.assertRaises(sp.AlreadySuperposed, self.protocol.super,
                          [self.volume, self.make_volume()], again=True)

    def test_overlay_without_exclusive_lock_is_refused(self) -> None:
        self.server.end()
        overlay = self.first.volumes[0].overlay_ref
        with self.open_pool() as io, rbd.Image(io, overlay.image) as image:
            image.update_features(rbd.RBD_FEATURE_EXCLUSIVE_LOCK, False)
        error = self.assertRaises(sp.NotEligible, self.superpose_again)
        self.assertIn('older release', str(error))
        self.protocol.merge(self.first)
        self.assertEqual([0x50, 0x51], self.places()[:2])

    def test_number_of_overlays_is_limited(self) -> None:
        with mock.patch.object(create, 'MOST_OVERLAYS', 1):
            error = self.assertRaises(sp.NotEligible, self.superpose_again)
        self.assertIn('merge it first', str(error))

    def test_volume_in_no_superposition_is_superposed_as_usual(self) -> None:
        record = self.protocol.super([self.make_volume()], again=True)
        self.addCleanup(self.drop, record)
        self.assertIsNone(record.predecessor)
