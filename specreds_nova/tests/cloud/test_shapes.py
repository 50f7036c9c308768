# SPDX-License-Identifier: Apache-2.0
"""Servers with more than one disk and one port."""

import xml.etree.ElementTree as ElementTree

from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life


class TestShapes(life.LifeTestCase):
    """A backup has the same devices as its primary."""

    def test_backup_with_two_ports_a_scsi_disk_and_a_config_drive(self) -> None:
        network = {'uuid': self.drill.network_id()}
        devices = self.drill.devices('g1', (2, 1))
        devices[1]['disk_bus'] = 'scsi'
        server = self.boot(block_device_mapping_v2=devices, networks=[network, network],
                           config_drive=True)
        ports = self.drill.ports(server)
        self.assertEqual(2, len(ports))
        name = self.guest_name(server)
        primary = self._shape(server.id, base.PRIMARY)

        dropped = self.begin(server)
        self.assertEqual(primary, self._shape(server.id, base.BACKUP))
        self.drill.abort(dropped)
        self.assertNothingLeft(dropped)
        self.assertEqual(name, self.guest_name(server))

        recovery = self.adopted(server=server)
        self.wait_answer(server)
        self.assertNotEqual(name, self.guest_name(server))
        self.drill.merged(recovery)
        self.assertEqual(primary, self._shape(server.id, base.BACKUP))
        self.assert_plain_and_durable(recovery)
        # Each port is bound to this host.
        for port in ports:
            shown = self.drill.neutron.get(f'/v2.0/ports/{port}').json()['port']
            self.assertEqual((base.BACKUP, 'ACTIVE'),
                             (shown['binding:host_id'], shown['status']))

    def _shape(self, server_id: str, host: str) -> dict[str, list[str | None]]:
        """Return the hardware that the guest sees: disks in order, addresses, machine type."""
        xml = self.host(host).virsh('dumpxml', server_id)
        domain = ElementTree.fromstring(xml)
        disks = domain.findall('./devices/disk')
        targets = [target for disk in disks for target in disk.findall('target')]
        return {
            'device': [disk.get('device') for disk in disks],
            'serial': [disk.findtext('serial') for disk in disks],
            'bus': [target.get('bus') for target in targets],
            'target': [target.get('dev') for target in targets],
            'mac': [mac.get('address')
                    for mac in domain.iterfind('./devices/interface/mac')],
            'machine': [os_type.get('machine') for os_type in domain.iterfind('./os/type')],
            'uuid': [domain.findtext('uuid')],
            'name': [domain.findtext('name')],
        }
