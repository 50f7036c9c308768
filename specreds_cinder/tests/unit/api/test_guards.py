# SPDX-License-Identifier: Apache-2.0
"""Cinder's API refuses what would break a superposition."""

import contextlib
from typing import Any
from unittest import mock

from cinder import objects
from cinder.objects import fields
from cinder.tests.unit import utils
import ddt
import testtools

from specreds_cinder import exception
from specreds_cinder.api import guards
from specreds_cinder.tests.unit.api import base

_LATEST = 'volume 3.71'
_VOLUME = f'/volumes/{base.VOLUME}'
_ACTION = f'{_VOLUME}/action'
_IMAGE = '3f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d03'
# No other method breaks a superposition.
_ALLOWED = {
    guards.VolumeAPI: {
        # They are what a superposition is about.
        'attach', 'attachment_create', 'attachment_delete', 'attachment_deletion_allowed',
        'attachment_update', 'begin_detaching', 'detach', 'initialize_connection',
        'reserve_volume', 'roll_detaching', 'terminate_connection', 'unreserve_volume',
        # Only metadata, of Cinder's database.
        'create_volume_metadata', 'delete_snapshot_metadata', 'delete_volume_metadata', 'update',
        'update_snapshot', 'update_snapshot_metadata', 'update_volume_admin_metadata',
        'update_volume_metadata',
        # They read.
        'calculate_resource_count', 'check_volume_filters', 'get', 'get_all',
        'get_all_snapshots', 'get_list_volumes_image_metadata', 'get_manageable_snapshots',
        'get_manageable_volumes', 'get_snapshot', 'get_snapshot_metadata', 'get_volume',
        'get_volume_image_metadata', 'get_volume_metadata', 'get_volume_summary',
        'get_volumes_image_metadata', 'is_service_request', 'list_availability_zones',
        # Whole hosts; and the end of what was begun before, when nothing could be superposed.
        'extend_volume_completion', 'failover', 'freeze_host', 'thaw_host',
        # A part of create_snapshot, which holds the lock.
        'create_snapshot_in_db',
        # The volume does not exist yet; its driver refuses an image that is superposed.
        'manage_existing',
    },
    guards.BackupAPI: {'delete', 'export_record', 'get', 'get_all',
                       'get_available_backup_service_host', 'import_record', 'reset_status',
                       'update'},
    guards.TransferAPI: {'delete', 'get', 'get_all'},
    guards.GroupAPI: {'create', 'get', 'get_all', 'get_all_group_snapshots',
                      'get_group_snapshot', 'list_replication_targets',
                      'reset_group_snapshot_status', 'reset_status', 'update_group_snapshot',
                      'update_quota'},
}


@ddt.ddt
class TestComplete(testtools.TestCase):

    @ddt.data(*_ALLOWED)
    def test_every_method_is_guarded_or_harmless(self, guard: type) -> None:
        theirs = guard.__mro__[1]
        public = {name for name in vars(theirs) if not name.startswith('_')
                  and callable(getattr(theirs, name))}
        guarded = {name for name in vars(guard) if not name.startswith('_')}
        self.assertEqual(set(), guarded & _ALLOWED[guard])
        self.assertEqual(public, guarded | _ALLOWED[guard])

    def test_unknown_guard_is_an_attribute_error(self) -> None:
        with testtools.ExpectedException(AttributeError, '.*ImageAPI.*'):
            _ = guards.ImageAPI


@ddt.ddt
class TestRefused(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.superposed()
        self.rpcs = [self.patch(f'cinder.{name}') for name in (
            'volume.rpcapi.VolumeAPI.delete_volume', 'volume.rpcapi.VolumeAPI.extend_volume',
            'scheduler.rpcapi.SchedulerAPI.create_snapshot',
            'scheduler.rpcapi.SchedulerAPI.create_volume')]

    def check(self, status: int, *request: Any) -> None:
        """Assert that a request is refused and has no effect."""
        before = objects.Volume.get_by_id(self.admin, base.VOLUME).status
        text = self.refused(status, *request, version=_LATEST)
        self.assertIn(f'superposition {base.ID}', text)
        self.assertIn('openstack volume super', text)
        self.assertEqual(before, objects.Volume.get_by_id(self.admin, base.VOLUME).status)
        for rpc in self.rpcs:
            rpc.assert_not_called()

    def snapshot(self, **values: Any) -> objects.Snapshot:
        """Create a snapshot from before the superposition."""
        return utils.create_snapshot(self.admin, base.VOLUME, volume_type_id=self.vt['id'],
                                     project_id=base.PROJECT, status='available', **values)

    @ddt.data(
        {'os-extend': {'new_size': 9}},
        {'os-force_delete': {}},
        {'os-retype': {'new_type': 'x'}},
        {'os-unmanage': {}},
        {'os-update_readonly_flag': {'readonly': True}},
        {'os-migrate_volume': {'host': 'node9@rbd#pool'}},
        {'os-migrate_volume_completion': {'new_volume': base.VOLUME, 'error': False}},
        {'os-reimage': {'image_id': _IMAGE}},
        {'revert': {'snapshot_id': base.SECOND}},
    )
    def test_action_on_the_volume_is_refused(self, body: dict[str, Any]) -> None:
        if 'revert' in body:
            body = {'revert': {'snapshot_id': self.snapshot().id}}
        self.patch('cinder.api.contrib.volume_actions.VolumeActionsController.'
                   '_get_image_snapshot_and_check_size', return_value=None)
        self.check(409, 'POST', _ACTION, body)

    def test_extending_an_attached_volume_is_refused(self) -> None:
        self.set_status('in-use')
        self.check(409, 'POST', _ACTION, {'os-extend': {'new_size': 9}})

    def test_upload_to_an_image_is_refused(self) -> None:
        # Cinder turns every error of this action into a 400.
        self.check(400, 'POST', _ACTION, {'os-volume_upload_image': {'image_name': 'x'}})

    def test_deletion_is_refused(self) -> None:
        self.check(409, 'DELETE', _VOLUME)
        self.check(409, 'DELETE', f'{_VOLUME}?cascade=True')

    def test_snapshot_is_refused(self) -> None:
        for force in (False, True):
            self.check(409, 'POST', '/snapshots', {'snapshot': {
                'volume_id': base.VOLUME, 'name': 'x', **({'force': True} if force else {})}})
        self.assertEqual([], list(objects.SnapshotList.get_all_for_volume(
            self.admin, base.VOLUME)))

    @ddt.data('promoted', 'merging')
    def test_snapshot_is_refused_after_the_decision(self, state: str) -> None:
        self.rpc.get.return_value = base.view(state=state)
        self.set_status('in-use')
        text = self.refused(409, 'POST', '/snapshots', {'snapshot': {'volume_id': base.VOLUME}},
                            version=_LATEST)
        self.assertIn(f'superposition {base.ID}', text)

    def test_snapshot_of_an_attached_volume_is_refused(self) -> None:
        self.set_status('in-use')
        self.check(409, 'POST', '/snapshots', {'snapshot': {'volume_id': base.VOLUME}})

    def test_deletion_of_a_snapshot_is_refused(self) -> None:
        snapshot = self.snapshot()
        self.check(409, 'DELETE', f'/snapshots/{snapshot.id}')
        self.check(409, 'POST', f'/snapshots/{snapshot.id}/action', {'os-unmanage': {}})
        self.check(409, 'POST', f'/snapshots/{snapshot.id}/action', {'os-force_delete': {}})
        self.assertEqual(fields.SnapshotStatus.AVAILABLE,
                         objects.Snapshot.get_by_id(self.admin, snapshot.id).status)

    def test_managing_a_snapshot_is_refused(self) -> None:
        self.check(409, 'POST', '/os-snapshot-manage', {'snapshot': {
            'volume_id': base.VOLUME, 'ref': {'source-name': 'x'}}})

    def test_clone_is_refused(self) -> None:
        self.check(409, 'POST', '/volumes', {'volume': {'source_volid': base.VOLUME}})

    def test_backup_is_refused(self) -> None:
        for more in ({}, {'force': True}, {'snapshot_id': self.snapshot().id}):
            self.check(409, 'POST', '/backups', {'backup': {'volume_id': base.VOLUME, **more}})

    def test_restoring_into_the_volume_is_refused(self) -> None:
        backup = utils.create_backup(self.admin, base.VOLUME, status='available',
                                     project_id=base.PROJECT)
        self.check(409, 'POST', f'/backups/{backup.id}/restore',
                   {'restore': {'volume_id': base.VOLUME}})

    def test_transfer_is_refused(self) -> None:
        # The newer resource turns every refusal into a 400.
        for path, status in (('/os-volume-transfer', 409), ('/volume-transfers', 400)):
            self.check(status, 'POST', path, {'transfer': {'volume_id': base.VOLUME}})

    def test_accepting_a_transfer_is_refused(self) -> None:
        # By the module that Cinder reaches its database by, which is not the same in all releases.
        self.mock_object(guards.TransferAPI().db, 'transfer_get',
                         return_value={'volume_id': base.VOLUME})
        self.check(409, 'POST', f'/os-volume-transfer/{base.OTHER_ID}/accept',
                   {'accept': {'auth_key': 'x'}})

    def attaching(self, volume_id: str) -> tuple[str, str, dict[str, Any]]:
        """Return the request by which Nova attaches a volume to a server."""
        return 'POST', '/attachments', {'attachment': {
            'volume_uuid': volume_id, 'instance_uuid': base.SERVER}}

    def test_another_volume_for_the_server_is_refused(self) -> None:
        self.attach()
        self.volume(base.SECOND)
        # Nova turns every other status into a 500.
        self.check(400, *self.attaching(base.SECOND))
        self.assertEqual('available', objects.Volume.get_by_id(self.admin, base.SECOND).status)

    @ddt.data('promoted', 'merging', 'merged', 'aborting')
    def test_another_volume_can_be_attached_after_the_decision(self, state: str) -> None:
        self.rpc.get.return_value = base.view(state=state)
        self.attach()
        self.volume(base.SECOND)
        answer = self.ask(*self.attaching(base.SECOND), version=_LATEST)
        self.assertEqual(200, answer.status, answer.body)

    def test_superposed_volume_can_be_attached_on_another_host(self) -> None:
        self.attach()
        answer = self.ask(*self.attaching(base.VOLUME), version=_LATEST)
        self.assertEqual(200, answer.status, answer.body)

    def test_volume_for_another_server_can_be_attached(self) -> None:
        self.attach(server_id=base.OTHER_ID)
        self.volume(base.SECOND)
        answer = self.ask(*self.attaching(base.SECOND), version=_LATEST)
        self.assertEqual(200, answer.status, answer.body)

    def set_status(self, status: str) -> None:
        """Change the status of the volume."""
        volume = objects.Volume.get_by_id(self.admin, base.VOLUME)
        volume.update({'status': status, 'attach_status': 'attached'})
        volume.save()


class TestGroups(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.superposed()
        self.api = guards.GroupAPI()
        self.ctxt = base.caller()
        self.group = mock.Mock(id=base.OTHER_ID)
        volume = objects.Volume.get_by_id(self.admin, base.VOLUME)
        self.patch('cinder.objects.VolumeList.get_all_by_generic_group', return_value=[volume])

    def refuses(self, method: str, *args: Any, **kwargs: Any) -> None:
        with testtools.ExpectedException(exception.VolumeSuperposed, f'.*{base.ID}.*'):
            getattr(self.api, method)(self.ctxt, *args, **kwargs)

    def test_group_with_a_superposed_volume_is_refused(self) -> None:
        self.refuses('delete', self.group, delete_volumes=True)
        self.refuses('create_group_snapshot', self.group, 'x', 'y')
        self.refuses('enable_replication', self.group)
        self.refuses('disable_replication', self.group)
        self.refuses('failover_replication', self.group)
        self.refuses('create_from_src', 'x', None, None, base.OTHER_ID)

    def test_moving_a_superposed_volume_is_refused(self) -> None:
        self.refuses('update', self.group, 'x', 'y', f'{base.SECOND},{base.VOLUME},', None)
        self.refuses('update', self.group, 'x', 'y', None, base.VOLUME)

    def test_renaming_a_group_is_allowed(self) -> None:
        self.patch('cinder.context.RequestContext.authorize')
        self.group.conditional_update.return_value = True
        self.mock_object(self.api.db, 'volume_get_all_by_generic_group', return_value=[])
        self.api.update(self.ctxt, self.group, 'x', 'y', None, None)
        self.group.conditional_update.assert_called_once()

    def test_deletion_of_a_group_snapshot_is_refused(self) -> None:
        self.patch('cinder.objects.SnapshotList.get_all_for_group_snapshot',
                   return_value=[mock.Mock(volume_id=base.VOLUME)])
        self.refuses('delete_group_snapshot', mock.Mock(id=base.SECOND))


@ddt.ddt
class TestDecision(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.superposed()
        self.deleted = self.patch('cinder.volume.rpcapi.VolumeAPI.delete_volume')

    def test_stale_note_protects_nothing(self) -> None:
        self.rpc.get.side_effect = exception.SuperpositionNotFound('gone')
        self.assertEqual(202, self.ask('DELETE', _VOLUME).status)
        self.deleted.assert_called_once()

    def test_volume_without_a_note_asks_no_back_end(self) -> None:
        self.volume(base.SECOND)
        self.assertEqual(202, self.ask('DELETE', f'/volumes/{base.SECOND}').status)
        self.rpc.get.assert_not_called()

    def test_doubt_returns_503(self) -> None:
        for error in (exception.SuperpositionUnavailable('no answer'),
                      exception.SuperpositionInvalid('no extension')):
            self.rpc.get.side_effect = error
            text = self.refused(503, 'DELETE', _VOLUME)
            self.assertIn(base.ID, text)
            self.assertIn(error.msg, text)
        self.deleted.assert_not_called()

    def test_refusal_names_the_command_that_helps(self) -> None:
        for state, expected in (('superposed', f'collapse (--promote|--abort) {base.VOLUME}'),
                                ('promoted', 'merged'), ('merging', 'merged'),
                                ('aborting', 'until the superposition has ended')):
            self.rpc.get.return_value = base.view(state=state)
            text = self.refused(409, 'DELETE', _VOLUME)
            self.assertIn(f'which is {state}', text)
            self.assertIn(expected, text)

    def test_volume_is_locked_during_the_deletion(self) -> None:
        held: list[tuple[str, ...]] = []

        @contextlib.contextmanager
        def lock(*volume_ids: str) -> Any:
            held.append(volume_ids)
            yield
            held.remove(volume_ids)
        self.patch('specreds_cinder.service.hints.lock', lock)
        self.rpc.get.side_effect = exception.SuperpositionNotFound('gone')
        seen: list[Any] = []
        self.deleted.side_effect = lambda *_args, **_kwargs: seen.extend(held)
        self.ask('DELETE', _VOLUME)
        self.assertEqual(([(base.VOLUME,)], []), (seen, held))

    def test_attach_is_allowed(self) -> None:
        self.patch('cinder.volume.rpcapi.VolumeAPI.attachment_update', return_value={})
        answer = self.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': base.VOLUME, 'instance_uuid': base.SERVER}}, version=_LATEST)
        self.assertEqual(200, answer.status, answer.body)

    def test_clone_of_a_snapshot_is_allowed(self) -> None:
        snapshot = utils.create_snapshot(self.admin, base.VOLUME, project_id=base.PROJECT,
                                         volume_type_id=self.vt['id'], status='available')
        self.patch('cinder.scheduler.rpcapi.SchedulerAPI.create_volume')
        answer = self.ask('POST', '/volumes', {'volume': {'snapshot_id': snapshot.id,
                                                          'size': 1}})
        self.assertEqual(202, answer.status, answer.body)
        self.rpc.get.assert_not_called()
