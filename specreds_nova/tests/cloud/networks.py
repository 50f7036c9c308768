# SPDX-License-Identifier: Apache-2.0
"""Base classes of the tests of networks, their routers, and their floating IPs."""

from collections.abc import Iterator
import contextlib
import dataclasses
import pathlib
import re
from typing import Any
import uuid

from cloud import drill as drills
from cloud.hosts import layout as hosts_layout
from cloud.hosts import packets
from specreds_nova.tests.cloud import base

SUBNET = '10.78.0.0/24'
GATEWAY = '10.78.0.1'
# Addresses of the subnet's ports; the others are for its router.
_POOL = {'start': '10.78.0.50', 'end': '10.78.0.99'}


class NeutronTestCase(base.NovaTestCase):
    """A test that makes objects of Neutron."""

    @staticmethod
    def name(kind: str) -> str:
        """Return a name for something of the test."""
        return f'test-{kind}-{uuid.uuid4().hex[:8]}'

    def make(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Make something in Neutron that is deleted after the test.

        :param kind: as in Neutron's answers to lists
        """
        path = f'/v2.0/{kind.replace("_", "-")}'
        made: dict[str, Any] = self.drill.network.post(path, json={
            kind[:-1]: fields}).json()[kind[:-1]]
        self.addCleanup(self.drill.network.delete, f'{path}/{made["id"]}')
        return made

    def outside_network(self) -> str:
        """Let routers have gateways on the network that the client is on; return its id."""
        network = self.drill.network_id()
        self.drill.network.put(f'/v2.0/networks/{network}', json={
            'network': {'router:external': True}})
        return network

    def add_interface(self, router: str, subnet: str) -> str:
        """Connect a router to a subnet until the end of the test; return the id of its port."""
        path, interface = f'/v2.0/routers/{router}', {'subnet_id': subnet}
        added = self.drill.network.put(f'{path}/add_router_interface', json=interface).json()
        self.addCleanup(self.drill.network.put, f'{path}/remove_router_interface',
                        json=interface)
        return str(added['port_id'])

    def port(self, port_id: str) -> dict[str, Any]:
        """Return a port as Neutron shows it."""
        shown: dict[str, Any] = self.drill.neutron.get(f'/v2.0/ports/{port_id}').json()['port']
        return shown

    def boot_behind(self, port: dict[str, Any]) -> drills.Server:
        """Boot a server with a port, and wait until it is active."""
        server_id = self.drill.boot_later(
            self.name('server'), base.PRIMARY, metadata=drills.READY['g1'],
            networks=[{'port': port['id']}])
        self.addCleanup(self.drill.delete, server_id)
        self.addCleanup(self.mend)
        return self.drill.active(server_id)

    def agents_alive(self, binary: str) -> bool:
        """Return whether the agents of a kind are alive on all hosts."""
        agents = self.drill.network.get('/v2.0/agents', params={
            'binary': binary}).json()['agents']
        return {agent['host'] for agent in agents if agent['alive']} == set(
            self.cloud.settings.host_names)


class NetworkTestCase(NeutronTestCase):
    """A test with a network of its own, whose frames go through tunnels between the hosts.

    :cvar kind: the cloud's network, as ``--network`` names it
    """

    kind: str

    def setUp(self) -> None:
        super().setUp()
        if self.cloud.settings.network != self.kind:
            self.skipTest('the cloud has another network; bring it up with --network '
                          f'{self.kind}')
        self.network: str = self.make('networks', name=self.name('network'))['id']
        self.subnet: str = self.make('subnets', network_id=self.network, ip_version=4,
                                     cidr=SUBNET, allocation_pools=[_POOL])['id']

    def make_port(self, host: str | None = None) -> dict[str, Any]:
        """Make a port of the network; with a host, it is bound there like a server's."""
        bound = {} if host is None else {
            'binding:host_id': host, 'device_owner': 'compute:nova',
            'device_id': str(uuid.uuid4())}
        return self.make('ports', network_id=self.network, port_security_enabled=False, **bound)


class RouterTestCase(NetworkTestCase):
    """A test with a router between its network and the one that the client is on."""

    def make_router(self, **fields: Any) -> str:
        """Make a router between the test's network and the one outside, and return its id."""
        self.outside = self.outside_network()
        router = str(self.make('routers', name=self.name('router'), external_gateway_info={
            'network_id': self.outside}, **fields)['id'])
        self.add_interface(router, self.subnet)
        return router

    def floating_ip(self, port_id: str) -> str:
        """Make a floating IP for a port, and return its address."""
        made = self.make('floatingips', floating_network_id=self.outside, port_id=port_id)
        return str(made['floating_ip_address'])

    def boot_floating(self) -> None:
        """Boot a server that is reached at a floating IP, and ask for the name of its guest."""
        self.guest_port = self.make_port()['id']
        server = self.boot_behind(self.port(self.guest_port))
        self.address = self.floating_ip(self.guest_port)
        self.server = dataclasses.replace(server, address=self.address)
        self.first = self.guest_name(self.server)

    @contextlib.contextmanager
    def outgoing(self, host: str = base.BACKUP) -> Iterator[pathlib.Path]:
        """Record what a host sends to the tenants' network, in tunnels or not."""
        file = self.scratch() / 'outgoing'
        with self.host(host).capture(hosts_layout.TENANT, file, 'outbound'):
            yield file

    def of_guest(self, file: pathlib.Path) -> list[str]:
        """Return the recorded frames and packets of the server's guest, in tunnels or not.

        OVN routes a packet on the host that it comes from, and the gateway translates its address.
        Until then it has the guest's. A host that translates it itself sends the floating IP's.
        """
        port = self.port(self.guest_port)
        own, floating = map(re.escape, (port['fixed_ips'][0]['ip_address'], self.address))
        source = re.compile(rf'{port["mac_address"]} > |\b({own}|{floating})(\.\d+)? > '
                            rf'|Reply {floating} is-at ')
        return [line for line in packets.read(file) if source.search(line)]

    def gateway_mac(self) -> str:
        """Return the hardware address that Neutron shows of the network's gateway."""
        [port] = self.drill.network.get('/v2.0/ports', params={
            'network_id': self.network,
            'fixed_ips': f'ip_address={GATEWAY}'}).json()['ports']
        return str(port['mac_address'])

    def assertGatewayAnswersInBox(self) -> None:
        """Assert that the box has answered the guest's requests for the gateway's address."""
        def answered() -> str | None:
            flows = self.host(base.BACKUP).run(
                ['ovs-ofctl', 'dump-flows', f'sb{self.guest_port[:11]}'])
            flow = next(line for line in flows.splitlines()
                        if f'in_port=2,arp_tpa={GATEWAY},' in line)
            [frames] = re.findall(r'n_packets=(\d+)', flow)
            return flow if int(frames) else None
        self.assertIn(f'mod_dl_src:{self.gateway_mac()},',
                      self.wait('the guest to look for its gateway', answered))

    # Stories, whatever the router is

    def check_suspicion(self) -> None:
        """Assert that a sealed backup is silent, and that its primary keeps the floating IP."""
        with self.outgoing() as file:
            recovery = self.begin(self.server)
            self.assertGatewayAnswersInBox()
            self.assertEqual(self.first, self.guest_name(self.server))
            self.drill.abort(recovery)
        self.assertEqual([], self.of_guest(file))
        self.assertEqual(self.first, self.guest_name(self.server))
        self.assertNothingLeft(recovery)

    def check_promotion(self) -> None:
        """Assert that the backup of a dead host is reached at the floating IP once promoted."""
        with self.outgoing() as file:
            self.host(base.PRIMARY).kill()
            recovery = self.begin(self.server)
            self.assertGatewayAnswersInBox()
            self.assertFalse(self.cloud.tenant.answers(self.address))
            self.assertEqual([], self.of_guest(file))
            self.drill.promote(recovery)
            second = self.guest_name(self.server)
            self.assertNotEqual(self.first, second)
            self.assertNotEqual([], self.of_guest(file))
        self.drill.adopt(recovery)
        self.drill.merged(recovery)
        self.assertEqual(second, self.guest_name(self.server))
