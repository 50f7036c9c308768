# SPDX-License-Identifier: Apache-2.0
"""Hosts by the API, and what operators say of them."""

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
        """Have an engine see the host so."""
        self.store.change_host(self.store.host('node1'), state=state, why=base.WHY)

    def act(self, body: Any, **more: Any) -> Any:
        """Say something of the host; gives the host."""
        return self.ask('POST', f'{_OWN}/action', body, status=202, **more)['host']

    def test_list(self) -> None:
        self.state(model.SUSPECTED)
        found = self.ask('GET', '/v1/hosts')['hosts']
        self.assertEqual([('node1', 'suspected'), ('node2', 'trusted'), ('node3', 'trusted')],
                         [(host['name'], host['state']) for host in found])
        found = self.ask('GET', '/v1/hosts?state=trusted', who=base.SERVICE)['hosts']
        self.assertEqual(['node2', 'node3'], [host['name'] for host in found])

    def test_held(self) -> None:
        self.store.change_host(self.store.host('node1'), held=('8 of 9 hosts are silent',))
        self.assertEqual(['node1'], [host['name'] for host in self.ask(
            'GET', '/v1/hosts?state=held')['hosts']])
        found = self.ask('GET', _OWN)['host']
        self.assertEqual(('held', ['8 of 9 hosts are silent']), (found['state'], found['held']))

    def test_pages(self) -> None:
        first = self.ask('GET', '/v1/hosts?limit=2')
        self.assertEqual(['node1', 'node2'], [host['name'] for host in first['hosts']])
        rest = self.ask('GET', first['hosts_links'][0]['href'])
        self.assertEqual(['node3'], [host['name'] for host in rest['hosts']])
        self.assertNotIn('hosts_links', rest)

    def test_show(self) -> None:
        self.state(model.SUSPECTED)
        self.story()
        found = self.ask('GET', _OWN)['host']
        self.assertEqual(('suspected', '1970-01-01T00:16:40.000000Z'),
                         (found['state'], found['since']))
        self.assertEqual('no heartbeat for 0.9 s', found['why'][0]['words'])
        self.assertEqual([base.ID], [one['id'] for one in found['recoveries']])

    @ddt.data(('GET', '/v1/hosts', None), ('GET', _OWN, None),
              ('POST', f'{_OWN}/action', {'suspect': {'reason': 'x'}}),
              ('POST', f'{_OWN}/action', {'clear': {'reason': 'x'}}),
              ('POST', f'{_OWN}/action', {'maintenance': {'reason': 'x'}}),
              ('POST', f'{_OWN}/action', {'no_maintenance': None}))
    @ddt.unpack
    def test_not_for_projects(self, method: str, path: str, body: Any) -> None:
        self.assertIn('host:', self.refused(method, path, 403, body, who=base.READER))
        self.assertIsNone(self.store.host('node1').word)

    def test_unknown(self) -> None:
        for method, path, body in (('GET', '/v1/hosts/node9', None), (
                'POST', '/v1/hosts/node9/action', {'suspect': {'reason': 'x'}})):
            self.assertIn('no engine has heard of a host node9',
                          self.refused(method, path, 404, body))

    def test_suspect_and_clear(self) -> None:
        found = self.act({'suspect': {'reason': 'it smokes'}}, who=base.SERVICE)
        self.assertEqual(('suspect', 'it smokes'), (found['word'], found['word_reason']))
        self.assertEqual('suspect', self.store.host('node1').word)
        found = self.act({'clear': {'reason': 'only steam'}})
        self.assertEqual(('clear', 'only steam'), (found['word'], found['word_reason']))
        self.assertEqual('clear', self.store.host('node1').word)

    def test_maintenance(self) -> None:
        found = self.act({'maintenance': {'reason': 'a new disk'}})
        self.assertEqual((True, 'a new disk', None),
                         (found['maintenance'], found['maintenance_reason'], found['word']))
        self.assertEqual('a new disk', self.store.host('node1').maintenance)
        self.assertFalse(self.act({'no_maintenance': None})['maintenance'])
        self.assertIsNone(self.store.host('node1').maintenance)

    def test_a_fenced_host_is_not_cleared(self) -> None:
        self.state(model.FENCED)
        words = self.refused('POST', f'{_OWN}/action', 409, {'clear': {'reason': 'x'}})
        self.assertIn('is fenced', words)
        self.assertIsNone(self.store.host('node1').word)

    def test_an_engine_was_faster(self) -> None:
        change = self.store.change_host
        answers = iter((None, None))
        with mock.patch.object(self.store, 'change_host', side_effect=lambda host, **values: next(
                answers, host) and change(host, **values)):
            self.act({'suspect': {'reason': 'x'}})
        with mock.patch.object(self.store, 'change_host', return_value=None):
            self.refused('POST', f'{_OWN}/action', 409, {'suspect': {'reason': 'x'}})

    @ddt.data(None, {}, [], 'suspect', {'suspect': None}, {'suspect': {}},
              {'suspect': {'reason': ''}}, {'suspect': {'reason': 'x' * 256}},
              {'suspect': {'reason': 'x', 'colour': 'red'}}, {'strange': {'reason': 'x'}},
              {'clear': {'reason': 7}},
              {'suspect': {'reason': 'x'}, 'clear': {'reason': 'x'}},
              b'{', b'\xff', b'[' * 60000, b' ' * 65537)
    def test_malformed(self, body: Any) -> None:
        status = 413 if isinstance(body, bytes) and len(body) > 65536 else 400
        self.assertIn('body', self.refused('POST', f'{_OWN}/action', status, body))
        self.assertIsNone(self.store.host('node1').word)
