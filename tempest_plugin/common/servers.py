# SPDX-License-Identifier: Apache-2.0
"""Servers that boot from volumes, for tests of several services together."""

import dataclasses
import functools
from typing import Any

from tempest import config
from tempest.lib import exceptions
from tempest.lib.common import api_microversion_fixture
from tempest.lib.common.utils import data_utils

from tempest_plugin.common import engine
from tempest_plugin.common import guests

CONF = config.CONF

# The first version in which services have UUIDs; it also shows whether a service is forced down.
_COMPUTE_API = '2.53'


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


class ServersTest(engine.EngineTest):
    """A test that makes servers, which belong to ``owner`` and are deleted when the test ends."""

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
    def setup_credentials(cls) -> None:
        """Create the networks that a server needs, if each project has its own."""
        cls.set_network_resources(network=True, subnet=True, router=True, dhcp=True)
        super().setup_credentials()

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
        """Skip all tests of the class if there are too few hosts."""
        super().resource_setup()
        known = cls.hosts.list_hosts(state='trusted')['hosts']
        if len(known) < cls.hosts_needed:
            raise cls.skipException(
                f'the test needs {cls.hosts_needed} hosts that the engine trusts, and the cloud '
                f'has {len(known)}')

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(api_microversion_fixture.APIMicroversionFixture(
            compute_microversion=_COMPUTE_API))

    def make_server(self, volumes: int = 1, metadata: dict[str, str] | None = None) -> Server:
        """Boot a server from a volume, and wait until its guest answers.

        :param volumes: the number of volumes
        :param metadata: the server's properties; by default those of the configuration
        """
        ids = (self.make_volume(imageRef=CONF.compute.image_ref),
               *(self.make_volume() for _ in range(1, volumes)))
        if metadata is None and CONF.specreds.server_ready:
            metadata = {'specreds:ready': CONF.specreds.server_ready}
        network = self.get_tenant_network()
        access = self.get_test_validation_resources(self.owner())
        more: dict[str, Any] = {}
        if access.get('keypair'):
            more['key_name'] = access['keypair']['name']
        if access.get('security_group'):
            more['security_groups'] = [{'name': access['security_group']['name']}]
        server_id: str = self.servers.create_server(
            name=data_utils.rand_name(self.__class__.__name__, prefix=CONF.resource_name_prefix),
            flavorRef=CONF.compute.flavor_ref, imageRef='', metadata=metadata or {},
            networks=[{'uuid': network['id']}] if network else 'auto',
            block_device_mapping_v2=[
                {'source_type': 'volume', 'destination_type': 'volume', 'uuid': volume_id,
                 'boot_index': 0 if volume_id == ids[0] else -1, 'delete_on_termination': False}
                for volume_id in ids], **more)['server']['id']
        self.addCleanup(self.remove_server, server_id)
        shown = self.wait_active(server_id)
        guest = self._guest(shown, network, access)
        server = Server(server_id, shown['OS-EXT-SRV-ATTR:host'], ids, guest)
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

    def remove_server(self, server_id: str) -> None:
        """Delete a server, and wait until it is gone."""
        if self.gone(self.servers.delete_server, server_id):
            return
        self.wait(f'server {server_id} to be gone', functools.partial(
            self.gone, self.servers.show_server, server_id))

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

    def _guest(self, shown: dict[str, Any], network: Any, access: Any) -> guests.Guest | None:
        kind = guests.kind()
        if kind == 'command':
            [address, *_] = [entry['addr'] for group in shown['addresses'].values()
                             for entry in group]
            return guests.CommandGuest(address)
        if kind == 'ssh':
            key = access['keypair']['private_key'] if access.get('keypair') else None
            return guests.SshGuest(self._reachable(shown, network, access), key)
        if kind == 'console':
            return guests.ConsoleGuest(lambda: str(self.servers.get_console_output(
                shown['id'])['output']))
        return None

    def _reachable(self, shown: dict[str, Any], network: Any, access: Any) -> str:
        """Return the address for ssh: a floating one, or the one in network_for_ssh."""
        if CONF.validation.connect_method == 'floating':
            [port, *_] = self.owner().ports_client.list_ports(
                device_id=shown['id'], network_id=network['id'])['ports']
            self.owner().floating_ips_client.update_floatingip(
                access['floating_ip']['id'], port_id=port['id'])
            return str(access['floating_ip']['ip'])
        try:
            return next(str(entry['addr'])
                        for entry in shown['addresses'][CONF.validation.network_for_ssh]
                        if entry['version'] == CONF.validation.ip_version_for_ssh)
        except (KeyError, StopIteration):
            raise exceptions.InvalidConfiguration(
                'the server has no address in [validation] network_for_ssh') from None
