# SPDX-License-Identifier: Apache-2.0
"""The lock of a volume stays with the primary, also where its object map has to be rebuilt."""

import signal
import struct

import rbd
import tenacity

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import volume as volumes
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


class BackupTest(protocol_base.ProtocolTestCase):
    """A backup that writes less than QEMU's blocks."""

    def test_backup_takes_no_lock_of_a_volume(self) -> None:
        # Its primary hangs, and its watch has expired: librbd breaks such a lock, as it takes
        # this one, which has no owner.
        volume = self.make_volume()
        record = self.superpose(volume)
        before = self.header_version(record)
        objects = record.volumes[0].object_size
        # Sectors of the log of XFS, zeros, and a discard: beside data, and where there is none.
        for place in (0, objects, 6 * objects):
            self.child_io(record, f'write -P 1 {place} 512', f'write -P 2 {place + 7 * 512} 1536',
                          f'write -z {place + 70 * 512} 512', f'discard {place + 90 * 512} 512')
        self.assertEqual(before, self.header_version(record))

    def header_version(self, record: sp.Record) -> int:
        """Return the version of the header of a record's volume, which every lock changes."""
        volume = record.volumes[0]
        io = self.cluster.aio.ioctx(volume.pool_id, volume.namespace)
        return io.stat_versions([f'rbd_header.{volume.image_id}'.encode()], 1)[0]
