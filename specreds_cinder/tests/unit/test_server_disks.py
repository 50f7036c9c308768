# SPDX-License-Identifier: Apache-2.0
"""Ids of disks that Nova keeps in RBD."""

import ddt
from oslo_config import cfg
from oslo_config import fixture as config_fixture
import testtools

from specreds_cinder import exception
from specreds_cinder import server_disks

_SERVER = '9c1e6c6a-5a0f-4f0b-9a2e-0d5b1c2f3e04'


@ddt.ddt
class ServerDiskTest(testtools.TestCase):

    @ddt.data('disk', 'disk.config', 'disk.local', 'disk.swap', 'disk.eph0', 'disk.eph12')
    def test_id_of_a_disk_is_the_name_of_its_image(self, name: str) -> None:
        disk = server_disks.ServerDisk.parse(f'{_SERVER}_{name}')
        self.assertEqual(server_disks.ServerDisk(_SERVER, name), disk)
        self.assertEqual(f'{_SERVER}_{name}', disk.id)
        self.assertEqual(disk.id, disk.name)

    @ddt.data('', _SERVER, f'{_SERVER}_', f'{_SERVER}_disks', f'{_SERVER}_disk.rescue',
              f'{_SERVER}_disk.eph', f'{_SERVER}_disk.config.rescue', f'vms/{_SERVER}_disk',
              f'{_SERVER}_disk@snap', f'{_SERVER}_disk\n', f'x{_SERVER}_disk', 'server_disk',
              f'super-0b5b9f6e-6f0e.{_SERVER}_disk', f'volume-{_SERVER}')
    def test_other_texts_are_no_ids(self, text: str) -> None:
        self.assertFalse(server_disks.is_id(text))
        error = self.assertRaises(exception.SuperpositionInvalid,
                                  server_disks.ServerDisk.parse, text)
        self.assertIn('no disk of a server', error.msg)

    def test_missing_back_end_names_the_option(self) -> None:
        self.useFixture(config_fixture.Config(cfg.CONF))
        self.assertIsNone(server_disks.configured())
        error = self.assertRaises(exception.SuperpositionInvalid, server_disks.backend)
        self.assertIn('server_disks_backend', error.msg)
