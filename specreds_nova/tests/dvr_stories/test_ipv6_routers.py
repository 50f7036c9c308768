# SPDX-License-Identifier: Apache-2.0
"""Backups of servers whose router is Neutron's, and whose addresses are made in each way.

The router is on a host of its own, and users reach it from the network outside.
"""

from typing import Any

from cloud import drill as drills
from cloud.openstack import neutron
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.dvr_stories import ipv6


class TestRouters(ipv6.Ipv6TestCase):
    """The box has the link-local address of the router, which the guest keeps."""

    def setUp(self) -> None:
        super().setUp()
        if not self.cloud.settings.dvr:
            self.skipTest('the cloud has no routers; bring it up with --network dvr')
        self.wait('the agents of routers', lambda: self.agents_alive(neutron.ROUTERS))
        self.outside = self.outside_network()
        self.add_client_address(ipv6.CLIENT, ipv6.OUTSIDE)
        self.network: str = self.make('networks')['id']

    def make_router(self, mode: str) -> tuple[dict[str, Any], str]:
        """Make a subnet behind a router of Neutron, to which the client has a route.

        :param mode: how servers get their addresses, as Neutron calls it
        :returns: the subnet, and the link-local address of its router
        """
        outside = self.make('subnets', network_id=self.outside, cidr=str(ipv6.OUTSIDE),
                            ip_version=6, gateway_ip=ipv6.CLIENT, enable_dhcp=False)
        subnet = self.make('subnets', network_id=self.network, cidr=str(ipv6.SUBNET), ip_version=6,
                           ipv6_ra_mode=mode, ipv6_address_mode=mode)
        router = self.make('routers', distributed=False)
        # Before an agent has it: Neutron may leave the gateway's port to the host that lost it.
        self.place(router['id'])
        router = self.drill.network.put(f'/v2.0/routers/{router["id"]}', json={'router': {
            'external_gateway_info': {'network_id': self.outside, 'external_fixed_ips': [
                {'subnet_id': outside['id']}]}}}).json()['router']
        port = self.port(self.add_interface(router['id'], subnet['id']))
        [gateway] = router['external_gateway_info']['external_fixed_ips']
        self.wait('the router to answer', lambda: self.cloud.tenant.answers(
            gateway['ip_address']))
        route = [str(ipv6.SUBNET), 'via', gateway['ip_address']]
        self.cloud.tenant.run(['ip', '-6', 'route', 'add', *route])
        self.addCleanup(self.cloud.tenant.run, ['ip', '-6', 'route', 'delete', *route])
        return subnet, ipv6.link_local(port['mac_address'])

    def place(self, router: str) -> None:
        """Have the host that does not die, and has no server, route for a router."""
        path = f'/v2.0/routers/{router}/l3-agents'
        for agent in self.drill.network.get(path).json()['agents']:
            if agent['host'] == cloud_base.OTHER:
                return
            self.drill.network.delete(f'/v2.0/agents/{agent["id"]}/l3-routers/{router}')
        [agent] = self.drill.network.get('/v2.0/agents', params={
            'binary': neutron.ROUTERS, 'host': cloud_base.OTHER}).json()['agents']
        self.drill.network.post(f'/v2.0/agents/{agent["id"]}/l3-routers',
                                json={'router_id': router})

    def reboot_hard(self, server: drills.Server) -> None:
        """Reboot a server hard, and wait until its new guest answers."""
        before = self.who(server)
        self.drill.act(server.id, 'reboot', {'type': 'HARD'})
        self.drill.active(server.id)
        self.wait_guest(server, 'a new guest', lambda: self.who_answers(server, before))

    def who_answers(self, server: drills.Server, before: set[str]) -> bool:
        """Return whether another guest answers a tenant than before."""
        return self.reached_from_outside(server) and self.who(server) != before

    def test_guest_keeps_the_router_of_advertised_addresses(self) -> None:
        _, router = self.make_router('slaac')
        self.check_recovery(self.boot_with(self.network), router=router)

    def test_guest_has_its_address_by_dhcpv6(self) -> None:
        _, router = self.make_router('dhcpv6-stateful')
        server = self.boot_with(self.network)
        recovery = self.check_recovery(server, router=router)
        self.drill.merged(recovery)
        # From the agent of the new host.
        self.reboot_hard(server)
