# SPDX-License-Identifier: Apache-2.0
"""Hosts that die."""

import time

from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base

# Seconds for which a host is off that boots again by itself.
_OFF = 25.0


class TestDeaths(base.EngineTestCase):
    """A host loses its power."""

    def test_a_host_that_dies(self) -> None:
        servers = [self.boot(), self.boot(sizes=(1, 1))]
        other = self.boot(metadata={'HA_Enabled': 'false'})
        told = self.openstack('server', 'check', other.id, code=3)
        self.assertFalse(told['protected'])
        for server in servers:
            self.assertTrue(self.openstack('server', 'check', server.id)['protected'])
        self.host(cloud_base.PRIMARY).kill()
        for server in servers:
            self.assertRecovered(server)
        self.assertEqual([], self.engine.ids(other.id))
        # Nobody has to do anything for a host that boots again.
        self.host(cloud_base.PRIMARY).boot()
        self.trusted()
        self.assertEqual([], [server for server in servers
                              if self.drill.pid(server, cloud_base.PRIMARY) is not None])

    def test_the_host_of_the_backup_dies_as_well(self) -> None:
        server = self.boot(metadata=base.SLOW)
        self.host(cloud_base.PRIMARY).kill()
        first = self.begun(server)
        self.assertIsNotNone(first.destination)
        self.host(str(first.destination)).kill()
        here = self.assertRecovered(server)
        self.assertNotEqual(first.destination, here.host)
        # What is left on the host of the first backup goes when it is back.
        self.mend()
        self.wait('the claim of the first backup to be gone',
                  lambda: self.drill.allocations(first.id) == {})

    def test_a_host_that_boots_again_while_backups_race(self) -> None:
        server = self.boot(metadata={'specreds:ready': 'delay:60'})
        host = self.host(cloud_base.PRIMARY)
        host.kill()
        self.begun(server)
        time.sleep(_OFF)
        # Its guest is gone: that the host is back does not bring it back.
        host.boot()
        self.assertRecovered(server)
        self.trusted()

    def test_postgresql(self) -> None:
        server = self.boot(image='g2')
        client = cloud_base.Client(self, server)
        client.start()
        client.wait_more()
        self.host(cloud_base.PRIMARY).kill()
        self.assertRecovered(server)
        client.wait_more()
        client.stop()
        client.assert_nothing_lost()
