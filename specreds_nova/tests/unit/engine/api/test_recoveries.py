# SPDX-License-Identifier: Apache-2.0
"""Recoveries in the API: what each role sees of them, and their abort."""

from urllib import parse

import ddt

from specreds_nova.engine import model
from specreds_nova.tests.unit.engine.api import base

_OWN = f'/v1/recoveries/{base.ID}'
_HIDDEN = {'host', 'destination', 'engine', 'epoch', 'why', 'error', 'superposition_id',
           'priority', 'expected_seconds'}


@ddt.ddt
class ShowTest(base.APITest):

    def test_recovery_has_its_timeline(self) -> None:
        self.create_racing()
        recovery = self.request('GET', _OWN)['recovery']
        self.assertEqual(
            {'id': base.ID, 'server_id': base.SERVER, 'state': model.RACING, 'host': 'node1',
             'destination': 'node2', 'engine': 'engine1', 'epoch': 1, 'priority': 10,
             'suspected_at': '1970-01-01T00:16:39.500000Z', 'ended_at': None},
            {name: recovery[name] for name in (
                'id', 'server_id', 'state', 'host', 'destination', 'engine', 'epoch', 'priority',
                'suspected_at', 'ended_at')})
        self.assertEqual([{'kind': 'silence', 'words': 'no heartbeat for 0.9 s',
                           'at': '1970-01-01T00:16:39.500000Z'}], recovery['why'])
        self.assertEqual(
            [('super', 1, 0.75, 0.125, {'volumes': 2}), ('start', 1, 0.875, None, {})],
            [(step['name'], step['attempt'], step['offset_seconds'], step['seconds'],
              step['detail']) for step in recovery['steps']])

    def test_project_sees_no_hosts_and_engines(self) -> None:
        self.create_racing()
        recovery = self.request('GET', _OWN, caller=base.READER)['recovery']
        self.assertEqual(set(), _HIDDEN & set(recovery))
        self.assertEqual({'name', 'attempt', 'began_at', 'ended_at', 'offset_seconds', 'seconds'},
                         set(recovery['steps'][0]))

    def test_operator_sees_everything_and_a_service_nothing(self) -> None:
        self.create_racing()
        self.assertEqual(self.request('GET', _OWN),
                         self.request('GET', _OWN, caller=base.OPERATOR))
        self.refused('GET', _OWN, 404, caller=base.SERVICE)
        self.refused('GET', '/v1/hosts', 403, caller=base.SERVICE)

    def test_other_project_gets_404(self) -> None:
        self.create_racing()
        words = self.refused('GET', _OWN, 404, caller=base.STRANGER)
        self.assertEqual(f'there is no recovery {base.ID}', words)

    @ddt.data(base.ID, 'no', '%00', '%F0%9F%90%8D')
    def test_unknown_recovery_returns_404(self, recovery_id: str) -> None:
        self.refused('GET', f'/v1/recoveries/{recovery_id}', 404)


class AbortTest(base.APITest):

    def test_abort_is_recorded(self) -> None:
        self.create_racing()
        answer = self.request('POST', f'{_OWN}/action', {'abort': None}, status=202)['recovery']
        self.assertTrue(answer['abort_requested'])
        self.assertEqual('user u1 wants it to end', self.store.active()[0].abort)

    def test_abort_after_the_commit_point_returns_409(self) -> None:
        self.store.change(self.create_racing(), state=model.COMMITTED)
        words = self.refused('POST', f'{_OWN}/action', 409, {'abort': None},
                             code='recovery-committed')
        self.assertIn('committed: the primary is fenced', words)

    def test_abort_after_the_end_returns_409(self) -> None:
        self.end(self.create_racing(), model.PRIMARY)
        words = self.refused('POST', f'{_OWN}/action', 409, {'abort': None},
                             code='recovery-ended')
        self.assertIn('has ended already: primary', words)

    def test_project_may_not_abort(self) -> None:
        self.create_racing()
        words = self.refused('POST', f'{_OWN}/action', 403, {'abort': None}, caller=base.READER)
        self.assertIn('recovery:abort', words)
        self.refused('POST', f'{_OWN}/action', 404, {'abort': None}, caller=base.STRANGER)
        self.assertFalse(self.store.active()[0].abort)


@ddt.ddt
class ListTest(base.APITest):

    def setUp(self) -> None:
        super().setUp()
        self.ids: list[str] = []
        for number in range(5):
            self.clock.time += 1
            self.ids.insert(0, self.created(project=f'p{number % 2 + 1}', host=f'node{number}',
                                            server=f'{number}{base.SERVER[1:]}').id)

    def listed(self, query: str = '', caller: dict[str, str] = base.ADMIN) -> list[str]:
        """Return the ids of the listed recoveries."""
        return [recovery['id'] for recovery in self.request(
            'GET', f'/v1/recoveries{query}', caller=caller)['recoveries']]

    def test_admin_lists_all_projects(self) -> None:
        self.assertEqual(self.ids, self.listed())
        self.assertEqual(self.ids, self.listed(caller=base.OPERATOR))

    def test_project_lists_its_own_recoveries(self) -> None:
        self.assertEqual(self.ids[0::2], self.listed(caller=base.READER))
        self.assertEqual(self.ids[0::2], self.listed('?project_id=p1', caller=base.READER))
        self.assertEqual(self.ids[1::2], self.listed(caller=base.STRANGER))
        recoveries = self.request('GET', '/v1/recoveries', caller=base.READER)['recoveries']
        self.assertEqual(set(), _HIDDEN & set(recoveries[0]))

    def test_project_may_not_list_another_project(self) -> None:
        words = self.refused('GET', '/v1/recoveries?project_id=p2', 403, caller=base.READER)
        self.assertIn('recovery:list:all_projects', words)

    def test_project_may_not_filter_by_host(self) -> None:
        self.refused('GET', '/v1/recoveries?host=node0', 403, caller=base.READER)

    def test_caller_without_a_role_gets_403(self) -> None:
        self.refused('GET', '/v1/recoveries', 403, caller={**base.READER, 'X-Roles': ''})

    def test_each_filter_selects_the_recovery(self) -> None:
        self.end(self.taken_over(self.store.get(self.ids[2]), 'engine1'), model.PRIMARY)
        for query in ('?outcome=primary', '?state=ended&host=node2', '?host=node2',
                      f'?server_id=2{base.SERVER[1:]}&project_id=p1'):
            self.assertEqual([self.ids[2]], self.listed(query))

    def test_pages_are_linked(self) -> None:
        seen = []
        path = '/v1/recoveries?limit=2&state=queued'
        while path:
            answer = self.request('GET', path)
            seen += [recovery['id'] for recovery in answer['recoveries']]
            links = answer.get('recoveries_links', [])
            path = links[0]['href'].removeprefix('http://localhost') if links else ''
            self.assertIn(parse.parse_qs(parse.urlsplit(path).query).get('state'),
                          (None, ['queued']))
        self.assertEqual(self.ids, seen)

    def test_last_page_has_no_link(self) -> None:
        self.assertNotIn('recoveries_links', self.request('GET', '/v1/recoveries?limit=5'))
        self.assertEqual([], self.listed('?limit=0'))

    @ddt.data('limit=x', 'limit=-1', 'marker=no', 'state=strange', 'outcome=strange',
              'colour=red', 'server_id=vm1', 'limit=1&limit=2', 'host=')
    def test_malformed_query_returns_400(self, query: str) -> None:
        self.assertIn('the query is invalid',
                      self.refused('GET', f'/v1/recoveries?{query}', 400))

    def test_unknown_marker_returns_400(self) -> None:
        self.assertIn('begin with the first page',
                      self.refused('GET', f'/v1/recoveries?marker={base.ID}', 400))
