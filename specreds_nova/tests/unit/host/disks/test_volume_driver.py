# SPDX-License-Identifier: Apache-2.0
"""The XML of disks, made from Cinder's connections."""

import copy
import json
import pathlib
from typing import Any
from unittest import mock

from lxml import etree
from nova import exception as nova_exception
from nova.virt.libvirt import driver as nova_driver
from nova.virt.libvirt.volume import net

from specreds_nova import protected as rules
from specreds_nova.host import protection
from specreds_nova.host.disks import ceph_conf
from specreds_nova.host.disks import volume_driver
from specreds_nova.tests.unit.host import base

_SAMPLE = (pathlib.Path(__file__).parents[5] / 'doc' / 'api_samples'
           / 'superposition-connection-response.json')
VIRTIO = {'type': 'disk', 'dev': 'vda', 'bus': 'virtio', 'boot_index': '1'}


class ChainTest(base.TestCase):
    """The disk that is made from a connection."""

    def setUp(self) -> None:
        super().setUp()
        host = self.host = mock.Mock()
        host.find_secret.return_value = None
        patch = mock.patch.object(ceph_conf, 'path', return_value='/backups.conf')
        self.written = patch.start()
        self.addCleanup(patch.stop)
        self.theirs = net.LibvirtNetVolumeDriver(host)
        self.ours = volume_driver.ChainedVolumeDriver(host)
        self.chained: dict[str, Any] = json.loads(_SAMPLE.read_text())['connections'][0]
        self.chained['serial'] = self.chained.pop('volume_id')
        self.plain = copy.deepcopy(self.chained)
        self.plain['driver_volume_type'] = 'rbd'
        del self.plain['data']['superposition']

    def xml(self, connection: dict[str, Any], disk: dict[str, Any] | None = None) -> str:
        return str(self.ours.get_config(connection, disk or VIRTIO).to_xml())

    def protected(self, value: bool = True) -> Any:
        return mock.patch.object(protection, 'applies', return_value=value)

    def test_unprotected_disk_is_novas(self) -> None:
        self.assertEqual(self.theirs.get_config(self.plain, VIRTIO).to_xml(),
                         self.xml(self.plain))

    def test_protected_disk_stops_the_guest_on_errors(self) -> None:
        with self.protected():
            ours = etree.fromstring(self.xml(self.plain))
        driver = ours.find('driver')
        self.assertEqual(('stop', 'stop', 'none', 'raw'), tuple(
            driver.get(name) for name in ('error_policy', 'rerror_policy', 'cache', 'type')))
        # All other elements are the same.
        del driver.attrib['error_policy'], driver.attrib['rerror_policy']
        theirs = etree.fromstring(self.theirs.get_config(self.plain, VIRTIO).to_xml())
        self.assertEqual(etree.tostring(theirs, method='c14n'),
                         etree.tostring(ours, method='c14n'))

    def test_disk_of_a_backup_is_a_speculative_chain(self) -> None:
        volume = 'volumes/volume-0f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d01'
        host = '<host name="192.0.2.11" port="6789"/>'
        config = '<config file="/backups.conf"/>'
        secret = ('<auth username="cinder"><secret type="ceph" '
                  'uuid="457eb676-33da-42ec-9a8c-9293d545c337"/></auth>')
        expected = (
            '<disk type="network" device="disk"><driver name="qemu" type="qcow2" cache="unsafe" '
            'discard="unmap" error_policy="stop" rerror_policy="stop"/>'
            '<alias name="ua-0f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d01"/>'
            f'<source protocol="rbd" name="{volume}.super-b6a1d7f0-5c56">{host}{config}</source>'
            f'{secret}'
            '<target dev="vda" bus="virtio"/>'
            '<serial>0f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d01</serial>'
            '<backingStore type="network"><format type="raw"/>'
            f'<source protocol="rbd" name="{volume}">{host}{secret}{config}</source>'
            '<backingStore/></backingStore></disk>')
        parser = etree.XMLParser(remove_blank_text=True)
        disk = etree.fromstring(self.xml(self.chained), parser)
        self.assertEqual(etree.tostring(etree.fromstring(expected), method='c14n').decode(),
                         etree.tostring(disk, method='c14n').decode())

    def test_both_images_of_an_encrypted_disk_have_its_secret(self) -> None:
        secret = self.host.find_secret.return_value = mock.Mock()
        secret.UUIDString.return_value = '7e2c0b9a-41b5-4a55-9c0e-0b0b2f1e6f21'
        disk = etree.fromstring(self.xml(self.chained))
        for parent in (disk, disk.find('backingStore/source')):
            encryption = parent.find('encryption')
            self.assertEqual('luks', encryption.get('format'))
            self.assertEqual(secret.UUIDString(), encryption.find('secret').get('uuid'))
        self.host.find_secret.assert_called_with('volume', '0f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d01')

    def test_disk_of_a_promoted_backup_is_durable(self) -> None:
        self.chained['data']['superposition'].update(speculative=False, state='promoted')
        with self.protected(False):
            driver = etree.fromstring(self.xml(self.chained)).find('driver')
        self.assertEqual(('none', 'stop'), (driver.get('cache'), driver.get('error_policy')))

    def cache(self, connection: dict[str, Any]) -> str:
        """Return the cache mode of a disk where Nova has ``disk_cachemodes=network=writeback``."""
        conf = self.ours.get_config(connection, VIRTIO)
        nova_driver.LibvirtDriver._set_cache_mode(
            mock.Mock(disk_cachemodes={'network': 'writeback'}), conf)
        return str(etree.fromstring(conf.to_xml()).find('driver').get('cache'))

    def test_cache_mode_of_nova_is_for_all_disks_but_those_of_backups(self) -> None:
        self.assertEqual('unsafe', self.cache(self.chained))
        with self.protected():
            self.assertEqual('writeback', self.cache(self.plain))
            self.chained['data']['superposition'].update(speculative=False, state='promoted')
            self.assertEqual('writeback', self.cache(self.chained))

    def test_only_backups_use_their_own_ceph_configuration(self) -> None:
        self.chained['data']['superposition'].update(speculative=False, state='promoted')
        for connection in (self.chained, self.plain):
            with self.protected():
                self.assertNotIn('<config', self.xml(connection))
        self.written.assert_not_called()

    def test_chain_with_several_monitors_and_a_namespace(self) -> None:
        self.chained['data'].update(hosts=['192.0.2.11', '[2001:db8::1]'], ports=['6789', '3300'])
        self.chained['data']['superposition']['backing']['name'] = 'volumes/tenant/volume-1'
        disk = etree.fromstring(self.xml(self.chained))
        for source in disk.iter('source'):
            self.assertEqual([('192.0.2.11', '6789'), ('[2001:db8::1]', '3300')],
                             [(host.get('name'), host.get('port'))
                              for host in source.findall('host')])
        self.assertEqual('volumes/tenant/volume-1', disk.find('backingStore/source').get('name'))

    def test_chain_without_cephx(self) -> None:
        self.chained['data'].update(auth_enabled=False, auth_username=None)
        disk = etree.fromstring(self.xml(self.chained))
        self.assertEqual([], list(disk.iter('auth')))

    def test_scsi_disk_without_discard(self) -> None:
        self.chained['data']['discard'] = False
        disk = etree.fromstring(self.xml(self.chained, {
            'type': 'disk', 'dev': 'sda', 'bus': 'scsi', 'unit': 3}))
        self.assertEqual(('sda', 'scsi', '3', None), (
            disk.find('target').get('dev'), disk.find('target').get('bus'),
            disk.find('address').get('unit'), disk.find('driver').get('discard')))

    def test_limits_of_the_volume_are_kept(self) -> None:
        self.chained['data']['qos_specs'] = {'total_iops_sec': '500'}
        disk = etree.fromstring(self.xml(self.chained))
        self.assertEqual('500', disk.find('iotune/total_iops_sec').text)

    def test_connection_is_not_changed(self) -> None:
        before = copy.deepcopy(self.chained)
        self.xml(self.chained)
        self.assertEqual(before, self.chained)


class ProtectionTest(base.TestCase):
    """The servers that are protected."""

    def server(self, **metadata: str) -> Any:
        server = mock.Mock()
        server.obj_attr_is_set.return_value = True
        server.metadata, server.flavor.extra_specs = metadata, {}
        return server

    def test_metadata_override_the_default(self) -> None:
        for default in (True, False):
            self.tell(rules.OPT_OUT if default else rules.OPT_IN)
            self.assertEqual(default, protection.protected(self.server()))
            for value, protected in (('True', True), ('false', False), ('1', True), ('no', False),
                                     ('', False), ('nonsense', False)):
                self.assertEqual(protected, protection.protected(self.server(HA_Enabled=value)))
                self.assertEqual(protected, protection.protected(
                    self.server(**{'specreds:protect': value, 'HA_Enabled': str(not protected)})))

    def test_server_without_metadata_is_treated_by_the_default(self) -> None:
        server = mock.Mock()
        server.obj_attr_is_set.return_value = False
        server.flavor.extra_specs = {}
        server.obj_load_attr.side_effect = nova_exception.OrphanedObjectError(
            method='x', objtype='y')
        self.assertTrue(protection.protected(server))

    def test_protection_applies_within_its_context_only(self) -> None:
        self.assertFalse(protection.applies())
        with protection.of(self.server()):
            self.assertTrue(protection.applies())
            with protection.of(self.server(HA_Enabled='false')):
                self.assertFalse(protection.applies())
            self.assertTrue(protection.applies())
        self.assertFalse(protection.applies())
