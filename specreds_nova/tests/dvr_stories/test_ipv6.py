# SPDX-License-Identifier: Apache-2.0
"""Backups of servers with IPv6, alone and beside IPv4, whose router is outside of Neutron."""

import ipaddress
from typing import Any

from cloud import drill as drills
from specreds_nova.tests.dvr_stories import ipv6

_GATEWAY = str(ipv6.SUBNET[1])


class TestIpv6(ipv6.Ipv6TestCase):
    """The client is the servers' router, and advertises itself seldom."""

    def make_subnet(self) -> dict[str, Any]:
        """Add a subnet to the network of all servers, with the client as its router.

        It exists as long as the test: ports made meanwhile have an address in it.
        """
        self.add_client_address(_GATEWAY, ipv6.SUBNET)
        self.add_client_address(ipv6.CLIENT, ipv6.OUTSIDE)
        self.advertise(ipv6.SUBNET)
        return self.make('subnets', network_id=self.drill.network_id(), cidr=str(ipv6.SUBNET),
                         ip_version=6, gateway_ip=_GATEWAY, ipv6_address_mode='slaac')

    def check(self, server: drills.Server) -> None:
        """Assert that a backup has the box as its router, and then the network's."""
        self.wait_guest(server, 'the server to answer another network',
                        lambda: self.reached_from_outside(server))
        [port] = self.drill.ports(server)
        # The box has an address of its own, from the hardware address of its services.
        self.check_recovery(server, router=ipv6.link_local('02' + port.replace('-', '')[:10]))

    def test_server_with_ipv6_only(self) -> None:
        subnet = self.make_subnet()
        server = self.boot_with(fixed_ips=[{'subnet_id': subnet['id']}])
        [address] = self.addresses(server)
        self.assertEqual(6, ipaddress.ip_address(address).version)
        self.check(server)

    def test_server_with_both(self) -> None:
        self.make_subnet()
        server = self.boot_with()
        self.assertEqual({4, 6}, {ipaddress.ip_address(address).version
                                  for address in self.addresses(server)})
        self.check(server)
