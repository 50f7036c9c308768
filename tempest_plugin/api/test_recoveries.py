# SPDX-License-Identifier: Apache-2.0
"""Tests of the engine's API on an undisturbed cloud."""

from tempest.lib import decorators
from tempest.lib import exceptions
from tempest.lib.common.utils import data_utils

from tempest_plugin.common import engine
from tempest_plugin.common import microversions


class RecoveriesTest(engine.EngineTest):
    """Requests that read hosts and recoveries."""

    @decorators.idempotent_id('da383a97-4ef9-4d76-8ae0-6ff799206b5d')
    def test_versions(self) -> None:
        """The API lists its versions."""
        [version] = self.recoveries.list_versions()['versions']
        self.assertEqual(('v1.0', 'CURRENT', '1.0'),
                         (version['id'], version['status'], version['min_version']))

    @decorators.attr(type='smoke')
    @decorators.idempotent_id('ba61f2df-a97f-429c-be27-3171972190d4')
    def test_hosts(self) -> None:
        """Each host can be listed, filtered by state, and shown."""
        hosts = self.hosts.list_hosts()['hosts']
        self.assertNotEqual([], hosts)
        for host in hosts:
            shown = self.hosts.show_host(host['name'])['host']
            self.assertEqual(host['name'], shown['name'])
            self.assertIn(shown['state'], ('trusted', 'suspected', 'fenced'))
            self.assertIsInstance(shown['recoveries'], list)
        for state in ('trusted', 'suspected', 'fenced'):
            self.assertEqual({state}, {state} | {
                host['state'] for host in self.hosts.list_hosts(state=state)['hosts']})

    @decorators.idempotent_id('ea00bc65-57c8-46a4-800e-788d992a1d28')
    def test_hosts_by_pages(self) -> None:
        """A page ends where the next one begins."""
        names = [host['name'] for host in self.hosts.list_hosts()['hosts']]
        paged: list[str] = []
        while True:
            after = {'marker': paged[-1]} if paged else {}
            page = self.hosts.list_hosts(limit=1, **after)
            paged += [host['name'] for host in page['hosts']]
            if 'hosts_links' not in page:
                break
        self.assertEqual(names, paged)

    @decorators.idempotent_id('c65a2385-deaa-4078-b33f-ba50cacb7b3e')
    def test_recoveries(self) -> None:
        """Each listed recovery can be shown, and found by its server, host and project."""
        for recovery in self.recoveries.list_recoveries(limit=5)['recoveries']:
            shown = self.recoveries.show_recovery(recovery['id'])['recovery']
            self.assertEqual(recovery['server_id'], shown['server_id'])
            listed = self.recoveries.list_recoveries(
                server_id=recovery['server_id'], host=recovery['host'],
                project_id=recovery['project_id'])['recoveries']
            self.assertIn(recovery['id'], [other['id'] for other in listed])
        listed = self.recoveries.list_recoveries(server_id=data_utils.rand_uuid())['recoveries']
        self.assertEqual([], listed)

    @decorators.attr(type='negative')
    @decorators.idempotent_id('f2b6b058-52bc-4294-b8bd-263f4863344a')
    def test_what_is_not_there(self) -> None:
        """An unknown recovery, host or server returns 404."""
        nothing = data_utils.rand_uuid()
        for request in (self.recoveries.show_recovery, self.recoveries.abort_recovery,
                        self.hosts.show_host, self.protection.show_protection):
            self.assertRaises(exceptions.NotFound, request, nothing)
        for act in (self.hosts.suspect_host, self.hosts.clear_host):
            self.assertRaises(exceptions.NotFound, act, nothing, 'tempest')

    @decorators.attr(type='negative')
    @decorators.idempotent_id('9f4f3a0d-4fd5-4cce-98d1-b6046f1a5fa6')
    def test_malformed(self) -> None:
        """A malformed request returns 400, an unsupported version 406."""
        for query in ({'state': 'solid'}, {'server_id': 'x'}, {'limit': 'all'}, {'colour': 'red'}):
            self.assertRaises(exceptions.BadRequest, self.recoveries.list_recoveries, **query)
        self.assertRaises(exceptions.BadRequest, self.hosts.list_hosts, state='solid')
        # The API validates a request before it looks for the host.
        nothing = data_utils.rand_uuid()
        self.assertRaises(exceptions.BadRequest, self.hosts.suspect_host, nothing, '')
        self.assertRaises(exceptions.BadRequest, self.hosts.ask, 'POST',
                          f'v1/hosts/{nothing}/action', body={'explode': {}})
        self.useFixture(microversions.MicroversionFixture(speculative='99.0'))
        self.assertRaises(exceptions.NotAcceptable, self.hosts.list_hosts)
