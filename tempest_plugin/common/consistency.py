# SPDX-License-Identifier: Apache-2.0
"""Checks that Nova, Cinder, Placement and Neutron agree about a server."""

from typing import Any

from tempest import config

from tempest_plugin.common import hosts
from tempest_plugin.common import servers

CONF = config.CONF

# Nova's states of a successful evacuation; the second one after the clean-up of the old host.
_EVACUATED = ('done', 'completed')


class ConsistencyTest(hosts.DisturbingTest):
    """A test that compares the services' views, as an administrator."""

    def assert_consistent(self, server: servers.Server, host: str, *gone: str) -> None:
        """Assert that all services place a server on a host, and only there.

        :param gone: hosts that are down, on which Nova may still claim resources for the server
        """
        shown = self.wait_active(server.id)
        self.assertEqual(host, shown['OS-EXT-SRV-ATTR:host'])
        self._assert_attachments(server, host)
        self._assert_ports(server, host)
        self.assert_allocations(server.id, [host], *gone)
        self.assertEqual([], self.superpositions.list_superpositions(
            all_tenants=1, server_id=server.id)['superpositions'])

    def assert_moved(self, server: servers.Server, recovery: dict[str, Any],
                     evacuations: list[tuple[str, str]], *gone: str) -> None:
        """Assert that a server is on its recovery's destination after the given evacuations.

        :param evacuations: pairs of source and destination, in any order
        :param gone: hosts that are down
        """
        self.assert_consistent(server, recovery['destination'], *gone)
        # The server has taken over the allocations of the backup.
        self.assert_allocations(recovery['id'], [], *gone)
        migrations = [migration for migration in self.os_admin.migrations_client.list_migrations()[
            'migrations'] if migration['instance_uuid'] == server.id]
        self.assertEqual(sorted(evacuations), sorted(
            (migration['source_compute'], migration['dest_compute']) for migration in migrations))
        for migration in migrations:
            self.assertEqual('evacuation', migration['migration_type'])
            self.assertIn(migration['status'], _EVACUATED)

    def assert_cleaned(self, server: servers.Server) -> None:
        """Wait until the hosts that a server was evacuated from have cleaned up."""
        def found() -> bool:
            return all(migration['status'] == 'completed' for migration in
                       self.os_admin.migrations_client.list_migrations()['migrations']
                       if migration['instance_uuid'] == server.id)
        self.wait(f'the evacuations of server {server.id} to be completed', found,
                  CONF.specreds.recovery_timeout)

    def _assert_attachments(self, server: servers.Server, host: str) -> None:
        attached = self.servers.list_volume_attachments(server.id)['volumeAttachments']
        self.assertEqual(sorted(server.volumes), sorted(
            attachment['volumeId'] for attachment in attached))
        volumes = self.os_admin.volumes_client_latest
        for volume_id in server.volumes:
            volume = volumes.show_volume(volume_id)['volume']
            self.assertEqual('in-use', volume['status'])
            self.assertEqual([(server.id, host)], [
                (attachment['server_id'], attachment['host_name'])
                for attachment in volume['attachments']])

    def _assert_ports(self, server: servers.Server, host: str) -> None:
        def found() -> bool:
            ports = self.os_admin.ports_client.list_ports(device_id=server.id)['ports']
            self.assertNotEqual([], ports)
            self.assertEqual({host}, {port['binding:host_id'] for port in ports})
            return all(port['status'] == 'ACTIVE' for port in ports)
        # As in a live migration, Neutron reports a port as down from the change of its binding
        # until the agent of its new host has processed the port.
        self.wait(f'the ports of server {server.id} to be active', found)

    def assert_allocations(self, consumer: str, expected: list[str], *gone: str) -> None:
        """Assert that a consumer has allocations on the expected hosts.

        :param gone: hosts to ignore
        """
        providers = self.os_admin.resource_providers_client
        allocations = self.os_admin.placement_client.list_allocations(consumer)['allocations']
        names = [providers.show_resource_provider(provider_id)['name']
                 for provider_id in allocations]
        self.assertEqual(expected, [name for name in names if name not in gone])
