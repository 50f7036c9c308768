# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests with IPv6: servers, their addresses, and a recovery."""

import functools
import ipaddress
import pathlib
import shutil
import subprocess
from typing import Any

from testtools import content

from cloud import commands
from cloud import drill as drills
from cloud.hosts import packets
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import networks

SUBNET = ipaddress.IPv6Network('fd77:5bec::/64')
# The client's network, which is not the servers' own.
OUTSIDE = ipaddress.IPv6Network('fd77:5bed::/64')
CLIENT = str(OUTSIDE[1])
_TENANT = 'tenant'
# The client's device.
_DEVICE = 'fabric'
# Seldom enough that nobody is advised by chance: who solicits nothing learns nothing.
_RADVD = """\
interface {device} {{
    AdvSendAdvert on;
    MinRtrAdvInterval 1300;
    MaxRtrAdvInterval 1800;
    AdvDefaultLifetime 9000;
    prefix {subnet} {{ }};
}};
"""
# Source address of an Ethernet frame in a tunnel, after the headers of UDP and VXLAN.
_TUNNELLED = 'udp port 4789 and udp[22:4] = 0x{high} and udp[26:2] = 0x{low}'


class Ipv6TestCase(networks.NeutronTestCase):
    """The box advertises the network's router, and probes its guest over IPv6."""

    def setUp(self) -> None:
        super().setUp()
        self.packets = self.scratch() / 'packets'

    # The client

    def add_client_address(self, address: str, network: ipaddress.IPv6Network) -> None:
        """Add an address to the client until the end of the test."""
        words = [f'{address}/{network.prefixlen}', 'dev', _DEVICE]
        self.cloud.tenant.run(['ip', 'address', 'add', *words, 'nodad'])
        self.addCleanup(self.cloud.tenant.run, ['ip', 'address', 'delete', *words])

    def advertise(self, subnet: ipaddress.IPv6Network) -> None:
        """Let the client be a router that advertises itself seldom, and when it is solicited."""
        tenant = self.cloud.tenant
        # A router that does not forward says so in its answers, and hosts do not use it then.
        option = f'net.ipv6.conf.{_DEVICE}.forwarding'
        tenant.run(['sysctl', '-q', '-w', f'{option}=1'])
        self.addCleanup(tenant.run, ['sysctl', '-q', '-w', f'{option}=0'])
        scratch = self.scratch()
        configuration = scratch / 'radvd.conf'
        configuration.write_text(_RADVD.format(device=_DEVICE, subnet=subnet))
        configuration.chmod(0o644)
        radvd = shutil.which('radvd', path='/usr/sbin:/usr/bin')
        assert radvd is not None
        process = tenant.popen(
            [radvd, '-n', '-C', str(configuration), '-p', str(scratch / 'pid'), '-m', 'stderr'],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self.detail_file('radvd').open('wb'))
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)

    def detail_file(self, name: str) -> pathlib.Path:
        """Return a file whose content is a detail of a failure."""
        path = self.scratch() / name
        self.addOnException(lambda _: self.addDetail(name, content.text_content(
            path.read_text(errors='replace'))))
        return path

    def reached_from_outside(self, server: drills.Server) -> bool:
        """Return whether a server answers the client's address outside of its network."""
        return all(self._ping(CLIENT, address) for address in self.addresses(server)
                   if ':' in address)

    # Servers

    def boot_with(self, network: str | None = None, **values: Any) -> drills.Server:
        """Boot a server with a port, and wait until it answers at all its addresses.

        :param values: of the port
        """
        group = self.make('security_groups', name=self.name('ipv6'))
        for version in ('IPv4', 'IPv6'):
            self.make('security_group_rules', security_group_id=group['id'], direction='ingress',
                      ethertype=version)
        port = self.make('ports', network_id=network or self.drill.network_id(),
                         security_groups=[group['id']], **values)
        server = self.boot_behind(port)
        self.addOnException(lambda _: self.addDetail(
            'state of the box', content.text_content(self.state(port['id']))))
        self.wait_all(server)
        return server

    def wait_all(self, server: drills.Server) -> None:
        """Wait until a server answers at all its addresses."""
        for address in self.addresses(server):
            self.wait_guest(server, f'{server.name} to answer at {address}',
                            functools.partial(self.cloud.tenant.answers, address))

    def addresses(self, server: drills.Server) -> list[str]:
        """Return the addresses of a server."""
        [port] = self.drill.ports(server)
        return [str(ip['ip_address']) for ip in self.port(port)['fixed_ips']]

    def who(self, server: drills.Server) -> set[str]:
        """Return the names of the guests that answer a tenant at the addresses of a server."""
        return {self.cloud.tenant.run(_curl(address, '/who')).strip()
                for address in self.addresses(server)}

    def inside(self, server: drills.Server, path: str) -> set[str]:
        """Return what guests answer in the box of a server's backup."""
        return {self._run_inside(server, _curl(address, path)).strip()
                for address in self.addresses(server)}

    def metadata(self, server: drills.Server) -> str:
        """Return the server's id from the metadata service in the box, over IPv6."""
        return self._run_inside(server, _curl('fe80::a9fe:a9fe%25box0',
                                              '/openstack/latest/meta_data.json'))

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

    # Recoveries

    def check_recovery(self, server: drills.Server, *, router: str | None = None
                       ) -> drills.Recovery:
        """Assert that a backup has its addresses in the box only, and then on the network.

        :param router: link-local address of the guest's router in the box, if it has one; the
            guest is to be reached through a router then
        """
        [primary] = self.who(server)
        mac = self.drill.mac(server)
        digits = mac.replace(':', '')
        tunnelled = _TUNNELLED.format(high=digits[:8], low=digits[8:])
        with self.host(base.BACKUP).capture(_TENANT, self.packets, (
                f'outbound and (ether src {mac} or ({tunnelled}))')):
            recovery = self.begin(server)
            [backup] = self.inside(server, '/who')
            self.assertNotEqual(primary, backup)
            self.assertIn(server.id, self.metadata(server))
            if router is not None:
                # The guest sends something to another network, for which it resolves its router.
                for shown in self.inside(server, f'/cgi-bin/network?{CLIENT}'):
                    self.assertIn(f'default via {router}', shown)
            self.assertEqual({primary}, self.who(server))
        self.assertEqual([], packets.read(self.packets))
        self.host(base.PRIMARY).kill()
        self.drill.promote(recovery)
        self.wait_all(server)
        if router is not None:
            self.wait_guest(server, 'the backup to answer another network',
                            lambda: self.reached_from_outside(server))
        self.assertEqual({backup}, self.who(server))
        self.drill.adopt(recovery)
        self.assertEqual({backup}, self.who(server))
        return recovery

    def _ping(self, source: str, address: str) -> bool:
        return subprocess.run(
            self.cloud.tenant.argv(['ping', '-n', '-q', '-c', '1', '-W', '1', '-I', source,
                                    address]),
            check=False, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0

    def _run_inside(self, server: drills.Server, argv: list[str]) -> str:
        [port] = self.drill.ports(server)
        return self.host(base.BACKUP).run(['ip', 'netns', 'exec', f'specreds-{port}', *argv])


def link_local(mac: str) -> str:
    """Return the link-local address that is derived from a hardware address."""
    octets = bytearray.fromhex(mac.replace(':', ''))
    octets[0] ^= 2
    return str(ipaddress.IPv6Network('fe80::/64')[
        int.from_bytes(octets[:3] + b'\xff\xfe' + octets[3:], 'big')])


def _curl(address: str, path: str) -> list[str]:
    host = f'[{address}]' if ':' in address else address
    return ['curl', '-g', '-sS', '--max-time', '30', f'http://{host}{path}']
