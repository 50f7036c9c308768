# SPDX-License-Identifier: Apache-2.0
"""A cloud whose answers over HTTP a test chooses, and the client's commands on it."""

from collections.abc import Callable
import contextlib
import dataclasses
import io
import json
import types
from typing import Any, TextIO
from unittest import mock
from urllib import parse

from cliff import app
from cliff import commandmanager
from keystoneauth1 import exceptions
from keystoneauth1 import plugin
from keystoneauth1 import session
from openstack import connection
import requests
from requests import adapters
import testtools

PROJECT = '5f3f3e5ac81a44f4a1d1b6a6f7dc2c55'
CINDER = f'http://cinder.test/v3/{PROJECT}'
NOVA = 'http://nova.test/v2.1'
ID = 'b6a1d7f0-5c56-4a52-8f50-3a2f6c1f7d10'
VOLUME = '0f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d01'
SECOND = '1f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d02'
SERVER = '9c1e6c6a-5a0f-4f0b-9a2e-0d5b1c2f3e04'
SUPERPOSITION: dict[str, Any] = {
    'id': ID, 'state': 'superposed', 'outcome': None, 'volume_ids': [VOLUME],
    'volumes': [{'id': VOLUME, 'size_bytes': 2**30, 'overlay_bytes': 2_621_440}],
    'overlay_bytes': 2_621_440, 'dirty': None, 'dirty_object': None, 'server_id': SERVER,
    'project_id': PROJECT, 'user_id': 'u1', 'request_id': 'req-1', 'reason': 'host gone',
    'created_at': '2026-01-02T03:04:05Z', 'updated_at': '2026-01-02T03:04:06Z',
    'age_seconds': 61.5,
}


@dataclasses.dataclass
class Request:
    """One request that the cloud got."""

    method: str
    path: str
    query: dict[str, list[str]]
    body: Any
    headers: dict[str, str]


class _Auth(plugin.BaseAuthPlugin):
    """Knows the endpoints of the cloud."""

    def __init__(self) -> None:
        super().__init__()
        self.endpoints = {'block-storage': CINDER, 'compute': NOVA}

    def get_token(self, *_args: Any, **_kwargs: Any) -> str:
        return 'token'

    def get_project_id(self, *_args: Any, **_kwargs: Any) -> str:
        return PROJECT

    def get_endpoint(self, *_args: Any, **kwargs: Any) -> str | None:
        try:
            return self.endpoints[kwargs['service_type']]
        except KeyError as exc:
            raise exceptions.EndpointNotFound from exc

    def get_endpoint_data(self, session: Any, endpoint_override: str | None = None,
                          **kwargs: Any) -> Any:
        url = endpoint_override or self.get_endpoint(session, **kwargs)
        version = (2, 1) if url == NOVA else (3, 0)
        return url and types.SimpleNamespace(url=url, catalog_url=url, api_version=version,
                                             min_microversion=None, max_microversion=None)


class Cloud(adapters.BaseAdapter):
    """Answers requests, each with the answers given for it; the last answer stays.

    :param refusal: returns why Cinder refuses a request for superpositions, None if it does not.
        Cinder's own code says so, which is not imported beside Nova's.
    """

    def __init__(self, refusal: Callable[..., str | None] = lambda *_: None) -> None:
        super().__init__()
        self._refusal = refusal
        self.requests: list[Request] = []
        self._answers: dict[tuple[str, str], list[tuple[int, Any]]] = {}
        auth = _Auth()
        self.endpoints = auth.endpoints
        http = requests.Session()
        http.mount('http://', self)
        self.connection = connection.Connection(
            session=session.Session(auth=auth, session=http))

    def answer(self, method: str, path: str, *bodies: Any, status: int = 200) -> None:
        """Add answers; an exception as a body is raised."""
        self._answers.setdefault((method, path), []).extend((status, body) for body in bodies)

    def fault(self, method: str, path: str, status: int, message: str,
              kind: str = 'fault') -> None:
        """Add an error of the API as an answer."""
        self.answer(method, path, {kind: {'code': status, 'message': message}}, status=status)

    def to(self, path: str) -> list[Request]:
        """Return the requests for a path."""
        return [request for request in self.requests if request.path == path]

    def send(self, request: requests.PreparedRequest, *_args: Any,
             **_kwargs: Any) -> requests.Response:
        """Return the answer to a request."""
        url = parse.urlsplit(request.url or '')
        path = str(url.path).removeprefix(parse.urlsplit(CINDER).path)
        sent: Any = request.body
        body = json.loads(sent) if sent else None
        self.requests.append(Request(
            str(request.method), path, parse.parse_qs(str(url.query)), body,
            {key: str(value) for key, value in request.headers.items()}))
        if path.startswith('/os-superpositions') and (why := self._refusal(
                str(request.method), f'{path}?{url.query!s}', body, self.requests[-1].headers)):
            raise AssertionError(f'Cinder refuses {request.method} {request.url} {body}: {why}')
        answers = self._answers.get((str(request.method), path))
        status, answer = 404, '<html>404 Not Found</html>'
        if answers:
            status, answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        response = requests.Response()
        response.status_code, response.request, response.url = status, request, str(request.url)
        response.headers['x-openstack-request-id'] = 'req-7'
        response.headers['Content-Type'] = (
            'text/html' if isinstance(answer, str) else 'application/json')
        response.raw = io.BytesIO(
            answer.encode() if isinstance(answer, str) else
            b'' if answer is None else json.dumps(answer).encode())
        return response

    def close(self) -> None:
        """Nothing is open."""


def shell(cloud: Cloud, stdout: TextIO, stderr: TextIO) -> app.App:
    """Return a shell with the commands, found by their entry points, logged in to a cloud."""
    manager = commandmanager.CommandManager('openstack.volume.v3')
    # Without the client's other commands.
    manager.commands = {name: entry for name, entry in manager
                        if name.startswith('volume super')}
    made = app.App('test', '0', manager, stdout=stdout, stderr=stderr, deferred_help=True)
    vars(made)['client_manager'] = types.SimpleNamespace(sdk_connection=cloud.connection)
    return made


class CommandTest(testtools.TestCase):
    """Runs commands as ``openstack`` would, found by their entry points."""

    def setUp(self) -> None:
        super().setUp()
        # Here, and not above: tests that import Nova's code use the rest of this module.
        from testing import cinder_rules
        self.cloud = Cloud(cinder_rules.refusal)
        self.stdout, self.stderr = io.StringIO(), io.StringIO()
        # Loops that wait ask again at once.
        patched = mock.patch('time.sleep')
        patched.start()
        self.addCleanup(patched.stop)

    def volume(self, volume_id: str = VOLUME, name: str = 'data', project: str = PROJECT) -> None:
        """Add a volume, by name and by id."""
        volume = {'id': volume_id, 'name': name, 'os-vol-tenant-attr:tenant_id': project}
        self.cloud.answer('GET', f'/volumes/{volume_id}', {'volume': volume})
        self.cloud.fault('GET', f'/volumes/{name}', 404, 'no such volume', 'itemNotFound')
        self.cloud.answer('GET', '/volumes/detail', {'volumes': [volume]})

    def superposition(self, **changes: Any) -> None:
        """Add a superposition, by its id and in lists."""
        superposition = {**SUPERPOSITION, **changes}
        self.cloud.answer('GET', f'/os-superpositions/{ID}', {'superposition': superposition})
        for path in ('/os-superpositions', '/os-superpositions/detail'):
            self.cloud.answer('GET', path, {'superpositions': [superposition]})

    def gone(self) -> None:
        """Answer that the superposition has ended."""
        self.cloud.fault('GET', f'/os-superpositions/{ID}', 404, 'no such superposition',
                         'itemNotFound')

    def shell(self) -> app.App:
        """Return a shell with the commands, logged in to the cloud."""
        return shell(self.cloud, self.stdout, self.stderr)

    def run_super(self, *words: str, status: int = 0) -> str:
        """Run ``openstack volume super WORDS``, and return its output."""
        with contextlib.redirect_stderr(self.stderr):
            self.assertEqual(status, self.shell().run(['volume', 'super', *words]),
                             self.stderr.getvalue())
        return self.stdout.getvalue()

    def run_json(self, *words: str, status: int = 0) -> Any:
        """Run it with ``-f json``, and return its parsed output."""
        return json.loads(self.run_super(*words, '-f', 'json', status=status))
