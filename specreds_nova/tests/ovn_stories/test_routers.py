# SPDX-License-Identifier: Apache-2.0
"""Backups of servers behind a router of OVN, on a network whose frames go through tunnels.

One of the hosts is the gateway of the router: there OVN translates a floating IP to the address of
the server, and back. The hosts agree by BFD, in their tunnels, on the next one.
"""

from typing import Any

from cloud.openstack import layout
from cloud.openstack import ovn
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import networks
from specreds_nova.tests.ovn_stories import databases

_GATEWAY = 'network:router_gateway'
# More than Neutron gives to any host.
_PRIORITY = 100


class TestRouters(networks.RouterTestCase):
    """The server has a floating IP."""

    kind = layout.OVN

    def setUp(self) -> None:
        super().setUp()
        router = self.make_router()
        [port] = self.drill.network.get('/v2.0/ports', params={
            'device_id': router, 'device_owner': _GATEWAY}).json()['ports']
        self.router_port = f'lrp-{port["id"]}'

    def test_suspicion_does_not_move_the_floating_ip(self) -> None:
        self.route_on(base.OTHER)
        self.boot_floating()
        self.check_suspicion()

    def test_promoted_server_is_reached_at_its_floating_ip(self) -> None:
        self.route_on(base.OTHER)
        self.boot_floating()
        self.check_promotion()
        self.assertEqual(base.OTHER, self.routing())

    def test_gateway_on_the_failed_host_fails_over(self) -> None:
        self.prefer(base.OTHER, 1)
        self.route_on(base.PRIMARY)
        self.boot_floating()
        self.host(base.PRIMARY).kill()
        self.wait('the next host to route', lambda: self.routing() == base.OTHER)
        self.check_promotion()

    # Helpers

    def route_on(self, host: str) -> None:
        """Make a host the gateway of the router for as long as it runs."""
        self.prefer(host, 2)
        self.wait(f'{host} to route', lambda: self.routing() == host)

    def prefer(self, host: str, preference: int) -> None:
        """Prefer a host as the gateway of the router to those without a preference."""
        [port] = databases.find(self.cloud.settings, ovn.NORTHBOUND, 'Logical_Router_Port',
                                f'name={self.router_port}')
        _, group = port['ha_chassis_group']
        databases.run(self.cloud.settings, ovn.NORTHBOUND, 'ha-chassis-group-add-chassis',
                      group, self.host(host).files.uuid, str(_PRIORITY + preference))

    def routing(self) -> str | None:
        """Return the host that is the router's gateway, or None."""
        [binding] = self._southbound('Port_Binding', f'logical_port=cr-{self.router_port}')
        if binding['chassis'] == ['set', []]:
            return None
        [host] = (row['hostname'] for row in self._southbound('Chassis')
                  if row['_uuid'] == binding['chassis'])
        return str(host)

    def _southbound(self, table: str, *conditions: str) -> list[dict[str, Any]]:
        return databases.find(self.cloud.settings, ovn.SOUTHBOUND, table, *conditions)
