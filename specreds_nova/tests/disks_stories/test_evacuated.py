# SPDX-License-Identifier: Apache-2.0
"""Servers whose root disk Nova keeps in RBD are shut out of it, and evacuated with it."""

from cloud.demo import recoveries
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

        before = self.cloud.ceph.blocklist()
        primary = self.host(cloud_base.PRIMARY)
        addresses = primary.run(['hostname', '-I']).split()
        primary.hang()
        self.ended(server, recoveries.EVACUATED)
        here = self.drill.active(server.id)
        self.assertNotEqual(server.host, here.host)
        self.assertNotEqual(name, self.guest_name(here))
        self.assertTrue(self.count(here) >= written)
        fenced = {client.rpartition(':')[0] for client in self.cloud.ceph.blocklist() - before}
        self.assertTrue(fenced)
        self.assertTrue(fenced <= set(addresses), f'{fenced} are not all of {addresses}')

        # The guest that wakes up is ended, and its disk stays.
        primary.resume()
        self.wait(f'{server.name} to be ended on {server.host}',
                  lambda: self.drill.pid(server, server.host) is None)
        self.trusted()
        self.assertEqual([here.host], self.drill.running(here))
        self.wait_answer(here)
