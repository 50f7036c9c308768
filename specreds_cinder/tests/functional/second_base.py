# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of superpositions over a promoted one."""

from typing import Any

from specreds_cinder import superposition as sp
from specreds_cinder.superposition import states
from specreds_cinder.superposition import volume as volumes
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base

BLOCK = 4096
# The primary writes at the first place, its backup at the second, and the backup of that one at
# the third. All of them write at the last one.
PRIMARY, FIRST, SECOND, ALL = 0, 64 << 10, 192 << 10, base.MIB


class SecondTestCase(protocol_base.ProtocolTestCase):
    """A volume whose backup was promoted, runs and is not merged yet."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.make_volume()
        self.addCleanup(self.unlock, self.volume)
        self.primary = self.make_primary(self.volume)
        self.assertEqual(0, self.primary.write(ALL, 0x50))
        self.first = self.superpose(self.volume)
        self.server = self.make_backup(self.first)
        self.write(self.server, FIRST, 0x51)
        self.write(self.server, ALL, 0x51)
        self.assertEqual('promoted',
                         self.protocol.collapse(self.first, backup=self.server.hook).outcome)
        self.first = self.protocol.reload(self.first)

    @staticmethod
    def write(backup: actors.Backup, place: int, byte: int) -> None:
        """Write a block, and flush."""
        backup.disks[0].pwrite(bytes([byte]) * BLOCK, place)
        backup.disks[0].flush()

    @staticmethod
    def read(backup: actors.Backup, *places: int) -> list[int]:
        """Return the first byte of blocks."""
        return [backup.disks[0].pread(BLOCK, place)[0] for place in places]

    def superpose_again(self, **options: Any) -> sp.Record:
        """Superpose the promoted version until the test ends."""
        record = self.protocol.super([self.volume], again=True, **options)
        self.addCleanup(self.drop, record)
        return record

    def promoted_again(self) -> sp.Record:
        """Promote a second backup, which has written and ends, while the first one hangs."""
        record = self.superpose_again()
        backup = self.make_backup(record)
        self.write(backup, SECOND, 0x52)
        self.write(backup, ALL, 0x52)
        self.assertEqual('promoted',
                         self.protocol.collapse(record, backup=backup.hook).outcome)
        backup.end()
        return self.protocol.reload(record)

    def assert_dropped(self, record: sp.Record) -> None:
        """Assert that a superposition has left nothing but the promoted one below it."""
        layer, volume = record.volumes[0].parents
        # The index is what a controller removes last, behind the record.
        self.protocol.tidy(record.home, older_s=0)
        self.assertIsNone(self.protocol.latch.superposition(layer))
        self.assertEqual(self.first.id, self.protocol.latch.superposition(volume))
        self.assertEqual(states.GONE, self.state(record))
        self.assertNotIn(record.id, self.protocol.store.index(record.home))
        self.assertNotIn(record.volumes[0].overlay, self.images(record.home).values())
        self.assertEqual(self.first.id, self.protocol.find(self.volume).id)

    def kill(self, backup: actors.Backup, record: sp.Record) -> None:
        """Kill a backup that an abort has not fenced, since it is on the host of the primary."""
        clients = self.open_at(*(image.ref for image in record.volumes[0].parents))
        backup.kill()
        self.protocol.fence.close(clients - record.clients - set(record.inherited))

    def open_at(self, *refs: sp.VolumeRef) -> frozenset[str]:
        """Return the clients of images."""
        return frozenset().union(*(volumes.clients(self.cluster, ref) for ref in refs))

    def server_clients(self) -> frozenset[str]:
        """Return the clients of the first backup, as long as no other one runs."""
        return self.open_at(self.volume, self.first.volumes[0].overlay_ref) - set(
            self.first.fenced)

    def state(self, record: sp.Record) -> str:
        """Return the state of a record, also if it is gone."""
        try:
            return self.protocol.reload(record).state
        except sp.NotSuperposed:
            return states.GONE

    def places(self) -> list[int]:
        """Return the first byte of each place in the volume's own image."""
        data = self.contents(self.volume)
        return [data[place] for place in (PRIMARY, FIRST, SECOND, ALL)]
