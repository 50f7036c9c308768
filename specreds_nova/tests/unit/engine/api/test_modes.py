# SPDX-License-Identifier: Apache-2.0
"""Modes of hosts in the API."""

import time
from typing import Any
from unittest import mock

import ddt
import fixtures

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.tests.unit.engine.api import base

_PAUSE = {'scope': 'cloud', 'mode': 'pause', 'reason': 'a new switch'}


@ddt.ddt
class ModesTest(base.APITest):

    def setUp(self) -> None:
        super().setUp()
        self.store.see('node1')
        self.useFixture(fixtures.MockPatchObject(time, 'time', return_value=1000.0))

    def put(self, **body: Any) -> Any:
        """Set a mode, and return it."""
        return self.request('PUT', '/v1/modes', {**_PAUSE, **body})['mode']

    def listed(self) -> list[tuple[str, str, str]]:
        """Return scope, name and mode of each mode."""
        return [(mode['scope'], mode['name'], mode['mode'])
                for mode in self.request('GET', '/v1/modes', caller=base.OPERATOR)['modes']]

    def test_new_installation_has_no_mode(self) -> None:
        self.assertEqual([], self.listed())

    def test_mode_is_stored_with_who_when_and_why(self) -> None:
        shown = self.put()
        self.assertEqual(('u1', 'a new switch', '1970-01-01T00:16:40.000000Z', None),
                         (shown['user_id'], shown['reason'], shown['since'], shown['until']))
        self.assertEqual([model.Mode('cloud', '', 'pause', 'a new switch', 'u1', 1000.0)],
                         self.store.modes())

    def test_mode_that_has_ended_is_not_listed(self) -> None:
        self.put(mode='act')
        self.assertEqual('1970-01-01T00:17:40.000000Z', self.put(seconds=60)['until'])
        self.assertEqual([('cloud', '', 'pause'), ('cloud', '', 'act')], self.listed())
        with mock.patch.object(time, 'time', return_value=1060.0):
            self.assertEqual([('cloud', '', 'act')], self.listed())

    def test_mode_is_removed(self) -> None:
        self.put(scope='host', name='node1')
        answer = self.request('DELETE', '/v1/modes?scope=host&name=node1')
        self.assertEqual({'modes': []}, answer)
        self.assertIn('host node1', self.refused(
            'DELETE', '/v1/modes?scope=host&name=node1', 404))

    def test_mode_of_an_unknown_host_is_refused(self) -> None:
        self.assertIn('node9', self.refused(
            'PUT', '/v1/modes', 404, {**_PAUSE, 'scope': 'host', 'name': 'node9'}))

    @ddt.data(('aggregate', 'sdd', 'aggregate list'), ('zone', 'ssd', 'availability zone list'),
              ('zone', 'Z1', 'availability zone list'))
    @ddt.unpack
    def test_mode_of_an_unknown_aggregate_or_zone_is_refused(self, scope: str, name: str,
                                                              command: str) -> None:
        self.assertIn(command, self.refused(
            'PUT', '/v1/modes', 404, {**_PAUSE, 'scope': scope, 'name': name}))
        self.assertEqual([], self.store.modes())
        self.put(scope='zone', name='z1')
        self.put(scope='aggregate', name='ssd')

    def test_mode_is_set_while_nova_does_not_answer(self) -> None:
        self.places = mock.Mock(side_effect=exception.Unreachable('Nova is away'))
        self.put(scope='aggregate', name='ssd')
        self.assertEqual([('aggregate', 'ssd', 'pause')], self.listed())

    @ddt.data(('GET', None), ('PUT', _PAUSE), ('DELETE', None))
    @ddt.unpack
    def test_projects_have_no_access(self, method: str, body: Any) -> None:
        query = '?scope=cloud' if method == 'DELETE' else ''
        self.assertIn('mode:', self.refused(method, f'/v1/modes{query}', 403, body,
                                            caller=base.READER))
        self.assertEqual([], self.store.modes())

    @ddt.data({'mode': 'off'}, {'scope': 'rack'}, {'reason': ''}, {'scope': 'host'},
              {'name': 'node1'}, {'seconds': 0}, {'seconds': 1.5}, {'colour': 'red'})
    def test_malformed_body_is_refused(self, wrong: Any) -> None:
        self.assertIn('body', self.refused('PUT', '/v1/modes', 400, {**_PAUSE, **wrong}))
        self.assertEqual([], self.store.modes())
