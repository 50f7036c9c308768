# SPDX-License-Identifier: Apache-2.0
"""The box: no frame leaves it before the promotion, and the guest has DHCP and metadata in it."""

from collections.abc import Iterator
import contextlib
import functools
import re

from testtools import content

from cloud import commands
from cloud import drill as drills
from cloud.hosts import packets
from cloud.hosts import services
from specreds_nova.tests.cloud import base

_TENANT = 'tenant'


class _TestCase(base.NovaTestCase):
    """A test that observes the box of a recovery."""

    def port(self, server: drills.Server) -> str:
        [port] = self.drill.ports(server)
        return port

    def mac(self, server: drills.Server) -> str:
        port = self.drill.network.get(f'/v2.0/ports/{self.port(server)}').json()['port']
        return str(port['mac_address'])

    def on_backup(self, *argv: str) -> str:
        return self.host(base.BACKUP).run(argv)

    def inside(self, server: drills.Server, path: str) -> str:
        """Return the backup's answer over HTTP from the namespace of its DHCP server."""
        try:
            return self.on_backup('ip', 'netns', 'exec', f'specreds-{self.port(server)}', 'curl',
                                  '-sS', '--max-time', '3',
                                  f'http://{server.address}{path}').strip()
        except commands.CloudError:
            return ''

    def passed(self, server: drills.Server) -> int:
        """Return how many frames have left the box since the start of its switch."""
        counters = self.on_backup('ovs-ofctl', 'dump-ports', 'br-int',
                                  f'sbi-{self.port(server)[:11]}')
        [frames] = re.findall(r'rx pkts=(\d+)', counters)
        return int(frames)

    def assertNoBox(self, recovery: drills.Recovery) -> None:
        self.assertNothingLeft(recovery)
        port = self.port(recovery.server)
        self.assertNotIn(port, self.on_backup('ip', 'netns', 'list'))
        self.assertNotIn(port[:11], self.on_backup('ovs-vsctl', 'show'))
        self.assertNotIn(port, self.on_backup('ps', '-ef'))
        shown = self.drill.neutron.get(f'/v2.0/ports/{port}').json()['port']
        self.assertNotIn('migrating_to', shown['binding:profile'])


class TestShut(_TestCase):
    """A backup that is not promoted."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot()
        self.primary = self.guest_name(self.server)
        self.packets = self.scratch() / 'packets'
        self.addOnException(lambda _: self.addDetail(
            'state of the box', content.text_content(self.state())))

    @contextlib.contextmanager
    def assertNothingPasses(self) -> Iterator[None]:
        # The primary's own frames arrive on this host.
        expression = f'outbound and ether src {self.mac(self.server)}'
        with self.host(base.BACKUP).capture(_TENANT, self.packets, expression):
            yield
        self.assertEqual([], packets.read(self.packets))
        self.assertEqual(self.primary, self.guest_name(self.server))

    def test_sealed_guest_has_its_network_and_passes_no_frame(self) -> None:
        with self.assertNothingPasses():
            recovery = self.begin(self.server)
            backup = self.inside(self.server, '/who')
            self.assertNotIn(backup, ('', self.primary))
            # What becomes of the entry that dnsmasq sets for a lease.
            self.on_backup('ip', '-n', f'specreds-{self.port(self.server)}', 'neighbour', 'flush',
                           'dev', 'box0', 'nud', 'all')
            self.assertEqual(backup, self.inside(self.server, '/who'))
            # The guest serves before it asks for its metadata, and Open vSwitch counts late.
            for wanted in ('tp_dst=67', 'nw_dst=169.254.169.254'):
                self.wait(f'frames of the guest with {wanted}',
                          functools.partial(self.counted, wanted))
            self.assertEqual(0, self.passed(self.server))
            self.drill.abort(recovery)
        self.assertNoBox(recovery)

    def state(self) -> str:
        """Return what explains that the backup cannot be reached in its box."""
        port = self.port(self.server)
        parts = [f'the guest says: {self.inside(self.server, "/who")!r}']
        for argv in (['ovs-ofctl', 'dump-flows', f'sb{port[:11]}'],
                     ['ovs-ofctl', 'dump-ports-desc', f'sb{port[:11]}'],
                     ['ip', 'netns', 'pids', f'specreds-{port}'],
                     ['ip', '-n', f'specreds-{port}', '-stats', 'link'],
                     ['ip', '-stats', 'link', 'show', f'tap{port[:11]}']):
            try:
                parts.append(self.on_backup(*argv))
            except commands.CloudError as exc:
                parts.append(str(exc))
        return '\n'.join(parts)

    def counted(self, wanted: str) -> int:
        """Return how many frames the box has taken from the backup that match a flow."""
        flows = self.on_backup('ovs-ofctl', 'dump-flows', f'sb{self.port(self.server)[:11]}')
        [frames] = re.findall(rf'n_packets=(\d+)[^\n]*in_port=2[^\n]*{wanted}', flows)
        return int(frames)

    def test_no_frame_passes_while_services_restart(self) -> None:
        with self.assertNothingPasses():
            recovery = self.begin(self.server)
            backup = self.inside(self.server, '/who')
            host = self.host(base.BACKUP)
            for service in (services.agent(self.cloud.settings), 'ovs-vswitchd', 'nova-compute'):
                host.restart(service)
                self.wait(f'the backup in its box after {service}',
                          lambda: self.inside(self.server, '/who') == backup)
                self.assertEqual(0, self.passed(self.server), service)
            self.drill.abort(recovery)
        self.assertNoBox(recovery)
