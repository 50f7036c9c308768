# SPDX-License-Identifier: Apache-2.0
"""Servers whose root disk Nova keeps in RBD are shut out of it, and evacuated with it."""

from cloud.openstack import layout
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.disks_stories import base


class TestEvacuated(base.DisksTestCase):

    DISKS = layout.RBD

    def test_server_that_boots_from_an_image_is_evacuated_with_its_disk(self) -> None:
        server = self.boot_from_image()
        checked = self.openstack('server', 'check', server.id, code=3)
        self.assertIn('RBD', str(checked))
        name = self.guest_name(server)
        self.heartbeat(server, 0.5)
        self.wait('the guest to write', lambda: self.count(server) > 2)
        written = self.count(server)

        primary = self.host(cloud_base.PRIMARY)
        with self.assertFencedAlone(primary):
            primary.hang()
            here = self.assertEvacuated(server, name)
            self.assertTrue(self.count(here) >= written)

        # The guest that wakes up is ended, and its disk stays.
        primary.resume()
        self.wait_ended(server)
        self.trusted()
        self.assertEqual([here.host], self.drill.running(here))
        self.wait_answer(here)
