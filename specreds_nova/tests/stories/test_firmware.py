# SPDX-License-Identifier: Apache-2.0
"""Backups of servers that boot by UEFI with secure boot.

Nova starts no server by UEFI without secure boot on libvirt 9.0, for which ``secure='no'`` is an
error.
"""

import xml.etree.ElementTree as ElementTree

from cloud import drill as drills
from cloud.guests import images
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

# GRUB needs more memory than a BIOS.
_FLAVOR = 'm1.g2'


class TestFirmware(life.LifeTestCase):
    """A backup has variables of its own, made from the template."""

    def boot_uefi(self, **properties: str) -> drills.Server:
        """Boot a server from an image for UEFI."""
        name = f'g1-{self.id().rpartition(".")[2]}'
        image = self.drill.image.post('/v2/images', json={
            'name': name, 'disk_format': 'raw', 'container_format': 'bare',
            'hw_firmware_type': 'uefi', 'hw_machine_type': 'q35', **properties}).json()
        self.addCleanup(self.drill.image.delete, f'/v2/images/{image["id"]}')
        with images.image('g1').open('rb') as file:
            self.drill.image.put(f'/v2/images/{image["id"]}/file', data=file,
                                 headers={'Content-Type': 'application/octet-stream'})
        devices = self.drill.devices('g1', (2,))
        devices[0]['uuid'] = image['id']
        return self.boot(flavor=_FLAVOR, block_device_mapping_v2=devices)

    def loader(self, server: drills.Server, host: str) -> tuple[str | None, str | None, str]:
        """Return the firmware of a server's domain, whether it is secure, and its variables."""
        root = ElementTree.fromstring(self.host(host).virsh('dumpxml', server.id))
        loader = root.find('./os/loader')
        assert loader is not None
        return loader.text, loader.get('secure'), str(root.findtext('./os/nvram'))

    def test_server_with_secure_boot(self) -> None:
        server = self.boot_uefi(os_secure_boot='required')
        self.assertEqual('yes', self.loader(server, base.PRIMARY)[1])
        name = self.guest_name(server)
        loader, secure, _variables = self.loader(server, base.PRIMARY)
        dropped = self.begin(server)
        self.assertEqual((loader, secure), self.loader(server, base.BACKUP)[:2])
        variables = self.host(base.BACKUP).path(self.loader(server, base.BACKUP)[2])
        self.assertTrue(variables.exists())
        self.drill.abort(dropped)
        self.assertNothingLeft(dropped)
        self.assertFalse(variables.exists())
        self.assertEqual(name, self.guest_name(server))

        recovery = self.adopted(server=server)
        self.assertNotEqual(name, self.guest_name(server))
        self.drill.merged(recovery)
        self.assert_plain_and_durable(recovery)
        self.assertEqual((loader, secure), self.loader(server, base.BACKUP)[:2])
