# SPDX-License-Identifier: Apache-2.0
"""An invalid object map is rebuilt by the owner of the volume's lock, and by nobody else."""

import signal
import struct

import rbd
import tenacity

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import volume as volumes
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import protocol_base

_SECONDS = 30


class RebuildTest(protocol_base.ProtocolTestCase):
    """A volume whose object map librbd has flagged as invalid."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.make_volume()

    def facts(self) -> volumes.Facts:
        """Return the properties of the image."""
        return volumes.inspect(self.cluster, self.volume)

    def invalidate(self) -> None:
        """Flag the object map, as a client does whose update of it fails."""
        flag = rbd.RBD_FLAG_OBJECT_MAP_INVALID
        with self.open_pool() as io:
            io.execute(f'rbd_header.{self.facts().image_id}', 'rbd', 'set_flags',
                       struct.pack('<QQ', flag, flag))
        self.assertTrue(self.facts().invalid_map)

    def assert_lock_untouched(self, primary: actors.Primary) -> None:
        """Assert that a primary has the lock, and no fence."""
        self.assertEqual(primary.clients, self.facts().owners)
        self.assertEqual(set(), primary.clients & self.fenced())

    @tenacity.retry(retry=tenacity.retry_if_exception_type(AssertionError), reraise=True,
                    stop=tenacity.stop_after_delay(_SECONDS), wait=tenacity.wait_fixed(0.1))
    def await_valid(self) -> None:
        """Wait until the map is rebuilt."""
        self.assertFalse(self.facts().invalid_map)

    def test_volume_of_a_living_owner_is_superposed(self) -> None:
        primary = self.make_primary(self.volume)
        self.invalidate()
        record = self.superpose(self.volume)
        self.assert_lock_untouched(primary)
        self.assertTrue(self.protocol.check(record).clean)
        self.assertEqual(0, primary.write(7 * 2**22))
        self.assertTrue(self.protocol.check(record).dirty)

    def test_volume_of_a_living_owner_is_eligible(self) -> None:
        primary = self.make_primary(self.volume)
        self.invalidate()
        self.assertEqual([], self.protocol.objections(self.volume))
        self.assert_lock_untouched(primary)

    def test_volume_without_an_owner_is_refused(self) -> None:
        self.invalidate()
        self.assertRaises(sp.NotEligible, self.protocol.super, [self.volume])
        self.assertEqual((True, frozenset()), (self.facts().invalid_map, self.facts().owners))

    def test_volume_of_an_owner_that_hangs_is_refused(self) -> None:
        primary = self.make_primary(self.volume)
        self.invalidate()
        primary.signal(signal.SIGSTOP)
        self.assertRaises(sp.NotEligible, self.protocol.super, [self.volume])
        self.assert_lock_untouched(primary)
        primary.signal(signal.SIGCONT)
        # The request has waited for it.
        self.await_valid()
        self.assertEqual(0, primary.write(0))

    def test_map_is_rebuilt_after_a_race_that_the_primary_has_won(self) -> None:
        primary = self.make_primary(self.volume)
        record = self.superpose(self.volume)
        self.invalidate()
        self.assertEqual('unproven', self.protocol.collapse(record).outcome)
        self.await_valid()
        self.assert_lock_untouched(primary)

    def test_map_that_becomes_invalid_after_the_race_is_rebuilt(self) -> None:
        primary = self.make_primary(self.volume)
        record = self.superpose(self.volume)
        self.protocol.abort(record)
        # It hung until now.
        self.invalidate()
        self.protocol.tidy(record.home)
        self.await_valid()
        self.assert_lock_untouched(primary)

    def test_client_that_has_lost_its_lock_takes_it_again_and_rebuilds_the_map(self) -> None:
        primary = self.make_primary(self.volume)
        record = self.superpose(self.volume)
        # As when the backup breaks the lock of a primary that hangs, and lets it go.
        self.unlock(self.volume)
        self.invalidate()
        self.protocol.abort(record)
        self.assertEqual(frozenset(), self.facts().owners)
        self.assertEqual(0, primary.write(0))
        self.protocol.tidy(record.home)
        self.await_valid()
        self.assert_lock_untouched(primary)

    def test_map_is_rebuilt_by_a_late_dirty_server_that_was_started_again(self) -> None:
        primary = self.make_primary(self.volume)
        record = self.superpose(self.volume)
        with sp.trace.observe(self.at('fence', 'before', self.invalidate)):
            self.assertEqual('late-dirty', self.protocol.collapse(record).outcome)
        again = self.make_primary(self.volume)
        self.protocol.tidy(record.home)
        self.await_valid()
        self.assert_lock_untouched(again)
        # The former client stays fenced.
        self.assertTrue(primary.clients <= self.fenced())

    def test_map_of_a_volume_in_another_superposition_is_left(self) -> None:
        self.make_primary(self.volume)
        self.protocol.abort(self.superpose(self.volume))
        record = self.superpose(self.volume)
        self.invalidate()
        self.protocol.tidy(record.home)
        self.assertTrue(self.protocol.check(record).unproven)
        self.assertTrue(self.facts().invalid_map)
