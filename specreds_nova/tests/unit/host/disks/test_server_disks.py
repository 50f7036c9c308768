# SPDX-License-Identifier: Apache-2.0
"""The disks that Nova keeps in RBD, and the overlays through which they are opened."""

from typing import Any
from unittest import mock

from lxml import etree
from nova import objects
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import driver as nova_driver

from specreds_nova import exception
from specreds_nova.host import driver
from specreds_nova.host.backup import journal as journals
from specreds_nova.host.disks import ceph_conf
from specreds_nova.host.disks import claims
from specreds_nova.host.disks import errors
from specreds_nova.host.disks import server_disks
from specreds_nova.tests.unit.host import base

_ROOT = f'{base.SERVER}_disk'
_OVERLAY = f'vms/super-b6a1d7f0-5c56.{_ROOT}'


def connection(*, speculative: bool = False, pool: str = 'vms') -> dict[str, Any]:
    """Return Cinder's connection to the overlay of the root disk."""
    return {'driver_volume_type': 'rbd_super', 'data': {'superposition': {
        'id': base.SUPERPOSITION, 'speculative': speculative,
        'overlay': {'name': _OVERLAY, 'format': 'qcow2'},
        'backing': {'name': f'{pool}/{_ROOT}', 'format': 'raw'}}}}


class ServerDisksTestCase(base.TestCase):
    """A host whose Nova keeps disks in RBD, and a server with such disks."""

    def setUp(self) -> None:
        super().setUp()
        self.conf.config(group='libvirt', images_type='rbd')
        self.cinder.with_disks.return_value = {base.SUPERPOSITION: 'promoted'}
        self.cinder.disk_connections.return_value = {_ROOT: connection()}
        self.disks = server_disks.ServerDisks(self.cinder, self.journal.adopted)
        # What Ceph says of claims if Cinder does not answer.
        patch = mock.patch.object(claims, 'none', autospec=True, return_value=False)
        self.unclaimed = patch.start()
        self.addCleanup(patch.stop)
        self.server = objects.Instance(
            uuid=base.SERVER, metadata={}, image_ref='image', host=base.HOST, vm_state='active',
            flavor=objects.Flavor(ephemeral_gb=0, swap=0))


class VersionTest(ServerDisksTestCase):

    def test_adopted_server_is_opened_through_its_overlays(self) -> None:
        for phase in (journals.PROMOTED, journals.ADOPTED):
            self.record(phase)
            self.disks.check(self.server)
            self.assertEqual({_ROOT: connection()}, self.disks.overlays(self.server))
        self.assertEqual(base.SUPERPOSITION, self.cinder.disk_connections.call_args.args[0])

    def test_server_promoted_elsewhere_is_not_started(self) -> None:
        for phase in (None, journals.RUNNING, journals.MERGED, journals.ABORTED):
            if phase is not None:
                self.record(phase)
            for start in (self.disks.check, self.disks.overlays):
                exc = self.assertRaises(errors.NotHere, start, self.server)
                self.assertIn(base.SUPERPOSITION, str(exc))
        self.cinder.disk_connections.assert_not_called()

    def test_images_are_real_before_the_decision_and_after_the_merge(self) -> None:
        for listed in ({}, *({base.SUPERPOSITION: state} for state in (
                'superposed', 'collapsing', 'aborting', 'merged'))):
            self.cinder.with_disks.return_value = listed
            self.assertEqual({}, self.disks.overlays(self.server))
            self.assertIsNone(self.disks.unmerged(self.server))

    def test_silent_cinder_refuses_the_start(self) -> None:
        for error in (exception.SuperpositionUnknown('no answer'),
                      exception.SuperpositionRefused('not allowed')):
            self.cinder.with_disks.side_effect = error
            for start in (self.disks.check, self.disks.overlays, self.disks.unmerged):
                self.assertRaises(errors.VersionUnknown, start, self.server)
        self.cinder.with_disks.side_effect = None
        self.record(journals.ADOPTED)
        self.cinder.disk_connections.side_effect = exception.SuperpositionUnknown('no answer')
        self.assertRaises(errors.VersionUnknown, self.disks.overlays, self.server)

    def test_start_without_cinder_if_ceph_has_no_claim(self) -> None:
        self.cinder.with_disks.side_effect = exception.SuperpositionUnknown('no answer')
        self.unclaimed.return_value = True
        self.disks.check(self.server)
        self.assertEqual({}, self.disks.overlays(self.server))
        self.assertIsNone(self.disks.unmerged(self.server))
        self.unclaimed.assert_called_with(base.SERVER)

    def test_refused_connection_means_merged_only_if_the_state_says_so(self) -> None:
        self.record(journals.ADOPTED)
        self.cinder.disk_connections.side_effect = exception.SuperpositionRefused('no')
        for state in ('merged', None):
            self.cinder.state.return_value = state
            self.assertEqual({}, self.disks.overlays(self.server))
        self.cinder.state.return_value = 'merging'
        self.assertRaises(errors.VersionUnknown, self.disks.overlays, self.server)
        self.cinder.state.side_effect = exception.SuperpositionUnknown('no answer')
        self.assertRaises(errors.VersionUnknown, self.disks.overlays, self.server)

    def test_cinder_is_asked_only_for_servers_that_may_have_overlays(self) -> None:
        self.server.metadata = {'HA_Enabled': 'false'}
        self.assertEqual({}, self.disks.overlays(self.server))
        self.server.metadata = {}
        self.server.image_ref = ''
        self.assertEqual({}, self.disks.overlays(self.server))
        self.cinder.with_disks.assert_not_called()
        self.server.flavor.swap = 64
        self.server.vm_state = 'building'
        self.assertEqual({}, self.disks.overlays(self.server))
        self.cinder.with_disks.assert_not_called()
        self.server.vm_state = 'active'
        self.assertRaises(errors.NotHere, self.disks.overlays, self.server)

    def test_unprotected_server_keeps_its_overlays(self) -> None:
        self.server.metadata = {'HA_Enabled': 'false'}
        self.record(journals.ADOPTED)
        self.assertEqual([_ROOT], list(self.disks.overlays(self.server)))

    def test_cinder_is_not_asked_of_disks_that_are_files(self) -> None:
        self.conf.config(group='libvirt', images_type='qcow2')
        self.assertEqual({}, self.disks.overlays(self.server))
        self.assertIsNone(self.disks.unmerged(self.server))
        self.cinder.with_disks.assert_not_called()


class ConfiguredTest(ServerDisksTestCase):
    """The configuration of a disk, which Nova's driver makes."""

    def setUp(self) -> None:
        super().setUp()
        self.replace('specreds_nova.host.disks.ceph_conf.path', lambda: '/backups.conf')
        self.assertEqual('/backups.conf', ceph_conf.path())
        self.ours = driver.SpeculativeLibvirtDriver.__new__(driver.SpeculativeLibvirtDriver)
        self.ours._server_disks = self.disks
        self.theirs: Any = self.disk('disk')
        patch = mock.patch.object(
            nova_driver.LibvirtDriver, '_get_guest_disk_config', autospec=True,
            side_effect=lambda *_args, **_kwargs: self.theirs)
        patch.start()
        self.addCleanup(patch.stop)
        storage = mock.patch.object(
            nova_driver.LibvirtDriver, '_get_guest_storage_config',
            lambda ours, *_args: [ours._get_guest_disk_config(self.server, 'disk', {}, None)])
        storage.start()
        self.addCleanup(storage.stop)

    def disk(self, name: str) -> Any:
        """Return Nova's configuration of a disk."""
        disk = vconfig.LibvirtConfigGuestDisk()
        disk.source_type, disk.source_protocol = 'network', 'rbd'
        disk.source_name = f'vms/{base.SERVER}_{name}'
        disk.source_hosts, disk.source_ports = ['192.0.2.11'], ['6789']
        disk.driver_format, disk.driver_cache = 'raw', 'none'
        disk.target_dev, disk.target_bus = 'vda', 'virtio'
        disk.auth_secret_type, disk.auth_username = 'ceph', 'cinder'
        disk.auth_secret_uuid = '457eb676-33da-42ec-9a8c-9293d545c337'
        return disk

    def configured(self) -> Any:
        """Return the XML of the disk that the driver configures."""
        [disk] = self.ours._get_guest_storage_config(mock.Mock(), self.server)
        return etree.fromstring(disk.to_xml())

    def test_root_disk_goes_through_its_overlay(self) -> None:
        self.record(journals.ADOPTED)
        disk = self.configured()
        self.assertEqual(_OVERLAY, disk.find('source').get('name'))
        self.assertEqual(('qcow2', 'none', 'stop'), tuple(
            disk.find('driver').get(name) for name in ('type', 'cache', 'error_policy')))
        store = disk.find('backingStore')
        self.assertEqual((f'vms/{_ROOT}', 'cinder'), (
            store.find('source').get('name'), store.find('source/auth').get('username')))
        self.assertIsNone(disk.find('serial'))

    def test_backup_is_configured_by_its_own_connections(self) -> None:
        with server_disks.opened_as({_ROOT: connection(speculative=True)}):
            disk = self.configured()
        self.cinder.with_disks.assert_not_called()
        self.assertEqual(('unsafe', '/backups.conf'), (
            disk.find('driver').get('cache'), disk.find('source/config').get('file')))

    def test_disk_of_a_protected_server_stops_the_guest_on_errors(self) -> None:
        self.cinder.with_disks.return_value = {}
        driver_of = self.configured().find('driver')
        self.assertEqual(('raw', 'stop', 'stop'), tuple(
            driver_of.get(name) for name in ('type', 'error_policy', 'rerror_policy')))
        self.server.metadata = {'HA_Enabled': 'false'}
        self.assertIsNone(self.configured().find('driver').get('error_policy'))

    def test_other_disks_are_novas(self) -> None:
        self.cinder.with_disks.return_value = {}
        for name in ('disk.config', 'disk.rescue'):
            self.theirs = self.disk(name)
            [disk] = self.ours._get_guest_storage_config(mock.Mock(), self.server)
            self.assertIs(self.theirs, disk)
        self.theirs = self.disk('disk')
        self.theirs.source_type, self.theirs.source_protocol = 'file', None
        [disk] = self.ours._get_guest_storage_config(mock.Mock(), self.server)
        self.assertIs(self.theirs, disk)

    def test_disks_are_novas_before_the_plug_in_is_ready(self) -> None:
        self.ours._server_disks = None
        [disk] = self.ours._get_guest_storage_config(mock.Mock(), self.server)
        self.assertIs(self.theirs, disk)

    def test_overlay_of_another_pool_is_refused(self) -> None:
        self.record(journals.ADOPTED)
        self.cinder.disk_connections.return_value = {_ROOT: connection(pool='other')}
        exc = self.assertRaises(errors.VersionUnknown, self.configured)
        self.assertIn('server_disks_pool', str(exc))
