# SPDX-License-Identifier: Apache-2.0
"""A cloud without a network: the engine's API, with a fake Keystone and a fake Nova.

The API is the real one, over a store in memory. The commands are found by their entry points.
"""

import contextlib
import io
import json
import types
from typing import Any
from urllib import parse

from cliff import app
from cliff import commandmanager
from keystoneauth1 import fixture
from keystoneauth1 import session
from keystoneauth1.identity import v3
from openstack import connection
import requests
from requests import adapters
import webob

from specreds_nova.osc import plugin
from specreds_nova.tests.unit.engine.api import base

KEYSTONE = 'http://keystone.test/v3'
NOVA = 'http://nova.test/v2.1'
API = 'http://speculative.test'
ROLES = {'X-User-Id': 'u1', 'X-Project-Id': 'admins', 'X-Roles': 'admin,reader'}

_Answer = tuple[int, dict[str, str], bytes]


class Cloud(adapters.BaseAdapter):
    """A transport that answers requests.

    :ivar requests: method and path of each request to the engine's API
    :ivar roles: identity headers of the caller
    :ivar servers: names of Nova's servers by id
    :ivar broken: an answer or error that replaces those of the engine's API
    """

    def __init__(self, api: Any) -> None:
        super().__init__()
        self._api = api
        self.requests: list[tuple[str, str]] = []
        self.roles = ROLES
        self.servers: dict[str, str] = {}
        self.broken: tuple[int, bytes] | Exception | None = None
        self.catalogue = {'speculative-recovery': API, 'compute': NOVA}

    def client_manager(self) -> types.SimpleNamespace:
        """Return the client manager that OpenStackClient passes to its commands."""
        http = requests.Session()
        http.mount('http://', self)
        auth = v3.Password(KEYSTONE, username='u', password='p', user_domain_id='default',
                           project_name='p', project_domain_id='default')
        logged_in = session.Session(auth=auth, session=http)
        manager = types.SimpleNamespace(
            session=logged_in, interface='public', region_name=None,
            sdk_connection=connection.Connection(session=logged_in))
        manager.speculative = plugin.make_client(manager)
        return manager

    def send(self, request: requests.PreparedRequest, *_args: Any,
             **_kwargs: Any) -> requests.Response:
        """Return the answer of the service to which a request is addressed."""
        url = parse.urlsplit(str(request.url))
        answers = {'keystone.test': self._keystone, 'nova.test': self._nova}
        status, headers, body = answers.get(str(url.netloc), self._engine)(request)
        response = requests.Response()
        response.status_code, response.request, response.url = status, request, str(request.url)
        response.headers.update(headers)
        response.raw = io.BytesIO(body)
        return response

    def close(self) -> None:
        """Do nothing: no connection is open."""

    def _keystone(self, request: requests.PreparedRequest) -> _Answer:
        if request.method != 'POST':
            versions = fixture.DiscoveryList(KEYSTONE.removesuffix('/v3'), v2=False)
            return _json(300, versions)
        token = fixture.V3Token(user_id='u1', project_id='admins')
        for service_type, url in self.catalogue.items():
            token.add_service(service_type).add_standard_endpoints(public=url)
        status, headers, body = _json(201, token)
        return status, {**headers, 'X-Subject-Token': 'token'}, body

    def _nova(self, request: requests.PreparedRequest) -> _Answer:
        name = str(parse.urlsplit(str(request.url)).path).rpartition('/')[2]
        if name == 'detail':
            return _json(200, {'servers': [
                {'id': server, 'name': name} for server, name in self.servers.items()]})
        if name in self.servers.values():
            return _json(404, {'itemNotFound': {'code': 404, 'message': 'no such server'}})
        if 'servers' in str(request.url):
            return _json(404, {'itemNotFound': {'code': 404, 'message': 'no such server'}})
        return _json(200, {'version': {
            'id': 'v2.1', 'status': 'CURRENT', 'version': '2.96', 'min_version': '2.1',
            'links': [{'rel': 'self', 'href': NOVA}]}})

    def _engine(self, request: requests.PreparedRequest) -> _Answer:
        url = parse.urlsplit(str(request.url))
        self.requests.append((str(request.method), str(url.path)))
        if isinstance(self.broken, Exception):
            raise self.broken
        if self.broken is not None:
            return (self.broken[0], {'Content-Type': 'application/json',
                                     'x-openstack-request-id': 'req-7'}, self.broken[1])
        headers = {key: value for key, value in request.headers.items()
                   if isinstance(value, str)}
        payload: Any = request.body or b''
        if not isinstance(payload, bytes):
            payload = payload.encode()
        response = webob.Request.blank(
            str(request.url), method=str(request.method), headers={**headers, **self.roles},
            body=payload).get_response(self._api)
        return response.status_int, dict(response.headers), response.body


class CommandTest(base.APITest):
    """A test that runs commands as ``openstack`` does."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = Cloud(self.app)
        self.stdout, self.stderr = io.StringIO(), io.StringIO()

    def run_command(self, *words: str, status: int = 0) -> str:
        """Run ``openstack speculative WORDS``, and return its output."""
        manager = commandmanager.CommandManager('openstack.speculative.v1')
        self.stdout = io.StringIO()
        shell = app.App('test', '0', manager, stdout=self.stdout, stderr=self.stderr,
                        deferred_help=True)
        vars(shell)['client_manager'] = self.cloud.client_manager()
        with contextlib.redirect_stderr(self.stderr):
            self.assertEqual(status, shell.run(['speculative', *words]), self.stderr.getvalue())
        return self.stdout.getvalue()

    def run_json(self, *words: str, status: int = 0) -> Any:
        """Run a command with ``-f json``, and return its parsed output."""
        return json.loads(self.run_command(*words, '-f', 'json', status=status))

    def fails(self, *words: str) -> str:
        """Run a command that must fail, and return its error output."""
        self.stderr = io.StringIO()
        self.run_command(*words, status=1)
        return self.stderr.getvalue()


def _json(status: int, body: Any) -> _Answer:
    return status, {'Content-Type': 'application/json'}, json.dumps(body).encode()
