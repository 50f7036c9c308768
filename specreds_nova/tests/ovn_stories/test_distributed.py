# SPDX-License-Identifier: Apache-2.0
"""Backups of servers whose floating IPs OVN translates on the host of the server.

Neutron has OVN do so with `enable_distributed_floating_ip`. The host answers for the floating IP,
with a hardware address of its own that moves with the server.
"""

import pathlib

from cloud.hosts import packets
from cloud.openstack import layout
from cloud.openstack import ovn
from cloud.openstack import services
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import networks
from specreds_nova.tests.ovn_stories import databases

_OPTION = '[ovn]\nenable_distributed_floating_ip = true\n'


class TestDistributed(networks.RouterTestCase):
    """The server has a floating IP that no gateway translates."""

    kind = layout.OVN

    def setUp(self) -> None:
        super().setUp()
        self.reconfigure(self.cloud.files.neutron_conf, _OPTION,
                         services.neutron(self.cloud.settings))
        self.make_router()
        self.boot_floating()
        self.wait('OVN to translate on the host of the server', self.translated_there)

    def test_suspicion_does_not_move_the_floating_ip(self) -> None:
        with self.outgoing(base.PRIMARY) as file:
            self.check_suspicion()
        self.assertNotEqual([], self.of_floating_ip(file))

    def test_promoted_server_takes_its_floating_ip_along(self) -> None:
        with self.outgoing() as file, self.outgoing(base.OTHER) as other:
            self.check_promotion()
        self.assertNotEqual([], self.of_floating_ip(file))
        # Neither the first frames nor the last ones went by a gateway.
        self.assertEqual([], self.of_floating_ip(other))
        self.assertTrue(self.translated_there())

    def test_guest_of_an_isolated_host_is_not_reached_at_the_floating_ip(self) -> None:
        old = self.host(base.PRIMARY)
        old.cut(control=True, storage=True)
        recovery = self.begin(self.server)
        self.drill.promote(recovery)
        self.drill.adopt(recovery)
        second = self.guest_name(self.server)
        self.assertNotEqual(self.first, second)
        for _ in range(10):
            self.cloud.tenant.run(['ip', 'neighbour', 'flush', 'all'])
            self.assertEqual(second, self.guest_name(self.server))

    # Helpers

    def translated_there(self) -> bool:
        """Return whether OVN knows the hardware address with which the server's host answers."""
        [row] = databases.find(self.cloud.settings, ovn.NORTHBOUND, 'NAT',
                               f'external_ip="{self.address}"')
        return bool(row['logical_port'] == self.guest_port
                    and row['external_mac'] == self.mac())

    def mac(self) -> str:
        """Return the hardware address of the floating IP."""
        [port] = self.drill.network.get('/v2.0/ports', params={
            'device_owner': 'network:floatingip',
            'fixed_ips': f'ip_address={self.address}'}).json()['ports']
        return str(port['mac_address'])

    def of_floating_ip(self, file: pathlib.Path) -> list[str]:
        """Return the recorded frames from the hardware address of the floating IP."""
        return packets.read(file, f'ether src {self.mac()}')
