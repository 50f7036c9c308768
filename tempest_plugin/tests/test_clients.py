# SPDX-License-Identifier: Apache-2.0
"""What the clients send, and what they make of the answers, over real HTTP."""

from http import server
import json
import threading
from typing import Any
from urllib import parse
import uuid

import ddt
from tempest.lib import exceptions
import testtools

from specreds_nova.engine.api import routes
from specreds_nova.engine.api import schemas
from tempest_plugin import services
from tempest_plugin.common import microversions
from testing import cinder_rules

_ID, _SECOND = (str(uuid.uuid4()) for _ in range(2))
_FENCE = {'volume_ids': [_ID], 'host': 'h', 'step': 'observe', 'fence_id': _SECOND}
_BOOT = {'addresses': ['192.0.2.1'], 'age_seconds': 7}


class _Service(server.BaseHTTPRequestHandler):
    """Records each request, and returns the prepared answer."""

    requests: list[tuple[str, str, str | None, Any]]
    answer: tuple[int, Any]
    version = ''

    def do_GET(self) -> None:
        length = int(self.headers.get('Content-Length') or 0)
        body = json.loads(self.rfile.read(length)) if length else None
        self.requests.append((self.command, self.path,
                              self.headers['OpenStack-API-Version'], body))
        status, said = self.answer
        text = b'' if said is None else json.dumps(said).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(text)))
        if self.version:
            self.send_header('OpenStack-API-Version', self.version)
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_DELETE = do_GET  # noqa: N815

    def log_message(self, *_words: Any) -> None:
        """Be silent."""


class _Auth:
    """What a client needs of Keystone.

    :param url: of the service
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def base_url(self, **_filters: Any) -> str:
        return self._url

    def auth_request(self, _method: str, url: str, headers: Any, body: Any,
                     _filters: Any) -> tuple[str, Any, Any]:
        return f'{self._url}/{url}', headers, body

    def get_auth(self) -> tuple[str, None]:
        return 'token', None

    @property
    def credentials(self) -> '_Auth':
        return self


@ddt.ddt
class ClientsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.handler: type[_Service] = type('Handler', (_Service,), {'requests': []})
        self.handler.answer = (200, {})
        http = server.ThreadingHTTPServer(('127.0.0.1', 0), self.handler)
        self.addCleanup(http.server_close)
        self.addCleanup(http.shutdown)
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        self.auth = _Auth(f'http://127.0.0.1:{http.server_port}')

    def client(self, kind: Any) -> Any:
        return kind(self.auth, 'service', 'region')

    @ddt.data(
        ('create_superposition', 201, 'POST', '', {'superposition': {'volume_ids': [_ID]}},
         (), {'volume_ids': [_ID]}),
        ('list_superpositions', 200, 'GET', '?state=superposed', None, (),
         {'state': 'superposed'}),
        ('list_superpositions', 200, 'GET', '/detail?all_tenants=1', None, (),
         {'detail': True, 'all_tenants': 1}),
        ('show_superposition', 200, 'GET', f'/{_ID}', None, (_ID,), {}),
        ('show_eligibility', 200, 'GET', f'/eligibility?volume_id={_ID}&volume_id={_SECOND}',
         None, (_ID, _SECOND), {}),
        ('show_disk_eligibility', 200, 'GET',
         f'/eligibility?disk={_ID}_disk&disk={_SECOND}_disk', None,
         (f'{_ID}_disk', f'{_SECOND}_disk'), {}),
        ('check_superposition', 200, 'POST', f'/{_ID}/check', None, (_ID,), {}),
        ('collapse_superposition', 202, 'POST', f'/{_ID}/collapse',
         {'collapse': {'decision': 'promote', 'backup_durable': True}}, (_ID, 'promote'),
         {'backup_durable': True}),
        ('merge_superposition', 202, 'POST', f'/{_ID}/merge', {'merge': {'step': 'offline'}},
         (_ID, 'offline'), {}),
        ('show_connection', 200, 'POST', f'/{_ID}/connection', {'connector': {'host': 'h'}},
         (_ID, {'host': 'h'}), {}),
        ('fence_host', 200, 'POST', '/fence', {'fence': _FENCE}, (), _FENCE),
        ('release_hosts', 200, 'POST', '/release', {'release': {'boots': [_BOOT]}}, ([_BOOT],),
         {}),
        ('delete_superposition', 204, 'DELETE', f'/{_ID}', None, (_ID,), {}))
    @ddt.unpack
    def test_client_of_superpositions_sends_requests(self, method: str, status: int, verb: str,
                                                     path: str, body: Any, words: tuple[Any, ...],
                                                     more: dict[str, Any]) -> None:
        self.handler.answer = (status, None if status == 204 else {'told': 1})
        answer = getattr(self.client(services.SuperpositionsClient), method)(*words, **more)
        self.assertEqual([(verb, f'/os-superpositions{path}', None, body)],
                         self.handler.requests)
        self.assertIsNone(cinder_rules.refusal(verb, f'/os-superpositions{path}', body))
        self.assertEqual({} if status == 204 else {'told': 1}, dict(answer))
        self.assertEqual(status, answer.response.status)

    @ddt.data(
        (services.RecoveriesClient, 'list_versions', 200, 'GET', '/', None, (), {}),
        (services.RecoveriesClient, 'list_recoveries', 200, 'GET',
         f'/v1/recoveries?server_id={_ID}',
         None, (), {'server_id': _ID}),
        (services.RecoveriesClient, 'show_recovery', 200, 'GET', f'/v1/recoveries/{_ID}', None,
         (_ID,), {}),
        (services.RecoveriesClient, 'abort_recovery', 202, 'POST',
         f'/v1/recoveries/{_ID}/action', {'abort': None}, (_ID,), {}),
        (services.HostsClient, 'list_hosts', 200, 'GET', '/v1/hosts', None, (), {}),
        (services.HostsClient, 'show_host', 200, 'GET', '/v1/hosts/n7', None, ('n7',), {}),
        (services.HostsClient, 'suspect_host', 202, 'POST', '/v1/hosts/n7/action',
         {'suspect': {'reason': 'r'}}, ('n7', 'r'), {}),
        (services.HostsClient, 'clear_host', 202, 'POST', '/v1/hosts/n7/action',
         {'clear': {'reason': 'r'}}, ('n7', 'r'), {}),
        (services.ProtectionClient, 'show_protection', 200, 'GET',
         f'/v1/servers/{_ID}/protection', None, (_ID,), {}))
    @ddt.unpack
    def test_clients_of_the_engine_send_requests(self, kind: Any, method: str, status: int,
                                                 verb: str, path: str, body: Any,
                                                 words: tuple[Any, ...],
                                                 more: dict[str, Any]) -> None:
        self.handler.answer = (status, {'told': 1})
        self.assertEqual({'told': 1}, dict(getattr(self.client(kind), method)(*words, **more)))
        self.assertEqual([(verb, path, None, body)], self.handler.requests)
        # The engine's API accepts it, too.
        url = parse.urlsplit(path)
        route, _parts = routes.find(verb, url.path)
        schemas.validate(route.query, dict(parse.parse_qsl(url.query)), 'query')
        if route.body is not None:
            schemas.validate(route.body, body, 'body')

    @ddt.data((400, exceptions.BadRequest), (403, exceptions.Forbidden),
              (404, exceptions.NotFound), (406, exceptions.NotAcceptable),
              (409, exceptions.Conflict))
    @ddt.unpack
    def test_refusal_is_raised(self, status: int, error: type[Exception]) -> None:
        self.handler.answer = (status, {'error': {'message': 'because'}})
        raised = self.assertRaises(error, self.client(services.HostsClient).list_hosts)
        self.assertIn('because', str(raised))

    def test_unexpected_success_is_an_error(self) -> None:
        self.handler.answer = (202, {})
        self.assertRaises(exceptions.InvalidHttpSuccessCode,
                          self.client(services.HostsClient).list_hosts)

    def test_version_is_sent_and_expected(self) -> None:
        hosts, superpositions = (self.client(kind) for kind in (services.HostsClient,
                                                                services.SuperpositionsClient))
        self.useFixture(microversions.MicroversionFixture(speculative='1.7'))
        with microversions.MicroversionFixture(speculative='1.8', superposition='1.9'):
            self.handler.version = 'speculative 1.8'
            hosts.list_hosts()
            self.assertRaises(exceptions.InvalidHTTPResponseHeader,
                              superpositions.list_superpositions)
        self.assertRaises(exceptions.InvalidHTTPResponseHeader, hosts.list_hosts)
        superpositions.list_superpositions()
        self.assertEqual(['speculative 1.8', 'superposition 1.9', 'speculative 1.7', None],
                         [version for _verb, _path, version, _body in self.handler.requests])

    def test_answer_to_the_latest_version_may_have_any(self) -> None:
        self.useFixture(microversions.MicroversionFixture(speculative='latest'))
        self.client(services.HostsClient).list_hosts()
        self.assertEqual('speculative latest', self.handler.requests[0][2])
