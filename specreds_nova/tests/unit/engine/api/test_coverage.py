# SPDX-License-Identifier: Apache-2.0
"""What all servers would get, and what would become of them, as the API shows it."""

from typing import Any

from keystoneauth1 import exceptions as auth_exceptions

from specreds_nova.engine import model
from specreds_nova.tests.unit.engine.api import base
from specreds_nova.tests.unit.preflight import cloud as clouds


class CoverageTest(base.APITest):
    """Three servers on one of three hosts."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud_now.free = {'node1': 0, 'node2': 1, 'node3': 1}
        for host in ('node1', 'node2', 'node3'):
            self.store.see(host)
        self.store.set_mode(model.Mode(model.CLOUD, '', model.ACT, 'x', 'u1', 0.0))

    def coverage(self) -> Any:
        """Return the coverage."""
        return self.request('GET', '/v1/coverage')['coverage']

    def simulated(self, query: str) -> list[tuple[Any, ...]]:
        """Return what would become of each server."""
        servers = self.request('GET', f'/v1/simulation?{query}')['simulation']['servers']
        return [(server['name'], server['destination'], server['begins'], server['seconds'])
                for server in servers]

    def test_servers_and_sums_are_as_the_preflight_reports_them(self) -> None:
        self.cloud_now.servers[0]['metadata'] = {'HA_Enabled': 'false'}
        shown = self.coverage()
        self.assertEqual([('none', ['it is not protected: HA_Enabled=false']),
                          ('speculative', []), ('speculative', [])],
                         [(server['recovery'], server['reasons']) for server in shown['servers']])
        self.assertEqual({'speculative': 2, 'evacuated': 0, 'failed': 0, 'none': 1,
                          'without_room': 0, 'without_room_of_two': 0}, shown['sums']['all'])
        self.assertEqual({}, shown['hosts'])

    def test_servers_without_room_are_counted(self) -> None:
        self.cloud_now.free = {'node1': 0, 'node2': 1, 'node3': 0}
        self.assertEqual(2, self.coverage()['sums']['project']['p1']['without_room'])

    def test_hosts_that_are_not_recovered_now_are_named(self) -> None:
        self.store.set_mode(model.Mode(model.HOST, 'node1', model.OBSERVE, 'x', 'u1', 0.0))
        self.store.change_host(self.store.host('node2'), state=model.SUSPECTED)
        shown = self.coverage()
        self.assertEqual(3, shown['sums']['all']['speculative'])
        self.assertEqual({'node1', 'node2'}, set(shown['hosts']))
        self.assertIn('observe', shown['hosts']['node1'][0])

    def test_host_that_no_engine_has_heard_covers_no_server(self) -> None:
        self.cloud_now = clouds.Cloud(node1='a', node9='b')
        shown = self.coverage()['servers']
        self.assertEqual(('none', ['no engine has ever heard node9']),
                         (shown[1]['recovery'], shown[1]['reasons']))

    def test_service_that_does_not_answer_is_a_passing_error(self) -> None:
        def refuse() -> None:
            raise auth_exceptions.ConnectFailure('no')
        self.cloud_now.reader = refuse  # type: ignore[method-assign,assignment]
        self.refused('GET', '/v1/coverage', 503)

    def test_only_who_manages_hosts_sees_it(self) -> None:
        for path in ('/v1/coverage', '/v1/simulation?host=node1'):
            self.refused('GET', path, 403, caller=base.READER)
            self.request('GET', path, caller=base.OPERATOR)

    def test_servers_are_recovered_in_order_where_there_is_room(self) -> None:
        self.store.learn('a', 3.0)
        self.cloud_now.servers[2]['metadata'] = {'specreds:priority': '9'}
        self.assertEqual([('c', 'node2', 0.0, None), ('a', 'node3', 0.0, 3.0),
                          ('b', None, None, None)], self.simulated('host=node1'))
        self.assertEqual([], self.store.active())

    def test_host_takes_few_backups_at_a_time(self) -> None:
        self.cloud_now = clouds.Cloud(node1='abcdefghijklmnopqrstuvwxy', node2='')
        self.cloud_now.free['node2'] = 99
        for server in self.cloud_now.servers:
            self.store.learn(server['id'], 2.0)
        self.assertEqual([2.0] * 20 + [4.0] * 5,
                         [seconds for *_, seconds in self.simulated('host=node1')])

    def test_server_without_a_backup_is_evacuated_after_the_others(self) -> None:
        self.cloud_now.servers[0]['status'] = 'SHUTOFF'
        self.cloud_now.servers[1]['status'] = 'BUILD'
        self.assertEqual([('c', 'node2', 0.0, None), ('a', 'node3', 60.0, None),
                          ('b', None, None, None)], self.simulated('host=node1'))
        ended = self.taken_over(self.created(suspected=0.0), 'engine1')
        self.clock.time = 90.0
        self.end(ended, model.EVACUATED)
        self.assertIn(('a', 'node3', 60.0, 90.0), self.simulated('host=node1'))

    def test_hosts_fail_together(self) -> None:
        self.assertEqual([('a', 'node3'), ('b', None), ('c', None)], [
            row[:2] for row in self.simulated('host=node1&host=node2')])

    def test_aggregate_fails(self) -> None:
        self.cloud_now.aggregates[0]['hosts'] = ['node1', 'node3']
        self.assertEqual([('a', 'node2'), ('b', None), ('c', None)],
                         [row[:2] for row in self.simulated('aggregate=ssd')])

    def test_what_does_not_exist_cannot_fail(self) -> None:
        self.assertIn('node9', self.refused('GET', '/v1/simulation?host=node9', 404))
        self.assertIn('hdd', self.refused('GET', '/v1/simulation?aggregate=hdd', 404))
        for query in ('', 'host=', 'host=node1&aggregate=ssd', 'host=node1&host='):
            self.refused('GET', f'/v1/simulation?{query}', 400)
