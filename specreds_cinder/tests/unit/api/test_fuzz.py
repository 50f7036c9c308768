# SPDX-License-Identifier: Apache-2.0
"""No request, however malformed, is answered with a server error."""

import json
import string
from typing import Any
from urllib import parse

from cinder import exception
import hypothesis
from hypothesis import strategies

from specreds_cinder.api import schemas
from specreds_cinder.tests.unit.api import base

_SCALARS = (strategies.none() | strategies.booleans() | strategies.integers()
            | strategies.floats() | strategies.text(max_size=20)
            | strategies.sampled_from([base.VOLUME, base.VOLUME.upper(), base.SECOND, base.SERVER,
                                       base.UNKNOWN_ID, 'promote', 'abort', 'x' * 256, '\0']))
_NAMES = strategies.sampled_from([
    'superposition', 'volume_ids', 'server_id', 'reason', 'collapse', 'decision',
    'backup_durable', 'merge', 'step', 'connector']) | strategies.text(max_size=5)
_JSON = strategies.recursive(
    _SCALARS, lambda inner: strategies.lists(inner, max_size=4)
    | strategies.dictionaries(_NAMES, inner, max_size=4), max_leaves=12)


def _nearly(name: str, **fields: Any) -> Any:
    """Return bodies that are valid, or nearly."""
    inner = strategies.fixed_dictionaries({}, optional={
        **{key: values | _JSON for key, values in fields.items()}, 'more': _JSON})
    return strategies.fixed_dictionaries({name: inner}, optional={'more': _JSON}) | _JSON


_CREATE = _nearly(
    'superposition',
    volume_ids=strategies.lists(strategies.sampled_from([base.VOLUME, base.SECOND])
                                | _SCALARS, max_size=5),
    server_id=strategies.sampled_from([base.SERVER, None]), reason=strategies.text(max_size=300))
_COLLAPSE = _nearly('collapse', decision=strategies.sampled_from(['promote', 'abort']),
                    backup_durable=strategies.booleans())
_MERGE = _nearly('merge', step=strategies.sampled_from(['begin', 'end', 'offline']))
_CONNECTION = strategies.fixed_dictionaries({}, optional={'connector': _JSON, 'more': _JSON})
_SETTINGS = hypothesis.settings(max_examples=60, derandomize=True,
                                suppress_health_check=list(hypothesis.HealthCheck))


class TestFuzz(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.superposed()
        self.volume(base.SECOND)
        self.attach(base.SECOND)
        self.rpc.create.return_value = base.view(durations={})
        self.rpc.check.return_value = {'dirty': False, 'unproven': False, 'first': None,
                                       'objects': 1, 'seconds': 0.1}
        self.rpc.promote.return_value = {'outcome': 'promoted', 'durations': {}}
        self.rpc.connection.return_value = []

    def send(self, path: str, body: Any, schema: dict[str, Any], done: int) -> None:
        """Assert that a valid body is accepted and another one refused."""
        sent = json.dumps(body).encode()
        answer = self.ask('POST', f'{base.BASE}{path}', sent)
        try:
            schemas.validate(schema, json.loads(sent))
        except exception.ValidationError:
            self.assertEqual(400, answer.status, (sent, answer.body))
        else:
            # A volume may be unknown, or attached to another server.
            self.assertIn(answer.status, (done, 400, 404), (sent, answer.body))

    @_SETTINGS
    @hypothesis.given(body=_CREATE)
    def test_create_refuses_each_invalid_body(self, body: Any) -> None:
        self.send('', body, schemas.CREATE, 201)

    @_SETTINGS
    @hypothesis.given(body=_COLLAPSE)
    def test_collapse_refuses_each_invalid_body(self, body: Any) -> None:
        self.send(f'/{base.ID}/collapse', body, schemas.COLLAPSE, 200)

    @_SETTINGS
    @hypothesis.given(body=_MERGE)
    def test_merge_refuses_each_invalid_body(self, body: Any) -> None:
        self.send(f'/{base.ID}/merge', body, schemas.MERGE, 202)

    @_SETTINGS
    @hypothesis.given(body=_CONNECTION)
    def test_connection_refuses_each_invalid_body(self, body: Any) -> None:
        self.send(f'/{base.ID}/connection', body, schemas.CONNECTION, 200)

    @_SETTINGS
    @hypothesis.given(action=strategies.sampled_from(['', '/check', '/collapse']),
                      body=strategies.binary(max_size=30))
    def test_body_that_is_no_json_is_no_server_error(self, action: str, body: bytes) -> None:
        answer = self.ask('POST', f'{base.BASE}{f"/{base.ID}{action}" if action else ""}', body)
        self.assertIn(answer.status, (200, 400), answer.body)

    @_SETTINGS
    @hypothesis.given(
        path=strategies.sampled_from(['', '/detail', '/eligibility', f'/{base.ID}']),
        query=strategies.lists(strategies.tuples(
            strategies.sampled_from(['state', 'server_id', 'volume_id', 'all_tenants', 'limit',
                                     'marker']) | strategies.text(max_size=5),
            strategies.sampled_from([base.VOLUME, base.ID, '1', '0', 'superposed'])
            | strategies.text(max_size=10)), max_size=4))
    def test_random_query_is_no_server_error(self, path: str,
                                             query: list[tuple[str, str]]) -> None:
        self.rpc.eligibility.return_value = [{'volume_id': base.VOLUME}]
        answer = self.ask('GET', f'{base.BASE}{path}?{parse.urlencode(query)}')
        self.assertIn(answer.status, (200, 400, 404), answer.body)

    @_SETTINGS
    @hypothesis.given(version=strategies.text(string.printable[:95], max_size=10))
    def test_random_version_is_no_server_error(self, version: str) -> None:
        answer = self.ask('GET', base.BASE, version=f'superposition {version}')
        self.assertIn(answer.status, (200, 400, 406), answer.body)

    @_SETTINGS
    @hypothesis.given(name=strategies.text(min_size=1, max_size=40))
    def test_random_id_is_no_server_error(self, name: str) -> None:
        quoted = parse.quote(name, safe='', errors='replace')
        answer = self.ask('GET', f'{base.BASE}/{quoted}')
        self.assertIn(answer.status, (200, 400, 404), answer.body)
