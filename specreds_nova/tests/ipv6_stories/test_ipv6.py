# SPDX-License-Identifier: Apache-2.0
"""Backups of servers with IPv6: alone, and beside IPv4."""

import functools
import ipaddress
import shutil
import subprocess
from typing import Any
import uuid

from testtools import content

from cloud import commands
from cloud import drill as drills
from cloud.hosts import packets
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

_SUBNET = ipaddress.IPv6Network('fd77:5bec::/64')
_GATEWAY = str(_SUBNET[1])
_TENANT = 'tenant'
# The client's device.
_DEVICE = 'fabric'


class TestIpv6(life.LifeTestCase):
    """The box advertises the network's router, and probes its guest over IPv6."""

    def setUp(self) -> None:
        super().setUp()
        if not self.cloud.settings.box_ipv6:
            self.skipTest('bring the cloud up with --box-ipv6')
        self.packets = self.scratch() / 'packets'

    def make(self, kind: str, **values: Any) -> dict[str, Any]:
        """Make an object of the network service until the end of the test."""
        path = f'/v2.0/{kind.replace("_", "-")}s'
        item: dict[str, Any] = self.drill.network.post(path, json={kind: values}).json()[kind]
        self.addCleanup(self.drill.network.delete, f'{path}/{item["id"]}')
        return item

    def make_subnet(self) -> dict[str, Any]:
        """Add a subnet to the network of all servers, with the client as its router.

        It exists as long as the test: ports made meanwhile have an address in it.
        """
        tenant = self.cloud.tenant
        address = [f'{_GATEWAY}/{_SUBNET.prefixlen}', 'dev', _DEVICE]
        tenant.run(['ip', 'address', 'add', *address, 'nodad'])
        self.addCleanup(tenant.run, ['ip', 'address', 'delete', *address])
        dnsmasq = shutil.which('dnsmasq', path='/usr/sbin:/usr/bin')
        assert dnsmasq is not None
        process = tenant.popen([
            dnsmasq, '--conf-file=/dev/null', '--port=0', '--keep-in-foreground', '--pid-file=',
            f'--interface={_DEVICE}', '--bind-interfaces', '--leasefile-ro', '--enable-ra',
            f'--dhcp-range={_SUBNET.network_address},ra-only,{_SUBNET.prefixlen}'],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return self.make('subnet', network_id=self.drill.network_id(), cidr=str(_SUBNET),
                         ip_version=6, gateway_ip=_GATEWAY, ipv6_address_mode='slaac')

    def boot_with(self, **values: Any) -> drills.Server:
        """Boot a server with a port, and wait until it answers at all its addresses.

        :param values: of the port
        """
        name = f'ipv6-{uuid.uuid4().hex[:8]}'
        group = self.make('security_group', name=name)
        for version in ('IPv4', 'IPv6'):
            self.make('security_group_rule', security_group_id=group['id'], direction='ingress',
                      ethertype=version)
        port = self.make('port', network_id=self.drill.network_id(),
                         security_groups=[group['id']], **values)
        server_id = self.drill.boot_later(
            name, base.PRIMARY, metadata=drills.READY['g1'],
            networks=[{'port': port['id']}])
        self.addCleanup(self.drill.delete, server_id)
        self.addCleanup(self.mend)
        server = self.drill.active(server_id)
        self.addOnException(lambda _: self.addDetail(
            'state of the box', content.text_content(self.state(port['id']))))
        for address in self.addresses(server):
            self.wait_guest(server, f'{server.name} to answer at {address}',
                            functools.partial(self.cloud.tenant.answers, address))
        return server

    def addresses(self, server: drills.Server) -> list[str]:
        """Return the addresses of a server."""
        [port] = self.drill.ports(server)
        shown = self.drill.network.get(f'/v2.0/ports/{port}').json()['port']
        return [str(ip['ip_address']) for ip in shown['fixed_ips']]

    def who(self, server: drills.Server) -> set[str]:
        """Return the names of the guests that answer a tenant at the addresses of a server."""
        return {self.cloud.tenant.run(['curl', '-g', '-sS', '--max-time', '10',
                                       f'http://{_in_url(address)}/who']).strip()
                for address in self.addresses(server)}

    def inside(self, server: drills.Server) -> set[str]:
        """Return the names of the guests that answer in the box of a server's backup."""
        [port] = self.drill.ports(server)
        return {self.host(base.BACKUP).run([
            'ip', 'netns', 'exec', f'specreds-{port}', 'curl', '-g', '-sS', '--max-time', '10',
            f'http://{_in_url(address)}/who']).strip() for address in self.addresses(server)}

    def metadata(self, server: drills.Server) -> str:
        """Return the server's id from the metadata service in the box, over IPv6."""
        [port] = self.drill.ports(server)
        return self.host(base.BACKUP).run([
            'ip', 'netns', 'exec', f'specreds-{port}', 'curl', '-g', '-sS', '--max-time', '10',
            'http://[fe80::a9fe:a9fe%25box0]/openstack/latest/meta_data.json'])

    def state(self, port: str) -> str:
        """Return what explains that the backup cannot be reached in its box."""
        parts = []
        for argv in (['ovs-ofctl', 'dump-flows', f'sb{port[:11]}'],
                     ['ip', 'netns', 'exec', f'specreds-{port}', 'ps', '-ef'],
                     ['ip', '-n', f'specreds-{port}', 'address'],
                     ['ip', '-n', f'specreds-{port}', '-6', 'neighbour']):
            try:
                parts.append(self.host(base.BACKUP).run(argv))
            except commands.CloudError as exc:
                parts.append(str(exc))
        return '\n'.join(parts)

    def check_recovery(self, server: drills.Server) -> None:
        """Assert that a backup has its addresses in the box only, and then on the network."""
        [primary] = self.who(server)
        with self.host(base.BACKUP).capture(_TENANT, self.packets,
                                            f'outbound and ether src {self.drill.mac(server)}'):
            recovery = self.begin(server)
            [backup] = self.inside(server)
            self.assertNotEqual(primary, backup)
            self.assertIn(server.id, self.metadata(server))
            self.assertEqual({primary}, self.who(server))
        self.assertEqual([], packets.read(self.packets))
        self.host(base.PRIMARY).kill()
        self.drill.promote(recovery)
        self.wait_guest(server, 'the backup to answer at all its addresses', lambda: all(
            self.cloud.tenant.answers(address) for address in self.addresses(server)))
        self.assertEqual({backup}, self.who(server))
        self.drill.adopt(recovery)
        self.assertEqual({backup}, self.who(server))

    def test_server_with_ipv6_only(self) -> None:
        subnet = self.make_subnet()
        server = self.boot_with(fixed_ips=[{'subnet_id': subnet['id']}])
        [address] = self.addresses(server)
        self.assertEqual(6, ipaddress.ip_address(address).version)
        self.check_recovery(server)

    def test_server_with_both(self) -> None:
        self.make_subnet()
        server = self.boot_with()
        self.assertEqual({4, 6}, {ipaddress.ip_address(address).version
                                  for address in self.addresses(server)})
        self.check_recovery(server)


def _in_url(address: str) -> str:
    return f'[{address}]' if ':' in address else address
