# SPDX-License-Identifier: Apache-2.0
"""The life of a superposition, and the sweep, which finds every kind of change after the cut."""

import dataclasses
import json
import signal
import subprocess
import time
from unittest import mock

import ddt
import rbd

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.overlay import nodes
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base

OBJECT = 4 * base.MIB
# Place of the first four objects in an object map.
_FIRST_OBJECTS = 18


class LifeTest(protocol_base.ProtocolTestCase):

    def test_promoted_set_is_merged(self) -> None:
        first, second = self.make_volume(), self.make_volume()
        primary = self.make_primary(first, second)
        record = self.protocol.super([first, second], reason='test', server_id='a-server')
        self.addCleanup(self.drop, record)
        self.assertEqual(states.SUPERPOSED, record.state)
        self.assertEqual(('test', 'a-server'), (record.reason, record.server_id))
        self.assertEqual([first, second], [volume.ref for volume in record.volumes])
        self.assertEqual(primary.clients, record.clients)
        self.assertEqual(record, self.protocol.show(record.id, record.home))
        self.assertEqual(record, self.protocol.find(second))
        self.assertIn(record, self.protocol.list(record.home))

        report = self.protocol.check(record)
        self.assertEqual((False, None, 8), (report.dirty, report.first, report.objects))
        self.assertEqual(record, self.protocol.reload(record))

        outcome = self.protocol.collapse(record)
        self.assertEqual('promoted', outcome.outcome)
        promoted = self.protocol.reload(record)
        self.assertEqual((states.PROMOTED, 'promoted'), (promoted.state, promoted.outcome))
        self.assertEqual(primary.clients, set(promoted.fenced))
        self.assertRaises(sp.Conflict, self.protocol.abort, record)
        self.assertRaises(sp.Conflict, self.protocol.collapse, record)
        self.assertRaises(sp.Conflict, self.protocol.check, record)
        self.assertEqual('promoted', self.protocol.resume(record))

        self.protocol.merge(record)
        self.assertRaises(sp.NotSuperposed, self.protocol.reload, record)
        self.assertRaises(sp.NotSuperposed, self.protocol.find, first)
        self.assertRaises(sp.NotSuperposed, self.protocol.merge, record)
        self.assertNotIn(record.id, [each.id for each in self.protocol.list(record.home)])
        self.assert_nothing_left(record)
        # The dead primary stays fenced until its blocklist entries expire.
        self.assertTrue(primary.clients <= self.fenced())

    def test_abort_leaves_the_primary_alone(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        before = self.contents(volume)
        record = self.superpose(volume)
        self.assertRaises(sp.Conflict, self.protocol.merge, record)
        self.assertEqual('superposed', self.protocol.resume(record))
        self.protocol.abort(record)
        self.assert_nothing_left(record)
        self.assertEqual(before, self.contents(volume))
        self.assertEqual(0, primary.write(OBJECT))
        self.assertEqual(set(), primary.clients & self.fenced())
        self.assertRaises(sp.NotSuperposed, self.protocol.abort, record)

    def test_abort_fences_a_hung_backup_on_another_host(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        record = self.superpose(volume)
        backup = self.make_backup(record)
        backup.signal(signal.SIGSTOP)
        self.addCleanup(backup.kill)
        both = volumes.clients(self.cluster, volume)
        self.assertLess(primary.clients, both)
        theirs = (both | volumes.clients(self.cluster, record.volumes[0].overlay_ref)
                  ) - primary.clients
        # All clients of this Ceph have the address of this machine.
        with mock.patch.object(address, 'host', lambda client: (
                'other' if client in theirs else 'this')):
            self.protocol.abort(record)
        self.assert_nothing_left(record)
        # Its host is well: the entries do not stay until the host boots.
        self.assertLess(max(self.protocol.fence.remaining(theirs).values()), 86401)
        self.assertLessEqual(theirs, self.fenced())
        self.assertEqual(primary.clients, volumes.clients(self.cluster, volume))
        self.assertEqual(0, primary.write(OBJECT))
        # The primary is unambiguous again, so another superposition is possible at once.
        self.assertEqual(primary.clients, self.superpose(volume).clients)

    def test_abort_leaves_nothing(self) -> None:
        record = self.superpose(self.make_volume())
        self.protocol.abort(record)
        self.assert_nothing_left(record)

    def test_volume_can_be_superposed_again_after_its_merge(self) -> None:
        volume = self.make_volume()
        for _ in range(2):
            record = self.superpose(volume)
            self.assertEqual('promoted', self.protocol.collapse(record).outcome)
            self.protocol.merge(record)

    def test_list_has_one_namespace(self) -> None:
        self.make_namespace('tenant')
        inside = self.superpose(self.make_volume(namespace='tenant'))
        outside = self.superpose(self.make_volume())
        self.assertEqual([inside], self.protocol.list(sp.Home(self.pool, 'tenant')))
        self.assertEqual([outside], self.protocol.list(sp.Home(self.pool)))

    def test_list_is_oldest_first(self) -> None:
        made = [self.superpose(self.make_volume()) for _ in range(3)]
        listed = self.protocol.list(sp.Home(self.pool))
        self.assertEqual([record.id for record in made],
                         [record.id for record in listed if record in made])

    def test_progress_of_a_merge_reaches_its_total(self) -> None:
        record = self.superpose(self.make_volume())
        self.protocol.collapse(record)
        seen: list[tuple[int, int]] = []
        self.protocol.merge(record, progress=lambda done, total: seen.append((done, total)))
        self.assertEqual(seen[-1][0], seen[-1][1])
        self.assertEqual(sorted(seen), seen)

    def test_renamed_volume_is_merged(self) -> None:
        record = self.superpose(self.make_volume())
        volume = record.volumes[0]
        self.child_io(record, 'write -P 7 0 4k')
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        # librbd takes the exclusive lock for it, which the latch forbids until the merge begins.
        self.protocol.begin_merge(record)
        renamed = dataclasses.replace(volume.ref, image=f'{volume.image}-renamed')
        with self.open_pool() as io:
            rbd.RBD().rename(io, volume.image, renamed.image)
        self.addCleanup(self.remove_image, renamed)
        self.protocol.merge(record)
        self.assertEqual(b'\7' * 4096, self.contents(renamed)[:4096])
        self.assert_nothing_left(record)

    def test_volume_in_the_trash_is_not_merged_into_another_one_of_its_name(self) -> None:
        record = self.superpose(self.make_volume())
        volume = record.volumes[0]
        self.child_io(record, 'write -P 7 0 4k')
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.protocol.begin_merge(record)
        with self.open_pool() as io:
            rbd.RBD().trash_move(io, volume.image)
            error = self.assertRaises(sp.MergeFailed, self.protocol.merge, record)
            self.assertIn('rbd trash restore', str(error))
            rbd.RBD().create(io, volume.image, protocol_base.SIZE, old_format=False)
            other = self.contents(volume.ref)
            self.assertRaises(sp.MergeFailed, self.protocol.merge, record)
            self.assertEqual(other, self.contents(volume.ref))
            restored = dataclasses.replace(volume.ref, image=f'{volume.image}-restored')
            rbd.RBD().trash_restore(io, volume.image_id, restored.image)
        self.addCleanup(self.remove_image, restored)
        self.protocol.merge(record)
        self.assertEqual(b'\7' * 4096, self.contents(restored)[:4096])
        self.assert_nothing_left(record)

    def test_orphaned_merge_can_be_repeated(self) -> None:
        record = self.superpose(self.make_volume())
        volume = record.volumes[0]
        self.child_io(record, 'write -P 7 0 8M')
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        node = 'json:' + json.dumps(nodes.offline_chain(self.cluster, volume))
        orphan = subprocess.Popen(['qemu-img', 'commit', '-d', '-r', '4096', node],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            # Ceph may list a client for ever that dies while it opens an image.
            while not all(volumes.clients(self.cluster, ref)
                          for ref in (volume.overlay_ref, volume.ref)):
                self.assertIsNone(orphan.poll())
            self.assertRaises(sp.OverlayBusy, self.protocol.merge, record)
        finally:
            orphan.kill()
            orphan.wait()
        self.bury(record)
        self.protocol.merge(record)
        self.assertEqual(b'\7' * (8 << 20), self.contents(volume.ref)[:8 << 20])


@ddt.ddt
class CleanTest(protocol_base.ProtocolTestCase):
    """Without a write of the primary, a superposition stays clean."""

    def assert_clean(self, record: sp.Record) -> None:
        self.assertEqual((False, None), (self.protocol.check(record).dirty,
                                         self.protocol.check(record).first))
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)

    @ddt.data(0, 1, 8)
    def test_write_before_the_cut_is_clean(self, objects: int) -> None:
        volume = self.make_volume(objects)
        record = self.superpose(volume)
        self.assertEqual(objects, self.protocol.check(record).objects)
        self.assert_clean(record)

    def test_read_of_the_primary_is_clean(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        record = self.superpose(volume)
        self.assertEqual(b'\x50' * 4096, primary.read(0))
        self.assert_clean(record)

    def test_read_of_another_client_is_clean(self) -> None:
        volume = self.make_volume()
        self.make_primary(volume)
        record = self.superpose(volume)
        self.contents(volume)
        self.assert_clean(record)

    def test_write_to_another_volume_is_clean(self) -> None:
        volume, other = self.make_volume(), self.make_volume()
        record = self.superpose(volume)
        self.make_primary(other)
        self.assert_clean(record)

    def test_lock_taken_by_the_backup_is_clean(self) -> None:
        volume = self.make_volume()
        record = self.superpose(volume)
        with self.open_pool() as io, rbd.Image(io, volume.image) as image:
            image.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
        self.assert_clean(record)


@ddt.ddt
class DirtyTest(protocol_base.ProtocolTestCase):
    """A change of a volume after the cut makes the superposition dirty, or unproven."""

    def assert_dirty(self, record: sp.Record, why: str) -> None:
        self._assert_not_clean(record, why, 'dirty')

    def assert_unproven(self, record: sp.Record, why: str) -> None:
        self._assert_not_clean(record, why, 'unproven')

    def _assert_not_clean(self, record: sp.Record, why: str, outcome: str) -> None:
        report = self.protocol.check(record)
        self.assertEqual((outcome == 'dirty', outcome == 'unproven'),
                         (report.dirty, report.unproven))
        self.assertIn(why, report.first or '')
        self.assertEqual(outcome, self.protocol.collapse(record).outcome)
        self.assert_nothing_left(record)
        self.assertEqual(set(), self.fenced() & record.clients)

    @ddt.data(
        ('write', 0, 4096, 'was written'),
        ('write', OBJECT - 1, 1, 'was written'),
        ('write', 3 * OBJECT + 12345, 512, 'was written'),
        ('write', 6 * OBJECT, 4096, 'was written'),
        ('write', 7 * OBJECT + OBJECT - 4096, 4096, 'was written'),
        ('discard', 0, OBJECT, 'objects were created or discarded'),
        ('discard', 0, 65536, 'was written'),
    )
    @ddt.unpack
    def test_change_of_the_primary_is_dirty(self, do: str, offset: int, length: int,
                                            why: str) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        record = self.superpose(volume)
        self.assertEqual(0, primary.ask(do, offset=offset, length=length, byte=1))
        self.assert_dirty(record, why)
        self.assertEqual(0, primary.write(0, 0x99))
        self.assertEqual(b'\x99' * 4096, self.contents(volume)[:4096])

    @ddt.data(2 * protocol_base.SIZE, OBJECT, protocol_base.SIZE - 512)
    def test_resize_is_unproven(self, size: int) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        record = self.superpose(volume)
        self.assertEqual(0, primary.ask('resize', offset=0, length=size, byte=1))
        self.assert_unproven(record, 'was resized')
        # Another superposition may prove more.
        self.assertEqual(0, primary.write(0, 0x99))
        record = self.superpose(volume)
        self.assertEqual(0, primary.write(0, 0x9a))
        self.assert_dirty(record, 'was written')

    def test_object_created_and_discarded_is_dirty(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        record = self.superpose(volume)
        self.assertEqual(0, primary.write(7 * OBJECT))
        self.assertEqual(0, primary.ask('discard', offset=7 * OBJECT, length=OBJECT))
        self.assert_dirty(record, 'was touched by the primary')

    def test_object_discarded_between_cut_and_map_is_dirty(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume)
        with sp.trace.observe(self.at('cut', 'after', lambda: primary.ask(
                'discard', offset=0, length=OBJECT))):
            record = self.superpose(volume)
        self.assert_dirty(record, 'objects were created or discarded')

    def test_discard_in_flight_at_the_cut_is_dirty_once_it_ends(self) -> None:
        volume = self.make_volume()
        with self.open_pool() as io:
            with rbd.Image(io, volume.image) as image:
                image_id, prefix = image.id(), image.block_name_prefix()
            # Objects 1 and 2 as librbd marks them before it removes them; 2 is gone already.
            io.write(f'rbd_object_map.{image_id}', bytes([0b01_10_10_01]), _FIRST_OBJECTS)
            io.remove_object(f'{prefix}.0000000000000002')
            record = self.superpose(volume)
            self.assertEqual((1,), record.volumes[0].pending)
            self.assertFalse(self.protocol.check(record).dirty)
            # The primary dies before it changes the map.
            io.remove_object(f'{prefix}.0000000000000001')
        self.assert_dirty(record, '.0000000000000001 of ')

    def test_last_volume_of_a_set_is_dirty(self) -> None:
        volumes = [self.make_volume() for _ in range(3)]
        record = self.superpose(*volumes)
        self.make_primary(volumes[-1])
        self.assert_dirty(record, volumes[-1].image)

    def test_last_object_of_a_full_volume_is_dirty(self) -> None:
        size = 256 * base.MIB
        volume = self.make_volume(objects=256, size=size, order=20)
        primary = self.make_primary(volume)
        record = self.superpose(volume)
        self.assertEqual(256, self.protocol.check(record).objects)
        self.assertEqual(0, primary.write(size - 4096))
        self.assert_dirty(record, '.00000000000000ff of ')

    def test_rollback_of_a_snapshot_is_dirty(self) -> None:
        volume = self.make_volume()
        with self.open_pool() as io, rbd.Image(io, volume.image) as image:
            image.create_snap('before')
            image.write(b'changed', 0)
            record = self.superpose(volume)
            self.assertFalse(self.protocol.check(record).dirty)
            image.rollback_to_snap('before')
        self.assert_dirty(record, 'was written')

    def test_disabled_object_map_is_unproven(self) -> None:
        volume = self.make_volume()
        record = self.superpose(volume)
        with self.open_pool() as io, rbd.Image(io, volume.image) as image:
            image.update_features(rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_FAST_DIFF, False)
        self.assert_unproven(record, 'other features')

    def test_deleted_image_is_unproven(self) -> None:
        volume, other = self.make_volume(), self.make_volume()
        record = self.superpose(volume, other)
        self.remove_image(volume)
        self.assertEqual(record, self.protocol.find(volume))
        self.assert_unproven(record, 'is gone')

    def test_replaced_image_is_unproven(self) -> None:
        volume = self.make_volume()
        record = self.superpose(volume)
        self.remove_image(volume)
        with self.open_pool() as io:
            rbd.RBD().create(io, volume.image, protocol_base.SIZE, old_format=False)
        self.assertRaises(sp.NotSuperposed, self.protocol.find, volume)
        self.assert_unproven(record, 'was replaced')

    def test_superposition_of_a_deleted_image_can_be_aborted(self) -> None:
        volume = self.make_volume()
        record = self.superpose(volume)
        self.remove_image(volume)
        self.protocol.abort(record)
        self.assert_nothing_left(record)


class PlacementGroupsTest(protocol_base.ProtocolTestCase):
    """The pool's placement groups change between the cut and the sweep."""

    def settle(self, pool: str, count: int) -> None:
        """Split or merge the pool's placement groups, and wait for the end of it."""
        self.ceph.admin(['osd', 'pool', 'set', pool, 'pg_num', str(count)])
        while next(each for each in self.cluster.pools().values()
                   if each.name == pool).pg_num != count:
            time.sleep(0.1)

    def test_split_groups_are_swept_and_merged_groups_are_unproven(self) -> None:
        pool = self.make_pool('groups', pg_num=4)
        made = {written: self.superpose(self.make_volume(objects=8, pool=pool))
                   for written in (None, 0, 3, 7)}
        kept = self.superpose(self.make_volume(objects=8, pool=pool))
        unseen = self.superpose(self.make_volume(objects=8, pool=pool))

        self.settle(pool, 16)
        for written, record in made.items():
            with self.open_pool(pool) as io, \
                    rbd.Image(io, record.volumes[0].image) as image:
                if written is not None:
                    image.write(b'written', written * OBJECT)
            report = self.protocol.check(record)
            self.assertEqual(written is not None, report.dirty)
            self.assertEqual('promoted' if written is None else 'dirty',
                             self.protocol.collapse(record).outcome)
        self.assertFalse(self.protocol.check(kept).dirty)

        self.settle(pool, 15)
        self.assertIn('were merged since the cut', self.protocol.check(unseen).first or '')
        self.settle(pool, 16)
        self.assertIn('were merged since the cut', self.protocol.check(unseen).first or '')
        self.assertEqual('unproven', self.protocol.collapse(unseen).outcome)
        # A new cut counts with the new groups.
        again = self.superpose(unseen.volumes[0].ref)
        self.assertEqual('promoted', self.protocol.collapse(again).outcome)
        # What a sweep has seen before the merge proves as much behind it.
        self.assertEqual('promoted', self.protocol.collapse(kept).outcome)

    def test_write_behind_a_merge_of_groups_is_never_clean(self) -> None:
        pool = self.make_pool('groups', pg_num=4)
        made = [self.superpose(self.make_volume(objects=8, pool=pool)) for _ in range(8)]
        for record in made:
            self.assertTrue(self.protocol.check(record).clean)
        self.settle(pool, 2)
        for written, record in enumerate(made):
            with self.open_pool(pool) as io, rbd.Image(io, record.volumes[0].image) as image:
                image.write(b'written', written * OBJECT)
            self.assertFalse(self.protocol.check(record).clean)
            self.assertNotEqual('promoted', self.protocol.collapse(record).outcome)


class EqualTest(protocol_base.ProtocolTestCase):
    """Objects change otherwise than by a write to the image."""

    def setUp(self) -> None:
        super().setUp()
        volume = self.make_volume()
        with self.open_pool() as io, rbd.Image(io, volume.image) as image:
            for _ in range(8):
                image.write(b'newest', OBJECT)
        self.record = self.superpose(volume)
        self.assertTrue(self.protocol.check(self.record).clean)

    def assert_unproven(self) -> None:
        report = self.protocol.check(self.record)
        self.assertEqual((False, True), (report.dirty, report.unproven))
        self.assertIn('other versions than at the first sweep', report.first or '')
        self.assertEqual('unproven', self.protocol.collapse(self.record).outcome)

    def test_object_that_is_gone_is_unproven(self) -> None:
        with self.open_pool() as io:
            io.remove_object(f'{self.record.volumes[0].data_prefix}.{1:016x}')
        self.assert_unproven()

    def test_object_that_was_replaced_by_an_older_one_is_unproven(self) -> None:
        volume = self.record.volumes[0]
        names = [f'{volume.data_prefix}.{number:016x}' for number in range(4)]
        versions = self.cluster.aio.ioctx(volume.data_pool_id, '').stat_versions(
            [name.encode() for name in names], 1)
        oldest, newest = (names[versions.index(end(versions))] for end in (min, max))
        self.assertLess(min(versions), max(versions))
        # The copy has the version of what was copied.
        subprocess.run(['rados', '--conf', str(self.ceph.admin_conf), '--id', 'admin', '--pool',
                        self.pool, 'cp', oldest, newest], check=True, capture_output=True)
        self.assert_unproven()
