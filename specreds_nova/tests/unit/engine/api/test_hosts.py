# SPDX-License-Identifier: Apache-2.0
"""Hosts in the API, and the actions of operators on them."""

from typing import Any
from unittest import mock

import ddt

from specreds_nova.engine import model
from specreds_nova.tests.unit.engine.api import base

_OWN = '/v1/hosts/node1'


@ddt.ddt
class HostsTest(base.APITest):

    def setUp(self) -> None:
        super().setUp()
        for name in ('node1', 'node2', 'node3'):
            self.store.see(name)

    def state(self, state: str) -> None:
        """Set the state of the host as an engine does."""
        self.store.change_host(self.store.host('node1'), state=state, why=base.WHY)

    def act(self, body: Any, **more: Any) -> Any:
        """Send an action on the host, and return the host."""
        return self.request('POST', f'{_OWN}/action', body, status=202, **more)['host']

    def test_hosts_are_listed_by_state(self) -> None:
        self.state(model.SUSPECTED)
        hosts = self.request('GET', '/v1/hosts')['hosts']
        self.assertEqual([('node1', 'suspected'), ('node2', 'trusted'), ('node3', 'trusted')],
                         [(host['name'], host['state']) for host in hosts])
        hosts = self.request('GET', '/v1/hosts?state=trusted', caller=base.OPERATOR)['hosts']
        self.assertEqual(['node2', 'node3'], [host['name'] for host in hosts])

    def test_held_host_has_reasons(self) -> None:
        self.store.change_host(self.store.host('node1'), held=('8 of 9 hosts are silent',))
        self.assertEqual(['node1'], [host['name'] for host in self.request(
            'GET', '/v1/hosts?state=held')['hosts']])
        shown = self.request('GET', _OWN)['host']
        self.assertEqual(('held', ['8 of 9 hosts are silent']), (shown['state'], shown['held']))

    def test_host_has_the_state_of_its_sentinel(self) -> None:
        self.store.report('node1', 'sentinel', model.SILENT)
        hosts = self.request('GET', '/v1/hosts')['hosts']
        self.assertEqual([model.SILENT, None, None], [host['sentinel'] for host in hosts])
        self.assertEqual(model.SILENT, self.request('GET', _OWN)['host']['sentinel'])

    def test_pages_are_linked(self) -> None:
        first = self.request('GET', '/v1/hosts?limit=2')
        self.assertEqual(['node1', 'node2'], [host['name'] for host in first['hosts']])
        rest = self.request('GET', first['hosts_links'][0]['href'])
        self.assertEqual(['node3'], [host['name'] for host in rest['hosts']])
        self.assertNotIn('hosts_links', rest)

    def test_host_has_evidence_and_recoveries(self) -> None:
        self.state(model.SUSPECTED)
        self.create_racing()
        shown = self.request('GET', _OWN)['host']
        self.assertEqual(('suspected', '1970-01-01T00:16:40.000000Z'),
                         (shown['state'], shown['since']))
        self.assertEqual('no heartbeat for 0.9 s', shown['why'][0]['words'])
        self.assertEqual([base.ID], [recovery['id'] for recovery in shown['recoveries']])

    @ddt.data(('GET', '/v1/hosts', None), ('GET', _OWN, None),
              ('POST', f'{_OWN}/action', {'suspect': {'reason': 'x'}}),
              ('POST', f'{_OWN}/action', {'clear': {'reason': 'x'}}))
    @ddt.unpack
    def test_projects_have_no_access(self, method: str, path: str, body: Any) -> None:
        self.assertIn('host:', self.refused(method, path, 403, body, caller=base.READER))
        self.assertIsNone(self.store.host('node1').word)

    def test_unknown_host_returns_404(self) -> None:
        for method, path, body in (('GET', '/v1/hosts/node9', None), (
                'POST', '/v1/hosts/node9/action', {'suspect': {'reason': 'x'}})):
            self.assertIn('no engine has heard of a host node9',
                          self.refused(method, path, 404, body))

    def test_suspect_and_clear_are_recorded(self) -> None:
        shown = self.act({'suspect': {'reason': 'it smokes'}}, caller=base.OPERATOR)
        self.assertEqual(('suspect', 'it smokes (user u2)'), (shown['word'], shown['word_reason']))
        self.assertEqual('suspect', self.store.host('node1').word)
        shown = self.act({'clear': {'reason': 'only steam'}})
        self.assertEqual(('clear', 'only steam (user u1)'), (shown['word'], shown['word_reason']))
        self.assertEqual('clear', self.store.host('node1').word)

    def test_death_is_recorded_with_its_time_and_taken_back(self) -> None:
        shown = self.act({'suspect': {'reason': 'it is off', 'dead': True}}, caller=base.OPERATOR)
        self.assertEqual('suspect', shown['word'])
        self.assertIsNotNone(shown['dead_at'])
        self.assertIsNotNone(self.store.host('node1').dead_at)
        self.assertIsNone(self.act({'clear': {'reason': 'only its cable'}})['dead_at'])

    def test_clear_of_a_fenced_host_returns_409(self) -> None:
        self.state(model.FENCED)
        words = self.refused('POST', f'{_OWN}/action', 409, {'clear': {'reason': 'x'}},
                             code='host-fenced')
        self.assertIn('is fenced', words)
        self.assertIsNone(self.store.host('node1').word)

    def test_change_by_an_engine_meanwhile_is_retried(self) -> None:
        change = self.store.change_host
        answers = iter((None, None))
        with mock.patch.object(self.store, 'change_host', side_effect=lambda host, **values: next(
                answers, host) and change(host, **values)):
            self.act({'suspect': {'reason': 'x'}})
        with mock.patch.object(self.store, 'change_host', return_value=None):
            self.refused('POST', f'{_OWN}/action', 409, {'suspect': {'reason': 'x'}},
                         code='host-changed')

    @ddt.data(None, {}, [], 'suspect', {'suspect': None}, {'suspect': {}},
              {'suspect': {'reason': ''}}, {'suspect': {'reason': 'x' * 256}},
              {'suspect': {'reason': 'x', 'colour': 'red'}}, {'strange': {'reason': 'x'}},
              {'clear': {'reason': 7}}, {'clear': {'reason': 'x', 'dead': True}},
              {'suspect': {'reason': 'x'}, 'clear': {'reason': 'x'}},
              b'{', b'\xff', b'[' * 60000, b' ' * 65537)
    def test_malformed_body_is_refused(self, body: Any) -> None:
        status = 413 if isinstance(body, bytes) and len(body) > 65536 else 400
        self.assertIn('body', self.refused('POST', f'{_OWN}/action', status, body))
        self.assertIsNone(self.store.host('node1').word)
