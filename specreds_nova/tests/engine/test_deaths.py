# SPDX-License-Identifier: Apache-2.0
"""Hosts that die."""

import time

from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base

# Seconds between the death of a host and its next boot.
_OFF = 25.0


class TestDeaths(base.EngineTestCase):
    """A host loses its power."""

    def test_dead_host_has_its_servers_recovered(self) -> None:
        ids = [self.boot_later(), self.boot_later(sizes=(1, 1)),
               self.boot_later(metadata={'HA_Enabled': 'false'})]
        *servers, other = map(self.booted, ids)
        checked = self.openstack('server', 'check', other.id, code=3)
        self.assertFalse(checked['protected'])
        for server in servers:
            self.assertTrue(self.openstack('server', 'check', server.id)['protected'])
        self.host(cloud_base.PRIMARY).kill()
        for server in servers:
            self.assertRecovered(server)
        self.assertIsNone(self.engine.latest(other.id))
        # A host that boots again needs no operator.
        self.host(cloud_base.PRIMARY).boot()
        self.trusted()
        self.assertEqual([], [server for server in servers
                              if self.drill.pid(server, cloud_base.PRIMARY) is not None])

    def test_second_backup_is_started_when_the_first_ones_host_dies(self) -> None:
        server = self.boot(metadata=base.SLOW)
        self.host(cloud_base.PRIMARY).kill()
        first = self.begun(server)
        self.assertIsNotNone(first.destination)
        self.host(str(first.destination)).kill()
        here = self.assertRecovered(server)
        self.assertNotEqual(first.destination, here.host)
        # The host of the first backup cleans up when it returns.
        self.mend()
        self.wait('the claim of the first backup to be gone',
                  lambda: self.drill.allocations(first.id) == {})

    def test_booted_host_does_not_end_the_recovery(self) -> None:
        server = self.boot(metadata={'specreds:ready': 'delay:60'})
        host = self.host(cloud_base.PRIMARY)
        host.kill()
        self.begun(server)
        time.sleep(_OFF)
        # The host has returned without the guest.
        host.boot()
        self.assertRecovered(server)
        self.trusted()

    def test_postgresql_loses_no_acknowledged_transaction(self) -> None:
        server = self.boot(image='g2')
        client = cloud_base.Client(self, server)
        client.start()
        client.wait_more()
        self.host(cloud_base.PRIMARY).kill()
        self.assertRecovered(server)
        client.wait_more()
        client.stop()
        client.assert_nothing_lost()
