# SPDX-License-Identifier: Apache-2.0
"""Plans, ports and a mechanism for the tests of the box."""

from typing import Any
from unittest import mock

from nova.network import model as network_model

from specreds_nova.host.box import ovs
from specreds_nova.host.box import plan as plans

PORT = 'aaaaaaaa-1111-4111-8111-111111111111'
SERVER = 'bbbbbbbb-1111-4111-8111-111111111111'
BACKUP_ID = 'cccccccc-1111-4111-8111-111111111111'
MAC = 'fa:16:3e:00:00:01'
ADDRESS = '10.77.0.50'
GATEWAY = '10.77.0.1'
ADDRESS_IPV6 = '2001:db8::50'
GATEWAY_IPV6 = '2001:db8::1'
ROUTER_MAC = 'fa:16:3e:00:00:99'
# Derived from that.
ROUTER = 'fe80::f816:3eff:fe00:99'


def subnet(**changes: Any) -> plans.Subnet:
    """Return a subnet with DHCP and a gateway."""
    fields: dict[str, Any] = {
        'cidr': '10.77.0.0/24', 'addresses': (ADDRESS,), 'gateway': GATEWAY, 'dns': ('8.8.8.8',),
        'routes': (), 'dhcp': True, 'dhcp_server': None}
    return plans.Subnet(**{**fields, **changes})


def subnet_ipv6(**changes: Any) -> plans.Subnet:
    """Return a subnet with addresses by router advertisements."""
    return subnet(**{'cidr': '2001:db8::/64', 'addresses': (ADDRESS_IPV6,),
                     'gateway': GATEWAY_IPV6, 'dns': ('2001:db8::53',), 'address_mode': 'slaac',
                     **changes})


def plan(*subnets: plans.Subnet, **changes: Any) -> plans.Plan:
    """Return the plan of a port with one subnet."""
    fields: dict[str, Any] = {
        'port': PORT, 'mac': MAC, 'tap': 'tapaaaaaaaa-11', 'integration_bridge': 'br-int',
        'instance': SERVER, 'backup_id': BACKUP_ID, 'mtu': 1450,
        'subnets': subnets or (subnet(),)}
    return plans.Plan(**{**fields, **changes})


def vif(**changes: Any) -> network_model.VIF:
    """Return the port as Nova describes it."""
    network = network_model.Network(
        id='dddddddd-1111-4111-8111-111111111111', bridge='br-int', label='private', mtu=1450,
        subnets=[network_model.Subnet(
            cidr='10.77.0.0/24', gateway=network_model.IP(GATEWAY),
            dns=[network_model.IP('8.8.8.8')], ips=[network_model.FixedIP(address=ADDRESS)],
            routes=[network_model.Route(cidr='192.0.2.0/24',
                                        gateway=network_model.IP('10.77.0.9'))],
            enable_dhcp=True, dhcp_server='10.77.0.2')])
    fields: dict[str, Any] = {
        'id': PORT, 'address': MAC.upper(), 'network': network, 'type': 'ovs',
        'vnic_type': 'normal', 'details': {'bridge_name': 'br-int'}, 'profile': {},
        'devname': 'tapaaaaaaaa-11'}
    return network_model.VIF(**{**fields, **changes})


class FakeMechanism:
    """Fake boxes that have only a state, and record all calls."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.boxes: dict[str, ovs.ExistingBox] = {}
        self.plan: plans.Plan | None = None
        self.refused: str | None = None
        self.failure: Exception | None = None
        self.bindings = mock.Mock()

    def warm_up(self) -> None:
        self.done.append('warm_up')

    def refusal(self, vif_type: str, vnic_type: str, details: Any) -> str | None:
        return self.refused

    def seal(self, plan: plans.Plan) -> None:
        self.done.append('seal')
        self.plan = plan
        self._put(plan, ovs.State.SHUT)

    def settle(self, plan: plans.Plan) -> None:
        self.done.append('settle')
        self._put(plan, ovs.State.OPEN)

    def unplug(self, plan: plans.Plan) -> None:
        self.done.append('unplug')
        if self.failure is not None:
            raise self.failure

    def remove(self, port: str) -> None:
        self.done.append('remove')
        self.boxes.pop(port, None)

    def existing(self) -> list[ovs.ExistingBox]:
        return list(self.boxes.values())

    def _put(self, plan: plans.Plan, state: ovs.State) -> None:
        self.boxes[plan.port] = ovs.ExistingBox(
            plan.port, plan.backup_id, plan.instance, state, True)

    def __getattr__(self, name: str) -> Any:
        return lambda plan: self.done.append(name)
