# SPDX-License-Identifier: Apache-2.0
"""Backups of servers behind a distributed router.

Each host has a part of the router. The part that serves a floating IP announces it, and answers
for it, on the network outside.
"""

from collections.abc import Iterator
import contextlib
import ipaddress
import pathlib
from typing import Any

from cloud.hosts import layout as hosts_layout
from cloud.hosts import packets
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.dvr_stories import base

# Device owner of the ports with which hosts are on the network outside.
_GATEWAY = 'network:floatingip_agent_gateway'


class TestRouters(base.RouterTestCase):
    """The server has a floating IP."""

    def setUp(self) -> None:
        super().setUp()
        self.make_router(distributed=True)
        self.boot_floating()

    def test_suspicion_does_not_move_the_floating_ip(self) -> None:
        with self.announcements() as file:
            recovery = self.begin(self.server)
            self.processed(cloud_base.BACKUP)
            self.assertEqual([cloud_base.PRIMARY], self.serving(self.address))
            self.assertEqual(self.first, self.guest_name(self.server))
            self.assertNotIn('migrating_to', self.port(self.guest_port)['binding:profile'])
            self.drill.abort(recovery)
            self.processed(cloud_base.BACKUP)
        self.assertNotIn(cloud_base.BACKUP, self.announcers(file, self.address))
        self.assertEqual([cloud_base.PRIMARY], self.serving(self.address))
        self.assertEqual(self.first, self.guest_name(self.server))
        self.assertNothingLeft(recovery)

    def test_neutron_moves_the_floating_ip_of_a_prepared_port(self) -> None:
        # This is why a box does not prepare such a port.
        path = f'/v2.0/ports/{self.guest_port}/bindings'
        self.drill.neutron.post(path, json={'binding': {'host': cloud_base.BACKUP}})
        self.addCleanup(self.drill.neutron.delete, f'{path}/{cloud_base.BACKUP}')
        with self.announcements() as file:
            self.mark({'migrating_to': cloud_base.BACKUP})
            self.addCleanup(self.mark, {})
            self.wait('the other host to announce the floating IP',
                      lambda: cloud_base.BACKUP in self.announcers(file, self.address))
        self.assertIn(cloud_base.BACKUP, self.serving(self.address))
        # An abort would do this. The address returns only when the other host has processed it.
        self.mark({})

    def test_promoted_server_takes_its_floating_ip_along(self) -> None:
        with self.announcements() as file:
            self.host(cloud_base.PRIMARY).kill()
            recovery = self.begin(self.server)
            self.processed(cloud_base.BACKUP)
            self.assertEqual([], self.serving(self.address))
            self.assertNotIn(cloud_base.BACKUP, self.announcers(file, self.address))
            self.drill.promote(recovery)
            self.wait('the new host to announce the floating IP',
                      lambda: cloud_base.BACKUP in self.announcers(file, self.address))
        self.assertNotEqual(self.first, self.guest_name(self.server))
        self.drill.adopt(recovery)
        self.drill.merged(recovery)
        self.wait_answer(self.server)
        self.assertEqual([cloud_base.BACKUP], self.serving(self.address))

    # Helpers

    def mark(self, profile: dict[str, str]) -> None:
        """Set the profile of the guest's port."""
        self.drill.neutron.put(f'/v2.0/ports/{self.guest_port}', json={
            'port': {'binding:profile': profile}})

    def processed(self, host: str) -> None:
        """Wait until a host's part of the router has processed everything up to this call.

        Another port there with a floating IP of its own makes it fetch the whole router.
        """
        other = self.floating_ip(self.make_port(host)['id'])
        self.wait(f'{host} to serve {other}', lambda: self.serving(other) == [host])

    def serving(self, address: str) -> list[str]:
        """Return the hosts that answer for a floating IP."""
        def routes(name: str) -> str:
            host = self.host(name)
            namespace = f'fip-{self.outside}'
            if namespace not in host.run(['ip', 'netns', 'list']):
                return ''
            return host.run(['ip', '-n', namespace, 'route', 'show', f'{address}/32'])
        return [name for name in self.cloud.hosts.running() if routes(name)]

    @contextlib.contextmanager
    def announcements(self) -> Iterator[pathlib.Path]:
        """Record ARP on the network outside."""
        file = self.scratch() / 'arp'
        with self.cloud.hosts.capture(hosts_layout.TENANT, file, 'arp'):
            yield file

    def announcers(self, file: pathlib.Path, address: str) -> set[str]:
        """Return the hosts that have announced a floating IP, or answered for it."""
        ports: list[dict[str, Any]] = self.drill.network.get('/v2.0/ports', params={
            'device_owner': _GATEWAY}).json()['ports']
        sender = f'arp[14:4] = {int(ipaddress.IPv4Address(address)):#x}'
        return {str(port['binding:host_id']) for port in ports if packets.read(
            file, f'{sender} and ether src {port["mac_address"]}')}
