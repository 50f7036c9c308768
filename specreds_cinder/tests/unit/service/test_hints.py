# SPDX-License-Identifier: Apache-2.0
"""Notes on volumes, and whether volumes are at rest, in a database of Cinder's tests."""

from typing import Any
from unittest import mock

from cinder import context
from cinder import coordination
from cinder import exception as cinder_exception
from cinder import objects
from cinder.db import api as db
from cinder.objects import fields
from cinder.tests.unit import fake_constants as fake
from cinder.tests.unit import test
from cinder.tests.unit import utils
from cinder.volume import api
import ddt

from specreds_cinder import exception
from specreds_cinder.service import at_rest
from specreds_cinder.service import eligibility
from specreds_cinder.service import hints

HOST = 'node@rbd'


class DatabaseTestCase(test.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.admin = context.get_admin_context()

    def make(self, host: str = f'{HOST}#pool', **changes: Any) -> str:
        """Create a volume, and return its id."""
        made = utils.create_volume(self.admin, **{
            'host': host, 'project_id': fake.PROJECT_ID, 'user_id': fake.USER_ID, **changes})
        volume_id: str = made.id
        return volume_id

    def metadata(self, volume_id: str) -> dict[str, str]:
        """Return a volume's admin metadata as Cinder reads it."""
        metadata: dict[str, str] = objects.Volume.get_by_id(
            self.admin, volume_id).admin_metadata
        return metadata


class HintsTest(DatabaseTestCase):

    def noted(self, *volume_ids: str) -> tuple[str | None, ...]:
        """Return the note of each volume; None if it has none."""
        return tuple(hints.of(volume_id) for volume_id in volume_ids)

    def test_volume_without_a_note(self) -> None:
        self.assertIsNone(hints.of(self.make()))
        self.assertIsNone(hints.of(fake.WILL_NOT_BE_FOUND_ID))
        self.assertEqual([], hints.volumes('s1'))
        self.assertEqual({}, hints.on(HOST))

    def test_notes_are_put_and_removed(self) -> None:
        first, second, other = self.make(), self.make(), self.make()
        hints.put([first, second], 's1')
        hints.put([other], 's2')
        self.assertEqual(('s1', 's1', 's2'), self.noted(first, second, other))
        self.assertEqual({first, second}, {volume.id for volume in hints.volumes('s1')})
        hints.remove([first, other], 's1')
        self.assertEqual((None, 's1', 's2'), self.noted(first, second, other))
        self.assertEqual({}, self.metadata(first))
        hints.put([first], 's3')
        self.assertEqual('s3', hints.of(first))

    def test_volumes_are_looked_up_by_their_ids(self) -> None:
        volume_id = self.make()
        hints.put([volume_id], 's1')
        with mock.patch.object(objects.VolumeList, 'get_all',
                               wraps=objects.VolumeList.get_all) as listed:
            hints.volumes('s2')
            listed.assert_not_called()
            hints.volumes('s1')
        # Any other filter looks at each volume of the cloud, for every request.
        self.assertEqual([{'id': [volume_id]}],
                         [call.kwargs['filters'] for call in listed.call_args_list])

    def test_repetition_changes_nothing(self) -> None:
        volume_id = self.make()
        for superposition in ('s1', 's1', 's2'):
            hints.put([volume_id, volume_id], superposition)
        self.assertEqual({'superposition': 's2'}, self.metadata(volume_id))
        for _ in range(2):
            hints.remove([volume_id], 's2')
        self.assertIsNone(hints.of(volume_id))

    def test_other_metadata_of_the_volume_stays(self) -> None:
        volume_id = self.make(admin_metadata={'readonly': 'False'})
        hints.put([volume_id], 's1')
        self.assertEqual({'readonly': 'False', 'superposition': 's1'}, self.metadata(volume_id))
        hints.remove([volume_id], 's1')
        self.assertEqual({'readonly': 'False'}, self.metadata(volume_id))

    def test_empty_list_of_volumes_changes_nothing(self) -> None:
        volume_id, other = self.make(), self.make()
        hints.put([volume_id], 's1')
        hints.put([], 's2')
        hints.remove([], 's1')
        self.assertEqual(('s1', None), self.noted(volume_id, other))

    def test_metadata_of_the_user_is_no_note(self) -> None:
        volume_id = self.make(metadata={'superposition': 's1'})
        self.assertIsNone(hints.of(volume_id))
        self.assertEqual([], hints.volumes('s1'))
        self.assertEqual({}, hints.on(HOST))
        hints.put([volume_id], 's2')
        self.assertEqual([volume_id], [volume.id for volume in hints.volumes('s2')])
        self.assertEqual([], hints.volumes('s1'))

    def test_notes_of_a_back_end(self) -> None:
        here, pool, other = self.make(HOST), self.make(f'{HOST}#other'), self.make('node@rbd2')
        clustered = self.make('node2@rbd#pool', cluster_name='cluster@rbd#pool')
        gone = self.make()
        hints.put([here, pool, other, clustered, gone], 's1')
        note = 's1'
        objects.Volume.get_by_id(self.admin, gone).destroy()
        self.assertEqual({here: note, pool: note}, hints.on(HOST))
        self.assertEqual({other: note}, hints.on('node@rbd2'))
        self.assertEqual({clustered: note}, hints.on('cluster@rbd'))
        self.assertEqual({}, hints.on('node'))

    def test_note_on_a_deleted_volume_does_not_count(self) -> None:
        volume_id = self.make()
        hints.put([volume_id], 's1')
        objects.Volume.get_by_id(self.admin, volume_id).destroy()
        self.assertIsNone(hints.of(volume_id))
        self.assertEqual([], hints.volumes('s1'))
        hints.remove([volume_id], 's1')

    def test_locks_are_taken_in_one_order(self) -> None:
        get_lock = coordination.COORDINATOR.get_lock
        with hints.lock('b', 'a', 'b'):
            # In one order everywhere, and none twice.
            self.assertEqual(['superposition-a', 'superposition-b'],
                             [call.args[-1] for call in get_lock.call_args_list])


@ddt.ddt
class RestTest(DatabaseTestCase):

    def check(self, *volume_ids: str) -> None:
        """Raise an error unless volumes are at rest."""
        eligibility.check(eligibility.volumes(volume_ids))

    def assert_at_rest(self, *volume_ids: str) -> None:
        """Assert that volumes are at rest, and that a note would change that."""
        self.check(*volume_ids)
        hints.put(volume_ids[-1:], 's9')
        self.assertRaises(exception.VolumeSuperposed, self.check, *volume_ids)
        hints.remove(volume_ids[-1:], 's9')

    def test_volumes_are_in_the_requested_order(self) -> None:
        made = [self.make() for _ in range(4)]
        for order in (made, made[::-1]):
            self.assertEqual(order, [volume.id for volume in eligibility.volumes(order)])

    def test_unknown_volume_is_an_error(self) -> None:
        error = self.assertRaises(cinder_exception.VolumeNotFound, eligibility.volumes,
                                  [self.make(), fake.WILL_NOT_BE_FOUND_ID])
        self.assertIn(fake.WILL_NOT_BE_FOUND_ID, str(error))

    @ddt.data({'status': 'available'}, {'status': 'in-use'}, {'migration_status': 'success'},
              {'migration_status': 'error'})
    def test_volume_at_rest_is_accepted(self, changes: dict[str, Any]) -> None:
        self.assert_at_rest(self.make(), self.make(**changes))

    @ddt.data('creating', 'attaching', 'detaching', 'deleting', 'error', 'maintenance',
              'extending', 'retyping', 'reserved', 'backing-up', 'uploading', 'downloading',
              'restoring-backup', 'awaiting-transfer', 'reverting')
    def test_status_of_an_operation_is_a_conflict(self, status: str) -> None:
        volume_id = self.make(status=status)
        error = self.assertRaises(exception.SuperpositionConflict, self.check, self.make(),
                                  volume_id)
        self.assertEqual(status, error.state)
        self.assertIn(volume_id, error.msg)

    @ddt.data(('attaching', 'attaching'), ('detaching', 'attached'),
              ('error_extending', 'attached'))
    @ddt.unpack
    def test_status_that_a_dead_host_left_is_restored(self, status: str, attached: str) -> None:
        volume_id, free = self.make(status=status, attach_status=attached), self.make()
        self.assert_at_rest(volume_id)
        read = eligibility.volumes([volume_id, free])
        self.assertEqual([True, True], [at_rest.movable(volume) for volume in read])
        eligibility.restore(read)
        self.assertEqual([('in-use', 'attached'), ('available', 'detached')], [
            (volume.status, volume.attach_status)
            for volume in eligibility.volumes([volume_id, free])])

    @ddt.data('backing-up', 'uploading')
    def test_job_that_reads_a_volume_ends_with_the_fence(self, status: str) -> None:
        volume_id = self.make(status=status, attach_status='attached')
        self.assert_at_rest(volume_id)
        [read] = eligibility.volumes([volume_id])
        self.assertEqual((True, True), (at_rest.movable(read), at_rest.read(read)))
        eligibility.restore([read])
        self.assertEqual('in-use', eligibility.volumes([volume_id])[0].status)

    @ddt.data('backing-up', 'uploading')
    def test_job_that_ends_before_the_fence_has_the_last_word(self, status: str) -> None:
        volume_id = self.make(status=status, attach_status='attached')
        read = eligibility.volumes([volume_id])
        objects.Volume.get_by_id(self.admin, volume_id).update_single_status_where(
            'error', status)
        eligibility.restore(read)
        self.assertEqual('error', eligibility.volumes([volume_id])[0].status)

    def test_status_that_has_changed_meanwhile_stays(self) -> None:
        volume_id = self.make(status='detaching', attach_status='attached')
        read = eligibility.volumes([volume_id])
        objects.Volume.get_by_id(self.admin, volume_id).update_single_status_where(
            'available', 'detaching')
        eligibility.restore(read)
        self.assertEqual('available', eligibility.volumes([volume_id])[0].status)

    @ddt.data(*fields.VolumeStatus.ALL, 'reverting')
    def test_volume_is_movable_if_cinder_lets_nova_attach_it(self, status: str) -> None:
        attached = 'attaching' if status == 'attaching' else 'attached'
        volume_id = self.make(status=status, attach_status=attached)
        server = {'volume_id': volume_id, 'instance_uuid': fake.INSTANCE_ID}
        objects.VolumeAttachment(self.admin, attach_status=attached, attached_host='a',
                                 **server).create()
        [volume] = eligibility.volumes([volume_id])
        promised = at_rest.movable(volume)
        eligibility.restore([volume])
        [volume] = eligibility.volumes([volume_id])
        try:
            # Nova begins with an attachment to no host.
            api.API().attachment_create(self.admin, volume, fake.INSTANCE_ID)
        except cinder_exception.InvalidVolume:
            self.assertFalse(promised)
        else:
            self.assertTrue(promised)

    @ddt.data('migrating', 'starting', 'completing', 'target:x')
    def test_migration_is_a_conflict(self, status: str) -> None:
        error = self.assertRaises(exception.SuperpositionConflict, self.check,
                                  self.make(migration_status=status))
        self.assertIn(status, error.msg)
        self.assertIn('cinder reset-state --reset-migration-status', error.msg)

    @ddt.data('migrating', 'starting', 'completing')
    def test_migration_that_never_ends_lets_nova_move_the_volume(self, migration: str) -> None:
        volume_id = self.make(status='in-use', attach_status='attached',
                              migration_status=migration)
        old = objects.VolumeAttachment(
            self.admin, volume_id=volume_id, instance_uuid=fake.INSTANCE_ID,
            attach_status='attached', attached_host='a', connector={'host': 'a'})
        old.create()
        old.connection_info = {'name': 'x'}
        old.save()
        [volume] = eligibility.volumes([volume_id])
        self.assertTrue(at_rest.movable(volume))
        # As Nova evacuates: reserved, detached from the dead host, attached to the other one.
        cinder = api.API()
        new = cinder.attachment_create(self.admin, volume, fake.INSTANCE_ID)
        with mock.patch.object(cinder, 'volume_rpcapi') as manager, \
                mock.patch.object(cinder, 'attachment_deletion_allowed'):
            cinder.attachment_delete(self.admin, objects.VolumeAttachment.get_by_id(
                self.admin, old.id))
            manager.attachment_update.return_value = {'name': 'x'}
            cinder.attachment_update(self.admin, new, {'host': 'b'})
        db.volume_attached(self.admin, new.id, fake.INSTANCE_ID, 'b', '/dev/vdb')
        [volume] = eligibility.volumes([volume_id])
        self.assertEqual(('in-use', 'attached'), (volume.status, volume.attach_status))

    def test_multiattach_is_not_eligible(self) -> None:
        error = self.assertRaises(exception.VolumesNotEligible, self.check,
                                  self.make(multiattach=True))
        self.assertIn('several times', error.reasons[0])

    def test_encrypted_volume_is_accepted(self) -> None:
        self.check(self.make(encryption_key_id=fake.ENCRYPTION_KEY_ID))

    def test_superposed_volume_is_refused(self) -> None:
        volume_id = self.make()
        hints.put([volume_id], 's1')
        error = self.assertRaises(exception.VolumeSuperposed, self.check, volume_id)
        self.assertIn('s1', error.msg)
        hints.remove([volume_id], 's1')
        self.check(volume_id)

    @ddt.data('creating', 'deleting', 'unmanaging')
    def test_unfinished_snapshot_is_a_conflict(self, status: str) -> None:
        volume_id = self.make()
        snapshot = self.snapshot(volume_id, status)
        error = self.assertRaises(exception.SuperpositionConflict, self.check, self.make(),
                                  volume_id)
        for word in (volume_id, snapshot, status):
            self.assertIn(word, error.msg)
        objects.Snapshot.get_by_id(self.admin, snapshot).destroy()
        self.check(volume_id)

    @ddt.data('available', 'backing-up', 'error', 'error_deleting')
    def test_snapshot_at_rest_is_accepted(self, status: str) -> None:
        volume_id = self.make()
        self.snapshot(volume_id, status)
        self.assert_at_rest(volume_id)

    def test_unfinished_clone_is_a_conflict(self) -> None:
        volume_id = self.make()
        clone = self.make(source_volid=volume_id, status='creating')
        error = self.assertRaises(exception.SuperpositionConflict, self.check, volume_id)
        self.assertIn(clone, error.msg)
        volume = objects.Volume.get_by_id(self.admin, clone)
        volume.update({'status': 'available'})
        volume.save()
        self.check(volume_id)

    def snapshot(self, volume_id: str, status: str) -> str:
        """Create a snapshot, and return its id."""
        made = utils.create_snapshot(self.admin, volume_id, status=status,
                                     volume_type_id=fake.VOLUME_TYPE_ID)
        snapshot_id: str = made.id
        return snapshot_id
