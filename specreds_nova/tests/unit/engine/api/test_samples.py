# SPDX-License-Identifier: Apache-2.0
"""The samples of the API reference are real requests and answers."""

import json
import pathlib
import re
import time
from typing import Any

import ddt
import fixtures
import testtools

import specreds_nova
from specreds_nova.engine import model
from specreds_nova.engine import policies
from specreds_nova.engine.api import routes
from specreds_nova.tests.unit.engine.api import base
from specreds_nova.tests.unit.preflight import cloud as clouds

_PLACE = pathlib.Path(specreds_nova.__file__).parents[1] / 'doc' / 'source' / 'engine-api'
_SAMPLES = _PLACE / 'samples'
_REFERENCE = _PLACE / 'index.rst'

_NOW = 1767323045.0
_OTHER = '6e1d8d2a-9b4f-4c53-8a4f-1e6c2d3f4e02'
_SUPERPOSITION = 'b6a1d7f0-5c56-4a52-8f50-3a2f6c1f7d10'
_PROJECT = '5f3f3e5ac81a44f4a1d1b6a6f7dc2c55'
_READER = {**base.READER, 'X-Project-Id': _PROJECT}
_RECOVERY = f'/v1/recoveries/{base.ID}'
_HOST = '/v1/hosts/node1'
# Name, duration and details of each step.
_STEPS: tuple[tuple[str, float, dict[str, Any]], ...] = (
    ('destination', 0.094, {'host': 'node2'}), ('super', 0.131, {}),
    ('start', 0.412, {}), ('race', 1.734, {'winner': 'backup'}))

# The caller, the request and the status of each sample.
_CALLS: dict[str, tuple[dict[str, str], str, str, int]] = {
    'versions': ({}, 'GET', '/', 200),
    'recoveries-list': (base.ADMIN, 'GET', '/v1/recoveries?limit=1', 200),
    'recovery-show': (base.ADMIN, 'GET', _RECOVERY, 200),
    'recovery-show-project': (_READER, 'GET', _RECOVERY, 200),
    'recovery-abort': (base.ADMIN, 'POST', f'{_RECOVERY}/action', 202),
    'recovery-conflict': (base.ADMIN, 'POST', f'/v1/recoveries/{_OTHER}/action', 409),
    'hosts-list': (base.ADMIN, 'GET', '/v1/hosts', 200),
    'host-show': (base.ADMIN, 'GET', _HOST, 200),
    'host-suspect': (base.ADMIN, 'POST', '/v1/hosts/node2/action', 202),
    'host-clear': (base.ADMIN, 'POST', '/v1/hosts/node3/action', 202),
    'mode-set': (base.ADMIN, 'PUT', '/v1/modes', 200),
    'modes-list': (base.ADMIN, 'GET', '/v1/modes', 200),
    'server-drill': (base.ADMIN, 'POST', f'/v1/servers/{base.SERVER}/action', 409),
    'coverage': (base.ADMIN, 'GET', '/v1/coverage', 200),
    'simulation': (base.ADMIN, 'GET', '/v1/simulation?host=node1', 200),
    'server-protection': (base.ADMIN, 'GET', f'/v1/servers/{base.SERVER}/protection', 200),
}
# Samples that answer the request of another sample.
_SAME = {'recovery-conflict': 'recovery-abort'}


def _load(name: str) -> Any:
    path = _SAMPLES / f'{name}.json'
    return json.loads(path.read_text()) if path.exists() else None


@ddt.ddt
class SamplesTest(base.APITest):

    def setUp(self) -> None:
        super().setUp()
        self.clock.time = _NOW
        why = ({'kind': 'silence', 'words': 'no heartbeat for 0.87 s', 'at': _NOW},)
        for name in ('node1', 'node2', 'node3'):
            self.store.see(name)
            self.store.report(name, 'sentinel', model.LIVE)
            self.store.report(name, 'voices', model.BOTH)
        self.store.say('node3', model.SUSPECT, 'it smokes')
        self.store.change_host(self.store.host('node1'), state=model.SUSPECTED, why=why)
        self.store.silence({'node1': _NOW})
        self.useFixture(fixtures.MockPatchObject(time, 'time', return_value=_NOW))
        self.store.set_mode(model.Mode(
            model.CLOUD, '', model.ACT, 'observed for a month', 'u1', _NOW - 86400.0))
        self.cloud_now = clouds.Cloud(node1='ab', node2='', node3='')
        self.cloud_now.free['node3'] = 1
        self.store.learn('a', 4.5)
        self.clock.time += 0.02
        committed = self.created(id=_OTHER, server=base.VOLUME, server_name='vm2', why=why,
                                 project=_PROJECT, suspected=_NOW)
        self.store.change(committed, state=model.COMMITTED)
        self.clock.time += 0.01
        racing = self.created(id=base.ID, server=base.SERVER, why=why, priority=10, expected=1.8,
                              project=_PROJECT, suspected=_NOW)
        racing = self.store.change(racing, state=model.RACING, destination='node2',
                                   superposition=_SUPERPOSITION)
        for name, took, detail in _STEPS[:3]:
            attempt = self.begin_step(racing, name)
            self.clock.time += took
            self.end_step(racing, name, attempt, detail)
        self.begin_step(racing, 'race')

    @ddt.data(*_CALLS)
    def test_sample_is_what_the_api_answers(self, name: str) -> None:
        who, method, path, status = _CALLS[name]
        answer = self.request(method, path, _load(f'{_SAME.get(name, name)}-request'), caller=who,
                          status=status)
        self.assertEqual(_load(f'{name}-response'), answer)


class ReferenceTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.page = _REFERENCE.read_text()

    def test_every_sample_is_shown_and_tested(self) -> None:
        files = {path.name for path in _SAMPLES.iterdir()}
        self.assertEqual(files, set(re.findall(r'literalinclude:: samples/(\S+)', self.page)))
        self.assertEqual({file.removesuffix('.json').rpartition('-')[0] for file in files},
                         set(_CALLS))

    def test_every_route_is_documented_and_no_other_one(self) -> None:
        # The middleware of the application answers one more.
        self.assertEqual({f'{route.method} {route.path}' for route in routes.ROUTES} | {
            'GET /healthcheck'}, set(re.findall(r'``([A-Z]+ /[^`]*)``', self.page)))

    def test_every_rule_is_documented(self) -> None:
        named = {rule.name for rule in policies.list_rules() if ':' in rule.name}
        self.assertEqual(named, set(re.findall(r'^``([\w:]+:[\w:]+)``', self.page,
                                               re.MULTILINE)))

    def test_every_state_and_outcome_is_documented(self) -> None:
        for word in (*model.OUTCOMES, *model.HOST_STATES, model.QUEUED,
                     model.RACING, model.COMMITTED, model.MERGING, model.ENDED):
            self.assertIn(f'``{word}``', self.page)
