# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests on networks of VXLAN: the networks and ports of a test."""

from typing import Any
import uuid

from cloud import drill as drills
from cloud.openstack import neutron
from specreds_nova.tests.cloud import base

SUBNET = '10.78.0.0/24'
# Addresses of the subnet's ports; the others are for its router.
_POOL = {'start': '10.78.0.50', 'end': '10.78.0.99'}


class TunnelsTestCase(base.NovaTestCase):
    """A test with a network of its own, whose frames go through tunnels between the hosts."""

    def setUp(self) -> None:
        super().setUp()
        if not self.cloud.settings.dvr:
            self.skipTest('the cloud has no distributed routers; bring it up with --network '
                          'dvr')
        self.network: str = self.make('networks', name=self.name('network'))['id']
        self.subnet: str = self.make('subnets', network_id=self.network, ip_version=4,
                                     cidr=SUBNET, allocation_pools=[_POOL])['id']

    @staticmethod
    def name(kind: str) -> str:
        """Return a name for something of the test."""
        return f'test-{kind}-{uuid.uuid4().hex[:8]}'

    def make(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Make something in Neutron that is deleted after the test.

        :param kind: as in Neutron's paths
        """
        made: dict[str, Any] = self.drill.network.post(f'/v2.0/{kind}', json={
            kind[:-1]: fields}).json()[kind[:-1]]
        self.addCleanup(self.drill.network.delete, f'/v2.0/{kind}/{made["id"]}',
                        raise_exc=False)
        return made

    def make_port(self, host: str | None = None) -> dict[str, Any]:
        """Make a port of the network; with a host, it is bound there like a server's."""
        bound = {} if host is None else {
            'binding:host_id': host, 'device_owner': 'compute:nova',
            'device_id': str(uuid.uuid4())}
        return self.make('ports', network_id=self.network, port_security_enabled=False, **bound)

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

    def wait_routers(self) -> None:
        """Wait until the agents of routers are alive on all hosts."""
        self.wait('the agents of routers', lambda: self.agents_alive(neutron.ROUTERS))
