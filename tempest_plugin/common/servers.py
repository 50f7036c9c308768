# SPDX-License-Identifier: Apache-2.0
"""Servers that boot from volumes, for tests of several services together."""

import dataclasses
from typing import Any

from tempest import config
from tempest.common import utils
from tempest.scenario import manager

from tempest_plugin.common import engine
from tempest_plugin.common import guests

CONF = config.CONF


@dataclasses.dataclass(frozen=True)
class Server:
    """A running server.

    :ivar host: Nova's name of the host on which the server was created
    :ivar volumes: ids of the volumes, the boot volume first
    :ivar guest: None if this cloud offers no access to guests
    """

    id: str
    host: str
    volumes: tuple[str, ...]
    guest: guests.Guest | None


class ServersTest(engine.EngineTest, manager.ScenarioTest):
    """A test that makes servers, which belong to ``owner`` and are deleted when the test ends."""

    # The first version in which services have UUIDs; it also shows whether one is forced down.
    compute_min_microversion = '2.53'
    # The number of compute hosts that the tests need.
    hosts_needed = 1

    @classmethod
    def skip_checks(cls) -> None:
        """Skip all tests of the class if the cloud lacks a service or option."""
        super().skip_checks()
        for service in ('nova', 'glance', 'neutron'):
            if not getattr(CONF.service_available, service):
                raise cls.skipException(f'[service_available] {service} is not set')
        for option in ('image_ref', 'flavor_ref'):
            if not CONF.compute[option]:
                raise cls.skipException(f'[compute] {option} is not set')

    @classmethod
    def network_resources_wanted(cls) -> bool:
        """Report that the tests make servers."""
        return True

    @classmethod
    def setup_clients(cls) -> None:
        """Set the clients that the tests use."""
        super().setup_clients()
        cls.servers = cls.owner().servers_client
        cls.all_servers = cls.os_admin.servers_client

    @classmethod
    def resource_setup(cls) -> None:
        """Skip all tests of the class if the cloud has too few compute hosts.

        A host that Nova has and the engine does not trust is a fault of the cloud.

        :raises AssertionError: the engine trusts fewer hosts than the tests need
        """
        super().resource_setup()
        computes = cls.os_admin.services_client.list_services(binary='nova-compute')['services']
        if 0 < len(computes) < cls.hosts_needed:
            raise cls.skipException(f'the test needs {cls.hosts_needed} compute hosts, and the '
                                    f'cloud has {len(computes)}')
        trusted = cls.hosts.list_hosts(state='trusted')['hosts']
        if len(trusted) < cls.hosts_needed:
            raise AssertionError(
                f'the test needs {cls.hosts_needed} hosts that the engine trusts: it trusts '
                f'{len(trusted)} of the {len(computes)} that Nova has')

    def make_server(self, volumes: int = 1, metadata: dict[str, str] | None = None) -> Server:
        """Boot a server from a volume, and wait until its guest answers.

        :param volumes: the number of volumes
        :param metadata: the server's properties; by default as the configuration has them
        """
        ids = (self.make_volume(imageRef=CONF.compute.image_ref),
               *(self.make_volume() for _ in range(1, volumes)))
        if metadata is None and CONF.specreds.server_ready:
            metadata = {'specreds:ready': CONF.specreds.server_ready}
        access = self._access()
        shown = self.create_server(
            image_id='', metadata=metadata or {}, block_device_mapping_v2=[
                {'source_type': 'volume', 'destination_type': 'volume', 'uuid': volume_id,
                 'boot_index': 0 if volume_id == ids[0] else -1, 'delete_on_termination': False}
                for volume_id in ids], **access)
        guest = self._guest(shown, access)
        server = Server(shown['id'], self.get_host_for_server(shown['id']), ids, guest)
        if guest is not None:
            self.identity(server)
        return server

    def show(self, server_id: str) -> dict[str, Any]:
        """Return Nova's description of a server for administrators."""
        shown: dict[str, Any] = self.all_servers.show_server(server_id)['server']
        return shown

    def wait_active(self, server_id: str) -> dict[str, Any]:
        """Wait until a server is active and without a task, and return its description."""
        def found() -> dict[str, Any] | None:
            shown = self.show(server_id)
            self.assertNotEqual('ERROR', shown['status'], shown.get('fault'))
            ready = shown['status'] == 'ACTIVE' and shown['OS-EXT-STS:task_state'] is None
            return shown if ready else None
        shown: dict[str, Any] = self.wait(f'server {server_id} to be active', found)
        return shown

    # Guests

    def identity(self, server: Server) -> str:
        """Wait until a server's guest answers, and return the identity of its boot."""
        assert server.guest is not None

        def found() -> str:
            try:
                return server.guest.identity() if server.guest else ''
            except guests.Unanswered:
                return ''
        identity: str = self.wait(f'the guest of server {server.id} to answer', found)
        return identity

    def need_guests_that_write(self) -> None:
        """Skip the test if the cloud offers no way to make guests write."""
        if guests.kind() not in ('command', 'ssh'):
            raise self.skipException('the test makes a guest write: set [specreds] '
                                     'guest_command, or [validation] run_validation')

    def _access(self) -> dict[str, Any]:
        """Return what a server is created with so that its guest can be reached."""
        kind = guests.kind()
        if kind not in ('command', 'ssh') or not utils.is_extension_enabled(
                'security-group', 'network'):
            return {'keypair': self.create_keypair()} if kind == 'ssh' else {}
        group = self.create_security_group()
        if kind == 'ssh':
            return {'keypair': self.create_keypair(), 'security_groups': [{'name': group['name']}]}
        # It is not known how the command reaches guests.
        self.create_loginable_secgroup_rule(secgroup=group, rulesets=[{'protocol': 'tcp'}])
        return {'security_groups': [{'name': group['name']}]}

    def _guest(self, shown: Any, access: dict[str, Any]) -> guests.Guest | None:
        kind = guests.kind()
        if kind == 'command':
            return guests.CommandGuest(self.get_server_ip(shown))
        if kind == 'ssh':
            return guests.SshGuest(self.get_remote_client(
                self.get_server_ip(shown), private_key=access['keypair']['private_key'],
                server=shown))
        if kind == 'console':
            return guests.ConsoleGuest(lambda: str(self.servers.get_console_output(
                shown['id'])['output']))
        return None
