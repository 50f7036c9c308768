# SPDX-License-Identifier: Apache-2.0
"""An overlay that may be torn is not promoted."""

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base


class DurableTest(protocol_base.ProtocolTestCase):
    """A volume with a primary, in superposition, whose backup nobody names."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.make_volume()
        self.primary = self.make_primary(self.volume)
        self.record = self.superpose(self.volume)

    def torn(self) -> None:
        """Let a backup write, and die before its disks are durable."""
        backup = self.make_backup(self.record)
        # Its cache holds back 8 MiB.
        for number in range(24):
            backup.disks[0].pwrite(bytes([number]) * base.MIB, number * base.MIB)
        backup.kill()
        self.bury(self.record)

    def refused(self) -> str:
        """Promote without a backup, see that refused, and return why."""
        return str(self.assertRaises(sp.BackupError, self.protocol.collapse, self.record))

    def test_backup_that_has_written_and_died_is_not_promoted(self) -> None:
        self.torn()
        reason = self.refused()
        self.assertIn(str(self.record.volumes[0].overlay_ref), reason)
        self.assertIn('abort', reason)
        self.assertEqual(states.SUPERPOSED, self.protocol.reload(self.record).state)
        self.protocol.abort(self.record)
        self.assertEqual(0, self.primary.write(0))
        self.assert_nothing_left(self.record)

    def test_backup_that_has_read_only_is_promoted(self) -> None:
        backup = self.make_backup(self.record)
        self.assertEqual(b'\x50' * 4096, backup.disks[0].pread(4096, 0))
        backup.end()
        self.assertEqual('promoted', self.protocol.collapse(self.record).outcome)

    def test_single_change_of_a_header_counts(self) -> None:
        objects = overlay.Objects.of(self.cluster, self.record.volumes[0].overlay_ref)
        with self.open_pool() as io:
            data = io.read(objects.data(0).decode(), 16)
            io.write(objects.data(0).decode(), data)
        self.refused()

    def test_write_during_the_collapse_counts(self) -> None:
        volume = self.record.volumes[0]
        with sp.trace.observe(self.at('fence.add', 'before', lambda: actors.child_io(
                self.cluster, volume, 'write -P 7 0 4k'))):
            self.refused()
        self.assertEqual(states.COLLAPSING, self.protocol.reload(self.record).state)
        self.assertRaises(sp.BackupError, self.protocol.resume, self.record)
        self.protocol.abort(self.record)
        self.assert_nothing_left(self.record)

    def test_collapse_that_had_made_it_durable_is_resumed_without_the_backup(self) -> None:
        backup = self.make_backup(self.record)
        backup.disks[0].pwrite(b'\x42' * 4096, 0)
        with sp.trace.observe(self.at('fence.add', 'before', protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, self.record,
                              backup=backup.hook)
        backup.kill()
        self.bury(self.record)
        self.assertEqual('promoted', self.protocol.resume(self.record))
        self.protocol.merge(self.record)
        self.assertEqual(b'\x42' * 4096, self.contents(self.volume)[:4096])
