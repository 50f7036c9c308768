# SPDX-License-Identifier: Apache-2.0
"""Nova's evacuation to a host with and without a backup."""

import logging
from typing import Any
from unittest import mock

import ddt
import fixtures
from nova import exception as nova_exception
from nova import objects
from nova.compute import task_states
from nova.compute import vm_states

from specreds_nova import exception
from specreds_nova.host.backup import adoption
from specreds_nova.host.backup import journal as journals
from specreds_nova.tests.unit.host import base

_LATE = '99999999-9999-4999-8999-999999999999'


def _attachment(name: str, server: str = base.SERVER, volume: str = base.VOLUME) -> mock.Mock:
    """Return an attachment as Cinder's client has it."""
    return mock.Mock(id=name, instance=server, volume_id=volume)


@ddt.ddt
class AdoptionTest(base.TestCase):
    """The adoption in the driver's ``rebuild``."""

    def setUp(self) -> None:
        super().setUp()
        self.adoption = adoption.Adoption(self.this_host, self.backups)
        self.order: list[Any] = []
        self.instance.task_state = task_states.REBUILDING
        self.instance.save.side_effect = lambda expected_task_state: self.order.append(
            (self.instance.task_state, expected_task_state))
        self.kinds = {base.VOLUME: 'rbd_super'}
        self.connected = base.SUPERPOSITION
        self.api = self.driver._volume_api
        self.listed = mock.Mock(return_value=[_attachment('a1')])
        self.client = self.replace('nova.volume.cinder.cinderclient', mock.Mock(
            **{'return_value.attachments.list': self.listed}))

    def detach(self, context: Any, bdms: Any, detach_root_bdm: bool) -> None:
        self.assertTrue(detach_root_bdm)
        self.assertIs(self.bdms, bdms)
        self.order.append('detach')

    def attach(self, context: Any, instance: Any, bdms: Any) -> dict[str, Any]:
        self.order.append('attach')
        devices = []
        for letter, (volume_id, kind) in zip('ab', self.kinds.items(), strict=False):
            device = mock.MagicMock(volume_id=volume_id)
            device.__getitem__.side_effect = {
                'connection_info': self.connection(kind), 'disk_bus': 'virtio',
                'device_type': 'disk', 'mount_device': f'/dev/vd{letter}'}.get
            devices.append(device)
        return {'block_device_mapping': devices}

    def connection(self, kind: str) -> dict[str, Any]:
        """Return Cinder's connection of a type."""
        return {'driver_volume_type': kind, 'data': {'superposition': {'id': self.connected}}}

    def adopt(self) -> journals.Record | None:
        return self.adoption.adopt(adoption.Evacuation(
            mock.sentinel.context, self.instance, self.bdms, self.detach, self.attach))

    def test_adoption_follows_the_order_of_novas_rebuild(self) -> None:
        self.record(journals.PROMOTED, opened=True)
        record = self.adopt()
        self.assertEqual([
            'detach',
            (task_states.REBUILD_BLOCK_DEVICE_MAPPING, [task_states.REBUILDING]),
            'attach',
            (task_states.REBUILD_SPAWNING, [task_states.REBUILD_BLOCK_DEVICE_MAPPING]),
        ], self.order)
        assert record is not None
        self.assertIn('adopt', record.timings_ms)
        # The server belongs to this host when Nova records it.
        self.assertEqual(('promoted', True), (record.phase, record.adopting))
        self.api.attachment_delete.assert_not_called()
        self.launcher.remove.assert_not_called()

    def test_tagged_devices_are_noted_where_they_are(self) -> None:
        self.record(journals.PROMOTED, opened=True)

        def locate(context: Any, instance: Any) -> None:
            self.assertEqual((mock.sentinel.context, self.instance), (context, instance))
            self.order.append('locate')
        self.launcher.locate_devices.side_effect = locate
        self.adopt()
        # Nova's notes of the block devices are this host's by then, and the server is saved after.
        self.assertEqual(['attach', 'locate'], self.order[2:4])
        self.assertEqual(5, len(self.order))

    def _adopt_with_a_late_volume(self, *plugged: str) -> str:
        """Adopt a backup whose server has got another volume meanwhile; return what is logged."""
        self.record(journals.PROMOTED, opened=True, volume_ids=[base.VOLUME])
        self.kinds |= {_LATE: 'rbd'}
        guest = self.launcher.find.return_value = mock.Mock()
        guest.get_xml_desc.return_value = '<domain><devices>' + ''.join(
            f'<disk><serial>{volume_id}</serial></disk>' for volume_id in plugged
        ) + '</devices></domain>'
        logged = self.useFixture(fixtures.FakeLogger(level=logging.INFO))
        self.assertIsNotNone(self.adopt())
        return str(logged.output)

    def test_volume_that_was_attached_since_the_start_is_plugged(self) -> None:
        self._adopt_with_a_late_volume(base.VOLUME)
        self.driver.attach_volume.assert_called_once_with(
            mock.sentinel.context, self.connection('rbd'), self.instance, '/dev/vdb',
            disk_bus='virtio', device_type='disk',
            encryption=self.driver._get_volume_encryption.return_value)

    def test_volume_that_a_former_adoption_has_plugged_is_left(self) -> None:
        self._adopt_with_a_late_volume(base.VOLUME, _LATE)
        self.driver.attach_volume.assert_not_called()

    def test_volume_that_cannot_be_plugged_does_not_end_the_adoption(self) -> None:
        self.driver.attach_volume.side_effect = nova_exception.DeviceNotFound(device='vdb')
        logged = self._adopt_with_a_late_volume(base.VOLUME)
        self.assertIn(f'volume {_LATE} was attached while the server moved, and cannot', logged)
        self.assertEqual(task_states.REBUILD_SPAWNING, self.instance.task_state)

    def test_volume_of_the_backup_that_is_not_chained_is_an_error(self) -> None:
        self.record(journals.PROMOTED, opened=True, volume_ids=[base.VOLUME])
        self.kinds[base.VOLUME] = 'rbd'
        logged = self.useFixture(fixtures.FakeLogger(level=logging.ERROR))
        self.adopt()
        self.assertIn(f'Cinder connects volume {base.VOLUME} by rbd, with superposition None, '
                      f'although', logged.output)
        self.driver.attach_volume.assert_not_called()

    def test_volume_of_the_backup_in_another_superposition_is_an_error(self) -> None:
        self.record(journals.PROMOTED, opened=True, volume_ids=[base.VOLUME])
        self.kinds[base.VOLUME], self.connected = 'rbd_super', 'another'
        logged = self.useFixture(fixtures.FakeLogger(level=logging.ERROR))
        self.adopt()
        self.assertIn('by rbd_super, with superposition another, although', logged.output)

    def test_server_without_a_running_backup_is_not_adopted(self) -> None:
        self.assertIsNone(self.adopt())
        for phase in (*journals.ENDED, *journals.OURS):
            self.record(phase)
            self.assertIsNone(self.adopt())
        self.assertEqual([], self.order)

    def test_backup_promoted_meanwhile_is_opened_and_adopted(self) -> None:
        self.record(journals.HARDENED)
        self.cinder.state.return_value = 'promoted'
        self.assertIsNotNone(self.adopt())
        self.box.open.assert_called_once()

    def test_backup_that_is_not_promoted_is_aborted(self) -> None:
        self.record(journals.RUNNING)
        self.assertIsNone(self.adopt())
        self.assertEqual('aborted', self.phase())
        self.launcher.remove.assert_called_once()
        self.assertEqual([], self.order)

    def test_backup_without_a_running_domain_is_not_adopted(self) -> None:
        self.record(journals.PROMOTED, opened=True)
        self.domain('shutoff')
        self.assertIsNone(self.adopt())
        self.assertEqual('failed', self.phase())
        self.assertEqual([], self.order)

    def test_overtaken_backup_is_not_adopted(self) -> None:
        self.record(journals.PROMOTED, opened=True)
        for state in (None, 'merged'):
            self.cinder.state.return_value = state
            error = self.assertRaises(nova_exception.InstanceFaultRollback, self.adopt)
            self.assertIn('is merged or gone', str(error.inner_exception))
        self.assertEqual(('promoted', []), (self.phase(), self.order))
        self.launcher.remove.assert_not_called()

    def test_server_is_left_alone_while_cinder_is_silent(self) -> None:
        self.record(journals.HARDENED)
        self.cinder.state.side_effect = exception.SuperpositionUnknown('no answer')
        error = self.assertRaises(nova_exception.InstanceFaultRollback, self.adopt)
        self.assertIsInstance(error.inner_exception, exception.SuperpositionUnknown)
        self.assertEqual('hardened', self.phase())

    @ddt.data(True, False)
    def test_attachments_that_no_block_device_names_are_deleted(self, promoted: bool) -> None:
        # Attachments of another server, and of volumes that are not the server's, stay.
        self.listed.return_value = [
            _attachment('a1'), _attachment('left over'), _attachment('of another', server=_LATE),
            _attachment('other', volume=_LATE)]
        if promoted:
            self.record(journals.PROMOTED, opened=True)
        # Without a backup, Nova attaches the volumes after this.
        self.assertEqual(promoted, self.adopt() is not None)
        self.client.assert_called_once_with(
            mock.sentinel.context, '3.44', skip_version_check=True)
        self.listed.assert_called_once_with(
            search_opts={'all_tenants': True, 'instance_id': base.SERVER})
        self.api.attachment_delete.assert_called_once_with(mock.sentinel.context, 'left over')
        self.assertEqual(['detach'] if promoted else [], self.order[:1])

    def test_request_that_comes_while_another_one_adopts_changes_nothing(self) -> None:
        self.record(journals.PROMOTED, opened=True, adopting=True)
        for host, task in ((base.PRIMARY, task_states.REBUILD_BLOCK_DEVICE_MAPPING),
                           (base.PRIMARY, task_states.REBUILD_SPAWNING), (base.HOST, None)):
            self.instance.host, self.instance.task_state = host, task
            self.assertRaises(nova_exception.InstanceNotFound, self.adopt)
        self.api.attachment_delete.assert_not_called()
        self.assertEqual([], self.order)

    def test_adoption_is_recorded_before_it_begins(self) -> None:
        self.record(journals.PROMOTED, opened=True)
        with mock.patch.object(self, 'detach', side_effect=RuntimeError('Cinder fails')):
            self.assertRaises(RuntimeError, self.adopt)
        record = self.on_disk()
        assert record is not None
        self.assertEqual(('promoted', True), (record.phase, record.adopting))

    def test_adoption_ends_when_nova_records_the_host(self) -> None:
        record = self.record(journals.PROMOTED, opened=True, adopting=True)
        self.assertFalse(self.adoption.confirm(record))
        self.instance.host = base.HOST
        self.assertTrue(self.adoption.confirm(record))
        self.assertEqual('adopted', self.phase())
        self.assertEqual(frozenset(), self.journal.hidden())


class GiveBackTest(base.TestCase):
    """An evacuation that ended with the death of nova-compute."""

    def setUp(self) -> None:
        super().setUp()
        self.adoption = adoption.Adoption(self.this_host, self.backups)
        self.migration = mock.Mock(status='pre-migrating')
        self.migrations = self.replace('nova.objects.MigrationList.get_by_filters', mock.Mock(
            return_value=[self.migration]))
        self.adopting = self.record(journals.PROMOTED, adopting=True, primary=base.PRIMARY)

    def test_interrupted_evacuation_is_given_back(self) -> None:
        self.instance.task_state = task_states.REBUILD_BLOCK_DEVICE_MAPPING
        self.adoption.reset_evacuation(self.adopting)
        self.assertEqual('failed', self.migration.status)
        self.migration.save.assert_called_once()
        self.claims.withdraw.assert_called_once()
        self.assertIsNone(self.instance.task_state)
        self.instance.save.assert_called_once()
        filters = self.migrations.call_args.args[1]
        self.assertEqual((base.HOST, base.SERVER, 'evacuation'), tuple(
            filters[name] for name in ('dest_compute', 'instance_uuid', 'migration_type')))

    def test_evacuation_that_has_not_reached_the_adoption_is_given_back(self) -> None:
        self.instance.task_state = task_states.REBUILDING
        self.adoption.reset_evacuation(self.record(journals.PROMOTED, primary=base.PRIMARY))
        self.assertEqual(['pre-migrating'], self.migrations.call_args.args[1]['status'])
        self.assertEqual('failed', self.migration.status)
        self.assertIsNone(self.instance.task_state)

    def test_evacuation_in_the_queue_of_this_host_is_not_given_back(self) -> None:
        self.migrations.return_value = []
        self.instance.task_state = task_states.REBUILDING
        self.adoption.reset_evacuation(self.record(journals.PROMOTED, primary=base.PRIMARY))
        self.instance.save.assert_not_called()

    def test_finished_evacuation_is_not_given_back(self) -> None:
        self.instance.host = base.HOST
        self.adoption.reset_evacuation(self.adopting)
        self.migration.save.assert_not_called()
        self.instance.save.assert_not_called()

    def test_other_task_is_not_interrupted(self) -> None:
        self.migrations.return_value = []
        self.instance.task_state = 'deleting'
        self.adoption.reset_evacuation(self.adopting)
        self.claims.withdraw.assert_not_called()
        self.instance.save.assert_not_called()

    def actions(self, *actions: tuple[str, str | None]) -> None:
        """Set the actions on the server and their users, the newest first."""
        entries = [mock.Mock(action=action, user_id=user) for action, user in actions]
        self.useFixture(fixtures.MockPatchObject(
            objects.InstanceActionList, 'get_by_instance_uuid', return_value=entries))

    def test_server_that_a_user_has_stopped_stays_stopped(self) -> None:
        self.instance.vm_state = vm_states.STOPPED
        self.actions(('detach_volume', 'u'), ('stop', 'u'), ('stop', None))
        self.adoption.keep_active(self.adopting)
        self.instance.save.assert_not_called()

    def test_server_stopped_by_nova_is_set_active(self) -> None:
        self.instance.vm_state = vm_states.STOPPED
        self.actions(('stop', None), ('stop', 'u'))
        self.adoption.keep_active(self.adopting)
        self.assertEqual(vm_states.ACTIVE, self.instance.vm_state)
        self.instance.save.assert_called_once_with(
            expected_vm_state=[vm_states.STOPPED], expected_task_state=[None])

    def test_server_with_a_task_is_not_set_active(self) -> None:
        for name, value in (('task_state', 'powering-off'), ('vm_state', vm_states.ERROR),
                            ('host', base.HOST)):
            self.instance.host, self.instance.task_state = base.PRIMARY, None
            self.instance.vm_state = vm_states.STOPPED
            setattr(self.instance, name, value)
            self.adoption.keep_active(self.adopting)
        self.instance.save.assert_not_called()
