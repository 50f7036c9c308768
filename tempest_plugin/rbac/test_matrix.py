# SPDX-License-Identifier: Apache-2.0
"""Tests of each rule of the default policies with each persona.

Those that need a server or a recovery are tested by ``tempest_plugin.scenario``.
"""

from typing import Any

from tempest import config
from tempest.lib import decorators
from tempest.lib import exceptions
from tempest.lib.common.utils import data_utils

from tempest_plugin.common import base
from tempest_plugin.common import engine
from tempest_plugin.common import personas

CONF = config.CONF


def _superpositions(clients: Any) -> Any:
    return clients.superpositions.SuperpositionsClient()


class SuperpositionsMatrixTest(personas.PersonasTest):
    """Requests for a superposed volume of a project's member."""

    features = ('superpositions',)

    def setUp(self) -> None:
        super().setUp()
        self.volume_id = self.make_volume()

    def superposed(self) -> str:
        """Return the superposition of the volume, a new one if the last one has ended."""
        made = self.listed()
        return made[0] if made else str(self.superpose(self.volume_id)['id'])

    def plain(self) -> str:
        """Return the volume, and end its superposition."""
        for superposition_id in self.listed():
            self.end(superposition_id)
        return self.volume_id

    def listed(self) -> list[str]:
        """Return the superpositions of the volume, without those that are ending."""
        states: list[dict[str, Any]] = self.superpositions.list_superpositions(
            detail=True, all_tenants=1, volume_id=self.volume_id)['superpositions']
        for shown in states:
            if shown['state'] != 'superposed':
                self.end(shown['id'])
        return [shown['id'] for shown in states if shown['state'] == 'superposed']

    @decorators.idempotent_id('2a3f9a4f-9f5f-4f0d-8f33-2f6ad5d6c0a1')
    def test_reading(self) -> None:
        """Readers of the project see superpositions, and nobody else but the cloud's services."""
        self.assert_rule('superposition:get', lambda clients, made: _superpositions(
            clients).show_superposition(made), self.superposed)
        self.assert_rule('superposition:get_all', lambda clients: _superpositions(
            clients).list_superpositions())
        self.assert_rule('superposition:get_all_tenants', lambda clients: _superpositions(
            clients).list_superpositions(all_tenants=1))
        self.assert_rule('superposition:eligibility', lambda clients: _superpositions(
            clients).show_eligibility(self.volume_id))
        # No server has this disk, which is the answer.
        self.assert_rule('superposition:server_disks', lambda clients: _superpositions(
            clients).show_disk_eligibility(f'{data_utils.rand_uuid()}_disk'))
        other = _superpositions(self.os_project_alt_member).list_superpositions()
        self.assertEqual([], other['superpositions'])

    @decorators.idempotent_id('9c1be2a7-7b0f-4a0c-9a54-4a3bb3b6e0c2')
    def test_changing(self) -> None:
        """Only administrators and engines decide; services also open and merge the result."""
        self.assert_rule('superposition:create', lambda clients, volume_id: _superpositions(
            clients).create_superposition(volume_ids=[volume_id]), self.plain)
        self.assert_rule('superposition:check', lambda clients, made: _superpositions(
            clients).check_superposition(made), self.superposed)
        self.assert_rule('superposition:merge', lambda clients, made: _superpositions(
            clients).merge_superposition(made, 'offline'), self.superposed)
        self.assert_rule('superposition:connection', lambda clients, made: _superpositions(
            clients).show_connection(made, {'host': 'h'}), self.superposed)
        self.assert_rule('superposition:collapse', lambda clients, made: _superpositions(
            clients).collapse_superposition(made, 'abort'), self.superposed)
        self.assert_rule('superposition:delete', lambda clients, made: _superpositions(
            clients).delete_superposition(made), self.superposed)
        # The first step only looks at the clients of the volumes.
        self.assert_rule('superposition:fence', lambda clients, volume_id: _superpositions(
            clients).fence_host(volume_ids=[volume_id], host='h', step='observe',
                                fence_id=data_utils.rand_uuid()), self.plain)
        # No host has this address, which is for documentation.
        self.assert_rule('superposition:release', lambda clients: _superpositions(
            clients).release_hosts([{'addresses': ['192.0.2.1'], 'age_seconds': 10 ** 7}]))


class EngineMatrixTest(personas.PersonasTest):
    """Requests for hosts and recoveries, on an undisturbed cloud."""

    @decorators.idempotent_id('5b0a0c3e-6a4e-4f2b-9d55-1f0f6c0b7d13')
    def test_recoveries(self) -> None:
        """Each project lists its own recoveries."""
        foreign = data_utils.rand_uuid()
        self.assert_rule('recovery:list', lambda clients: clients.speculative.RecoveriesClient(
        ).list_recoveries())
        self.assert_rule('recovery:list:all_projects', lambda clients: (
            clients.speculative.RecoveriesClient().list_recoveries(project_id=foreign)))
        self.assert_rule('recovery:show:details', lambda clients: (
            clients.speculative.RecoveriesClient().list_recoveries(host='h')))

    @decorators.idempotent_id('d6b1d5c0-0b5b-4c39-8f3a-5a7f3e9b1e24')
    def test_hosts(self) -> None:
        """Only administrators and operators see hosts, and act on them."""
        host = self.hosts.list_hosts()['hosts'][0]['name']
        self.assert_rule('host:list', lambda clients: clients.speculative.HostsClient(
        ).list_hosts())
        self.assert_rule('host:show', lambda clients: clients.speculative.HostsClient(
        ).show_host(host))
        for action in ('suspect', 'clear'):
            self.assert_rule(f'host:{action}', lambda clients, action=action: self._act(
                clients, action))

    @decorators.idempotent_id('0d6f2b57-3f6e-4a55-9e0b-6a2f5d1c8b47')
    def test_modes(self) -> None:
        """Only administrators and operators see modes, and set them."""
        nothing = data_utils.rand_uuid()
        self.assert_rule('mode:list', lambda clients: clients.speculative.HostsClient().ask(
            'GET', 'v1/modes'))
        self.assert_rule('mode:set', lambda clients: self._missing(
            clients, 'PUT', 'v1/modes',
            {'scope': 'host', 'name': nothing, 'mode': 'pause', 'reason': 'tempest'}))

    @decorators.idempotent_id('c2422773-9752-4462-a9a5-1a33d8ab761a')
    def test_drills(self) -> None:
        """Only administrators and operators begin drills."""
        nothing = data_utils.rand_uuid()
        self.assert_rule('server:drill', lambda clients: self._missing(
            clients, 'POST', f'v1/servers/{nothing}/action', {'drill': None}))

    @decorators.idempotent_id('7c1a6f0e-3d5b-4f0c-8a46-1e2b9d7f5c38')
    def test_forecasts(self) -> None:
        """Only administrators and operators see what all servers of the cloud would get."""
        host = self.hosts.list_hosts()['hosts'][0]['name']
        self.assert_rule('coverage:show', lambda clients: (
            clients.speculative.HostsClient().ask('GET', 'v1/coverage')))
        self.assert_rule('simulation:show', lambda clients: (
            clients.speculative.HostsClient().ask('GET', f'v1/simulation?host={host}')))

    def _act(self, clients: Any, action: str) -> None:
        """Act on a host that does not exist, which the API says only to those who may act."""
        nothing = data_utils.rand_uuid()
        self._missing(clients, 'POST', f'v1/hosts/{nothing}/action',
                      {action: {'reason': 'tempest'}})

    @staticmethod
    def _missing(clients: Any, method: str, path: str, body: Any) -> None:
        try:
            clients.speculative.HostsClient().ask(method, path, body=body)
        except exceptions.NotFound:
            return


class ScopeTest(base.BaseTest):
    """Requests with a token of the system instead of a project."""

    credentials = ['admin', 'system_admin']

    @classmethod
    def skip_checks(cls) -> None:
        """Skip all tests of the class if tokens of other scopes are accepted."""
        super().skip_checks()
        if not CONF.enforce_scope.cinder:
            raise cls.skipException('[enforce_scope] cinder is not set')

    @classmethod
    def owner(cls) -> Any:
        """Return the clients of the administrator."""
        return cls.os_admin

    @decorators.attr(type='negative')
    @decorators.idempotent_id('8e6f4b12-7c65-4a3e-b6a5-0d0a6a4c8b46')
    def test_superpositions(self) -> None:
        """Superpositions are of projects."""
        client = _superpositions(self.os_system_admin)
        self.assertRaises(exceptions.Forbidden, client.list_superpositions, all_tenants=1)


class EngineScopeTest(engine.EngineTest):
    """Requests to the engine with a token of the system instead of a project."""

    credentials = ['admin', 'system_admin']

    @classmethod
    def skip_checks(cls) -> None:
        """Skip all tests of the class if tokens of other scopes are accepted."""
        super().skip_checks()
        if not CONF.enforce_scope.specreds:
            raise cls.skipException('[enforce_scope] specreds is not set')

    @classmethod
    def owner(cls) -> Any:
        """Return the clients of the administrator."""
        return cls.os_admin

    @decorators.attr(type='negative')
    @decorators.idempotent_id('f4c9d0a6-2a71-4be7-9f0e-7f3f7d1c5e57')
    def test_hosts_and_recoveries(self) -> None:
        """The engine's API takes tokens of projects only."""
        speculative = self.os_system_admin.speculative
        self.assertRaises(exceptions.Forbidden, speculative.HostsClient().list_hosts)
        self.assertRaises(exceptions.Forbidden, speculative.RecoveriesClient().list_recoveries)
