# SPDX-License-Identifier: Apache-2.0
"""The domain of a backup."""

import os
from typing import Any
from unittest import mock

import fixtures
import libvirt
from nova import exception as nova_exception
from nova import objects
import nova.conf
from nova.objects import fields
from oslo_config import fixture as config_fixture
import testtools

from specreds_nova import exception
from specreds_nova.host.backup import domain as backup_domain
from specreds_nova.host.backup import marks
from specreds_nova.host.disks import server_disks
from specreds_nova.tests.unit.host import base

_MARK = marks.Mark(base.BACKUP_ID, base.SUPERPOSITION)
_MARKED = (f'<domain><metadata><s:backup xmlns:s="{marks.NAMESPACE}" '
           f'id="{base.BACKUP_ID}" superposition="{base.SUPERPOSITION}"/>'
           '</metadata></domain>')


class LaunchTest(testtools.TestCase):
    """A test with a mock of Nova's driver."""

    def setUp(self) -> None:
        super().setUp()
        objects.register_all()
        self.instances = self.useFixture(fixtures.TempDir()).path
        self.conf = self.useFixture(config_fixture.Config(nova.conf.CONF))
        self.conf.config(instances_path=self.instances)
        self.driver = mock.Mock()
        self.launcher = backup_domain.Launcher(self.driver)
        self.guest = self.driver._host.get_guest.return_value
        self.guest.get_xml_desc.return_value = _MARKED
        self.connection = {'driver_volume_type': 'rbd_super', 'data': {'encrypted': False}}
        self.directory = os.path.join(self.instances, base.SERVER)
        self.instance = objects.Instance(
            id=1, uuid=base.SERVER, root_device_name='/dev/vda', metadata={}, config_drive='')
        self.bdm = objects.BlockDeviceMapping(
            id=1, instance_uuid=base.SERVER, source_type='volume', destination_type='volume',
            device_name='/dev/vda', volume_id=base.VOLUME, volume_size=1, boot_index=0,
            device_type='disk', disk_bus='virtio', guest_format=None, no_device=False,
            delete_on_termination=False, attachment_id=base.BACKUP_ID, tag=None,
            connection_info='{"driver_volume_type": "rbd"}', encrypted=False, volume_type=None)

    def launch(self) -> Any:
        """Launch a backup, and return the block devices that Nova's code received."""
        with mock.patch('nova.virt.libvirt.blockinfo.get_disk_info'), \
                mock.patch.object(objects.Instance, 'image_meta', create=True):
            self.launcher.launch(
                mock.sentinel.context, self.instance,
                objects.BlockDeviceMappingList(objects=[self.bdm]),
                {base.VOLUME: self.connection}, mock.sentinel.network, _MARK)
        return self.driver._get_guest_xml.call_args.kwargs['block_device_info']

    def test_launch_does_not_change_the_primarys_block_devices(self) -> None:
        [volume] = self.launch()['block_device_mapping']
        self.assertEqual(self.connection, volume['connection_info'])
        with mock.patch.object(objects.BlockDeviceMapping, 'save') as saved:
            volume.save()
        saved.assert_not_called()
        self.assertEqual('{"driver_volume_type": "rbd"}', self.bdm.connection_info)

    def test_launch_removes_files_of_an_earlier_backup(self) -> None:
        os.mkdir(self.directory)
        stale = os.path.join(self.directory, 'disk.config')
        with open(stale, 'w') as file:
            file.write('old')
        self.launch()
        self.assertFalse(os.path.exists(stale))
        self.assertTrue(os.path.isdir(self.directory))

    def test_domain_is_marked_during_its_configuration(self) -> None:
        seen = []
        self.driver._get_guest_xml.side_effect = lambda *args, **kwargs: seen.append(
            backup_domain.marking())
        self.launch()
        self.assertEqual([_MARK], seen)
        self.assertIsNone(backup_domain.marking())

    def test_launch_without_a_config_drive(self) -> None:
        self.launch()
        call = self.driver._create_guest_with_network.call_args
        self.assertIsNone(call.kwargs['post_xml_callback'])

    def test_config_drive_is_created_as_by_nova(self) -> None:
        self.instance.config_drive = 'True'
        self.launch()
        call = self.driver._create_guest_with_network.call_args
        self.assertTrue(call.kwargs['vifs_already_plugged'])
        call.kwargs['post_xml_callback']()
        _context, instance, injection = self.driver._create_configdrive.call_args.args
        self.assertIs(self.instance, instance)
        self.assertIs(mock.sentinel.network, injection.network_info)

    def test_config_drive_in_rbd_is_shared_and_not_created(self) -> None:
        self.instance.config_drive = 'True'
        self.conf.config(images_type='rbd', group='libvirt')
        self.launch()
        call = self.driver._create_guest_with_network.call_args
        self.assertIsNone(call.kwargs['post_xml_callback'])

    def test_tagged_devices_are_where_the_domain_has_them(self) -> None:
        there = objects.InstanceDeviceMetadata(devices=[])
        self.driver._build_device_metadata.return_value = there
        self.launcher.locate_devices(mock.sentinel.context, self.instance)
        self.assertIs(there, self.instance.device_metadata)
        self.driver._build_device_metadata.side_effect = libvirt.libvirtError('gone')
        self.launcher.locate_devices(mock.sentinel.context, self.instance)
        self.assertIs(there, self.instance.device_metadata)

    def test_disks_are_configured_by_their_connections(self) -> None:
        seen: list[Any] = []
        self.driver._get_guest_xml.side_effect = lambda *args, **kwargs: seen.append(
            server_disks.opened())
        self.launch()
        self.conf.config(images_type='rbd', group='libvirt')
        self.launch()
        self.assertEqual([None, {base.VOLUME: self.connection}], seen)
        self.assertIsNone(server_disks.opened())

    def test_disks_of_a_server_are_named_by_their_images(self) -> None:
        bdms = objects.BlockDeviceMappingList(objects=[self.bdm])
        with mock.patch('nova.virt.libvirt.blockinfo.get_disk_info', return_value={'mapping': {
                name: {} for name in ('disk', 'disk.eph0', 'disk.eph1', 'disk.swap', 'root',
                                      'disk.local', 'disk.config', '/dev/vdb')}}), \
                mock.patch.object(objects.Instance, 'image_meta', create=True):
            self.assertEqual(set(), backup_domain.disk_ids(self.instance, bdms))
            self.conf.config(images_type='rbd', group='libvirt')
            self.assertEqual({f'{base.SERVER}_{name}' for name in (
                'disk', 'disk.eph0', 'disk.eph1', 'disk.swap', 'disk.local')},
                backup_domain.disk_ids(self.instance, bdms))

    def test_launch_does_not_save_the_server(self) -> None:
        with mock.patch.object(objects.Instance, 'get_by_uuid', return_value=self.instance), \
                mock.patch.object(objects.Instance, 'save') as saved:
            backup_domain.load_instance(mock.Mock(), base.SERVER).save(expected_task_state=[None])
        saved.assert_not_called()

    def test_domain_of_another_recovery_is_left_alone(self) -> None:
        self.assertIs(self.guest, self.launcher.backup(base.BACKUP_ID, base.SERVER))
        self.assertIsNone(self.launcher.backup('another', base.SERVER))
        self.guest.get_xml_desc.return_value = '<domain/>'
        self.assertIsNone(self.launcher.backup(base.BACKUP_ID, base.SERVER))
        self.launcher.remove(base.BACKUP_ID, base.SERVER)
        self.guest.poweroff.assert_not_called()
        self.guest.delete_configuration.assert_not_called()

    def test_remove_ends_and_undefines_the_domain(self) -> None:
        self.launcher.remove(base.BACKUP_ID, base.SERVER)
        self.guest.poweroff.assert_called_once()
        self.guest.delete_configuration.assert_called_once()
        self.driver._host.get_guest.side_effect = nova_exception.InstanceNotFound(
            instance_id=base.SERVER)
        self.launcher.remove(base.BACKUP_ID, base.SERVER)

    def failing(self, code: int) -> libvirt.libvirtError:
        error = libvirt.libvirtError('it fails')
        error.err = (code,)
        return error

    def test_remove_tolerates_a_domain_that_vanishes(self) -> None:
        self.guest.poweroff.side_effect = self.failing(libvirt.VIR_ERR_NO_DOMAIN)
        self.launcher.remove(base.BACKUP_ID, base.SERVER)
        self.guest.poweroff.side_effect = self.failing(libvirt.VIR_ERR_SYSTEM_ERROR)
        self.assertRaises(exception.UndoIncomplete, self.launcher.remove, base.BACKUP_ID,
                          base.SERVER)

    def test_look_returns_state_and_process(self) -> None:
        for state, name in ((libvirt.VIR_DOMAIN_RUNNING, 'running'),
                            (libvirt.VIR_DOMAIN_BLOCKED, 'running'),
                            (libvirt.VIR_DOMAIN_PAUSED, 'paused'),
                            (libvirt.VIR_DOMAIN_SHUTOFF, 'shutoff'),
                            (libvirt.VIR_DOMAIN_CRASHED, 'shutoff')):
            self.guest._domain.state.return_value = (state, 0)
            domain = self.launcher.look(base.BACKUP_ID, base.SERVER)
            self.assertEqual(name, domain and domain.state)

    def test_files_are_removed(self) -> None:
        os.mkdir(self.directory)
        self.launcher.remove_files(base.SERVER)
        self.launcher.remove_files(base.SERVER)
        self.assertFalse(os.path.exists(self.directory))

    def test_backup_has_bus_and_order_of_the_servers_disks(self) -> None:
        [volume] = self.launch()['block_device_mapping']
        self.assertEqual(('/dev/vda', 'virtio', 0, fields.BlockDeviceType.DISK), (
            volume['mount_device'], volume['disk_bus'], volume['boot_index'],
            volume['device_type']))
