# SPDX-License-Identifier: Apache-2.0
"""A backup that runs: made durable by the collapse, merged under its writes, and interrupted."""

from collections.abc import Callable, Iterator
import contextlib
import pathlib
import shutil
import threading

import fixtures

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.overlay import qmp_backup
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base
from specreds_cinder.tests.functional import test_contents as contents

KIB = contents.KIB
SIZE = protocol_base.SIZE
OBJECT = contents.OBJECT


class OnlineTestCase(contents.ContentsTestCase):
    """Two volumes of a primary, and a backup that runs on their child versions."""

    def setUp(self) -> None:
        super().setUp()
        self.refs = [self.make_volume(), self.make_volume()]
        self.primary = self.make_primary(*self.refs)
        self.expected = [bytearray(self.contents(ref)) for ref in self.refs]
        self.record = self.superpose(*self.refs)
        self.backup = self.make_backup(self.record)

    def change(self, *changes: contents.Change) -> None:
        """Apply the same changes of the backup to each of its disks, without a flush."""
        for disk, expected in zip(self.backup.disks, self.expected, strict=True):
            for change in changes:
                change.send(disk)
                change.apply(expected)

    def assert_volumes(self) -> None:
        """Assert the contents of the volumes' own images."""
        for ref, expected in zip(self.refs, self.expected, strict=True):
            self.assert_holds(expected, self.contents(ref))

    def assert_children(self) -> None:
        """Assert the contents of the child versions after killing the backup."""
        self.backup.kill()
        self.bury(self.record)
        again = self.make_backup(self.record)
        for disk, expected in zip(again.disks, self.expected, strict=True):
            self.assert_holds(expected, bytes(disk.pread(SIZE, 0)))
        again.end()

    def promote(self) -> None:
        """Collapse with the hook of the backup."""
        self.assertEqual(
            'promoted', self.protocol.collapse(self.record, backup=self.backup.hook).outcome)
        self.assertTrue(self.primary.clients <= self.fenced())

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Let the backup write all the time."""
        enough = threading.Event()
        written = 0

        def write() -> None:
            nonlocal written
            while not enough.is_set():
                with self.backup.running_guest:
                    self.change(contents.Change('write', written % 1024 * 4 * KIB, 4 * KIB))
                written += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            enough.set()
            writer.join()
        self.assertGreater(written, 0)


class OnlineTest(OnlineTestCase):

    def test_merge_keeps_the_writes_of_a_running_guest(self) -> None:
        self.change(*contents.CHANGES)
        self.promote()
        self.change(contents.Change('write', 5 * OBJECT, 64 * KIB))
        with self.writing():
            self.protocol.merge(self.record, backup=self.backup.hook)
        self.assertEqual([True, False], self.backup.suspended)
        self.assert_nothing_left(self.record)
        # The guest uses the volume's own image.
        self.change(contents.Change('write', 7 * OBJECT, 4 * KIB),
                    contents.Change('zero', OBJECT, 4 * KIB))
        self.backup.end()
        self.assert_volumes()

    def test_unflushed_writes_survive_once_durable(self) -> None:
        self.change(*contents.CHANGES)
        self.backup.hook.make_durable(self.record)
        self.assert_children()

    def test_flushed_writes_survive_once_promoted(self) -> None:
        self.promote()
        self.change(*contents.CHANGES)
        for disk in self.backup.disks:
            disk.flush()
        self.assert_children()

    def test_backup_with_a_ceph_conf_of_its_own_is_made_durable(self) -> None:
        conf = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'ceph.conf')
        shutil.copy(self.ceph.conf, conf)
        record = self.superpose(self.make_volume())
        backup = actors.Backup(sp.Cluster(str(conf), 'cinder', base.TIMEOUT), record)
        self.addCleanup(backup.end)
        backup.disks[0].pwrite(b'\x43' * 4096, 0)
        hook = qmp_backup.QmpBackup(self.cluster, backup.qmp, backup.prefixes)
        self.assertEqual('promoted', self.protocol.collapse(record, backup=hook).outcome)
        backup.kill()
        self.bury(record)
        self.protocol.merge(record)
        self.assertEqual(b'\x43' * 4096, self.contents(record.volumes[0].ref, 4096))

    def test_abort_fences_the_backup(self) -> None:
        self.change(*contents.CHANGES)
        before = self.contents(self.refs[0])
        self.protocol.abort(self.record)
        self.assert_nothing_left(self.record)
        self.backup.kill()
        self.bury(self.record)
        self.assertEqual(0, self.primary.write(OBJECT, 0x55))
        self.primary.close()
        self.assert_holds(before[:OBJECT] + b'\x55' * 4096 + before[OBJECT + 4096:],
                          self.contents(self.refs[0]))

    def test_collapse_is_refused_without_the_hook_of_the_backup(self) -> None:
        self.change(*contents.CHANGES)
        error = self.assertRaises(sp.OverlayBusy, self.protocol.collapse, self.record)
        holders = [volumes.clients(self.cluster, volume.overlay_ref)
                   for volume in self.record.volumes]
        self.assertLessEqual(frozenset().union(*holders), error.clients)
        for client in error.clients:
            self.assertIn(client, str(error))
        self.assertEqual(self.record, self.protocol.reload(self.record))

    def test_merge_is_refused_without_the_hook_of_the_backup(self) -> None:
        self.promote()
        self.assertRaises(sp.OverlayBusy, self.protocol.merge, self.record)
        self.change(*contents.CHANGES)
        self.protocol.merge(self.record, backup=self.backup.hook)
        self.backup.end()
        self.assert_volumes()

    def test_merge_is_refused_through_another_qemu_or_other_nodes(self) -> None:
        self.change(*contents.CHANGES)
        self.promote()
        other = self.make_backup(self.superpose(self.make_volume(), self.make_volume()))
        for hook in (other.hook, qmp_backup.QmpBackup(
                self.cluster, self.backup.qmp, ['other0', 'other1'])):
            self.assertRaises(sp.BackupError, self.protocol.merge, self.record, backup=hook)
            self.assertEqual(states.MERGING, self.protocol.reload(self.record).state)
        self.assertEqual(([], []), (other.suspended, self.backup.suspended))
        self.protocol.merge(self.record, backup=self.backup.hook)
        self.backup.end()
        self.assert_volumes()

    def test_switch_is_refused_through_another_qemu_or_other_nodes(self) -> None:
        self.change(*contents.CHANGES)
        self.promote()
        other = self.make_backup(self.superpose(self.make_volume(), self.make_volume()))

        def die(event: sp.trace.Event) -> None:
            if (event.name, event.phase) == ('merge.switch', 'before'):
                raise protocol_base.Cut
        with contextlib.suppress(protocol_base.Cut), sp.trace.observe(die):
            self.protocol.merge(self.record, backup=self.backup.hook)
        for hook in (other.hook, qmp_backup.QmpBackup(
                self.cluster, self.backup.qmp, ['other0', 'other1'])):
            self.assertRaises(sp.BackupError, self.protocol.merge, self.record, backup=hook)
        self.assertEqual(([], [True]), (other.suspended, self.backup.suspended))
        self.protocol.merge(self.record, backup=self.backup.hook)
        self.backup.end()
        self.assert_volumes()

    def test_record_says_merged_before_any_disk_is_switched(self) -> None:
        self.change(*contents.CHANGES)
        self.promote()
        seen = []

        def note(event: sp.trace.Event) -> None:
            if (event.name, event.phase) == ('merge.switch', 'before'):
                seen.append(self.protocol.reload(self.record).state)
        with sp.trace.observe(note):
            self.protocol.merge(self.record, backup=self.backup.hook)
        self.assertEqual([states.MERGED, states.MERGED], seen)
        self.backup.end()
        self.assert_volumes()

    def test_guest_keeps_its_overlays_when_the_end_cannot_be_recorded(self) -> None:
        self.change(*contents.CHANGES)
        self.promote()
        hook = self.backup.hook
        settle = hook.settle

        def settle_too_late(record: records.Record) -> None:
            settle(record)
            self.protocol.label(record, opened_by='another host')
        self.useFixture(fixtures.MonkeyPatch(
            'specreds_cinder.superposition.overlay.qmp_backup.QmpBackup.settle',
            lambda _hook, record: settle_too_late(record)))
        self.assertRaises(sp.RecordChanged, self.protocol.merge, self.record, backup=hook)
        self.assertEqual([True, False], self.backup.suspended)
        self.assertEqual(states.MERGING, self.protocol.reload(self.record).state)
        self.change(contents.Change('write', 3 * OBJECT, 64 * KIB))
        for disk in self.backup.disks:
            disk.flush()
        self.assert_children()

    def test_merge_is_repeated_after_the_death_of_the_backup(self) -> None:
        self.change(contents.Change('write', 0, SIZE))
        self.promote()
        for disk in self.backup.disks:
            disk.flush()

        def kill(done: int, _total: int) -> None:
            if done and self.backup.running:
                self.backup.kill()
        self.assertRaises(sp.BackupError, self.protocol.merge, self.record,
                          backup=self.backup.hook, rate=4 << 20, progress=kill)
        self.assertEqual(states.MERGING, self.protocol.reload(self.record).state)
        # The volumes have a part of the writes; the overlays still have all of them.
        self.assert_children()
        self.protocol.merge(self.record)
        self.assert_nothing_left(self.record)
        self.assert_volumes()


class CutOffTest(OnlineTestCase):
    """Controllers that die one after the other, each at the first change where none has died."""

    def see_through(self, state: str, work: Callable[[], object]) -> str:
        """Resume, and start the operation where it has not started, until a controller lives.

        :param state: result of a resume before the operation has started
        """
        deaths: set[tuple[str, str, str]] = set()

        def die(event: sp.trace.Event) -> None:
            key = (event.name, event.target, event.phase)
            if event.kind == 'change' and key not in deaths:
                deaths.add(key)
                raise protocol_base.Cut

        with sp.trace.observe(die):
            for _ in range(100):
                with contextlib.suppress(protocol_base.Cut):
                    if self.resume() == state:
                        work()
                    break
        self.assertGreater(len(deaths), 3)
        return self.resume()

    def resume(self) -> str:
        """Resume from the record alone."""
        try:
            return self.protocol.resume(self.record, backup=self.backup.hook)
        except sp.NotSuperposed:
            return 'ended'

    def test_interrupted_collapse_ends_promoted(self) -> None:
        self.change(*contents.CHANGES)
        with self.writing():
            outcome = self.see_through('superposed', lambda: self.protocol.collapse(
                self.record, backup=self.backup.hook))
        self.assertEqual('promoted', outcome)
        self.assertTrue(self.primary.clients <= self.fenced())
        for disk in self.backup.disks:
            disk.flush()
        self.assert_children()

    def test_interrupted_merge_ends(self) -> None:
        self.change(*contents.CHANGES)
        self.promote()
        with self.writing():
            outcome = self.see_through('promoted', lambda: self.protocol.merge(
                self.record, backup=self.backup.hook))
        self.assertEqual('ended', outcome)
        self.assertFalse(self.backup.suspended[-1])
        self.protocol.tidy(self.record.home, older_s=0)
        self.assert_nothing_left(self.record)
        self.backup.end()
        self.assert_volumes()
