# SPDX-License-Identifier: Apache-2.0
"""The client of a REST service."""

from collections.abc import Mapping
import datetime
import hashlib
from http import server as servers
import ipaddress
import json
import pathlib
import socket
import ssl
import threading
import types
from typing import Any
from unittest import mock

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
import ddt
import fixtures
import pycurl

from specreds_nova.engine import exception
from specreds_nova.engine.clients import rest
from specreds_nova.tests.unit.engine.clients import base

_EXPIRES = '2999-01-01T00:00:00.000000Z'
_DAY = datetime.timedelta(days=1)


@ddt.ddt
class ServiceTest(base.ServiceTest):
    """Each error is translated to its meaning for a recovery."""

    def setUp(self) -> None:
        super().setUp()
        self.service = rest.Service(self.session, 'Nova', 'compute', 'compute 2.94')

    @ddt.data((404, exception.NotFound), (400, exception.Refused), (403, exception.Refused),
              (409, exception.Refused), (401, exception.Unreachable),
              (408, exception.Unanswered), (429, exception.Unreachable),
              (500, exception.Unreachable), (503, exception.Unreachable),
              (504, exception.Unanswered))
    @ddt.unpack
    def test_status_is_translated(self, status: int, kind: type[Exception]) -> None:
        self.session.fail('GET', '/it', status, 'because')
        words = self.raised(kind, self.service.get, '/it')
        self.assertIn('Nova', words)
        self.assertIn('because', words)

    def test_error_of_a_proxy_is_translated(self) -> None:
        self.session.answer('GET', '/it', 'Bad Gateway', status=502)
        self.assertIn('502', self.raised(exception.Unreachable, self.service.get, '/it'))

    @ddt.data(exception.Unreachable, exception.Unanswered)
    def test_missing_answer_names_the_request(self, kind: type[Exception]) -> None:
        self.session.answer('POST', '/it', kind('timed out'))
        words = self.raised(kind, self.service.post, '/it', {})
        self.assertEqual('Nova does not answer POST /it: timed out', words)

    def test_answer_is_parsed(self) -> None:
        self.session.answer('GET', '/it', {'a': 1})
        self.assertEqual({'a': 1}, self.service.get('/it', limit=3))
        [request] = self.session.requests
        self.assertEqual(({'limit': '3'}, 'compute 2.94'),
                         (request['params'], request['version']))

    def test_empty_answer_is_an_empty_dict(self) -> None:
        self.session.answer('POST', '/it', None, status=202)
        self.assertEqual({}, self.service.post('/it'))

    def test_missing_credentials_name_the_option(self) -> None:
        self.assertIn('auth_type', self.raised(exception.Invalid, rest.Session, self.conf))


class Handler(servers.BaseHTTPRequestHandler):
    """Answers for Keystone and Nova."""

    protocol_version = 'HTTP/1.1'
    server: Any

    def do_GET(self) -> None:
        """Answer any request."""
        cloud = self.server.cloud
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0)).decode()
        cloud.seen.append((
            self.command, self.path, dict(self.headers), body, self.client_address))
        if self.path == '/v3/auth/tokens':
            cloud.tokens += 1
            self._send(201, {'token': self._token()}, {'X-Subject-Token': self._valid()})
        elif cloud.revoked or self.headers['X-Auth-Token'] != self._valid():
            self._send(401, {'error': {'message': 'the token is not valid'}}, {})
        elif self.path == '/compute/silent':
            cloud.released.wait()
        elif self.path.startswith('/compute/moved'):
            self._send(301, None, {'Location': cloud.moved})
        else:
            self._send(200, {'it': self.path}, {})

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def _valid(self) -> str:
        return f'token{self.server.cloud.tokens}'

    def _token(self) -> dict[str, Any]:
        named = {'id': 'u', 'name': 'u', 'domain': {'id': 'default', 'name': 'd'}}
        return {'methods': ['password'], 'expires_at': _EXPIRES, 'issued_at': _EXPIRES,
                'user': named, 'project': named, 'roles': [], 'catalog': [
                    {'type': 'compute', 'name': 'nova', 'endpoints': [
                        {'id': f'{interface}{region}', 'interface': interface, 'region': region,
                         'region_id': region, 'url': f'{self.server.cloud.url}/{path}/'}
                        for interface, region, path in (
                            ('public', 'one', 'public'), ('internal', 'one', 'compute'),
                            ('internal', 'two', 'two'))]}]}

    def _send(self, status: int, body: Any, headers: Mapping[str, str]) -> None:
        content = b'' if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, 'Content-Length': len(content)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Print nothing."""


class CloudTest(base.ServiceTest):
    """A Keystone and a Nova that answer over HTTP."""

    def setUp(self) -> None:
        super().setUp()
        for name in ('http_proxy', 'https_proxy', 'all_proxy', 'HTTPS_PROXY', 'ALL_PROXY',
                     'REQUESTS_CA_BUNDLE', 'CURL_CA_BUNDLE'):
            self.useFixture(fixtures.EnvironmentVariable(name))
        self.cloud = types.SimpleNamespace(tokens=0, revoked=False, seen=[],
                                           released=threading.Event(), moved='/compute/it')
        self.cloud.url = self.keystone = f'http://127.0.0.1:{self.listen()}'

    def listen(self, tls: ssl.SSLContext | None = None) -> int:
        """Serve until the end of the test, and return the port."""
        server: Any = servers.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        server.daemon_threads, server.cloud = True, self.cloud
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=[0.01], daemon=True)
        thread.start()
        for end in (thread.join, server.server_close, server.shutdown, self.cloud.released.set):
            self.addCleanup(end)
        return int(server.server_port)

    def serve(self, **options: str) -> rest.Service:
        """Return a client with options of ``[service_auth]``."""
        file = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'engine.conf'
        settings = {'auth_type': 'v3password', 'username': 'specreds', 'password': 'secret',
                    'auth_url': f'{self.keystone}/v3', 'user_domain_id': 'default',
                    'project_domain_id': 'default', 'project_name': 'service', **options}
        file.write_text('[service_auth]\n' + ''.join(
            f'{name} = {value}\n' for name, value in settings.items()))
        self.conf([], default_config_files=[str(file)])
        return rest.Service(rest.Session(self.conf), 'Nova', 'compute', 'compute 2.94')

    def requests(self) -> list[tuple[Any, ...]]:
        """Return the requests to Nova: method, path, headers, body and address of the client."""
        return [seen for seen in self.cloud.seen if seen[1] != '/v3/auth/tokens']


@ddt.ddt
class SessionTest(CloudTest):

    def test_request_has_token_version_and_body(self) -> None:
        nova = self.serve()
        self.assertEqual({'it': '/compute/it?a=b+c&d=1&d=2'}, nova.get('/it', a='b c', d=(1, 2)))
        nova.post('/it', {'key': 'value'})
        nova.ask('PUT', '/it', {'key': 'value'}, version='compute 2.67')
        nova.ask('DELETE', '/it')
        nova.post('/it')
        nova.get('/it')
        self.assertEqual(
            [('GET', ''), ('POST', '{"key": "value"}'), ('PUT', '{"key": "value"}'),
             ('DELETE', ''), ('POST', ''), ('GET', '')],
            [(method, body) for method, _, _, body, _ in self.requests()])
        headers = [seen[2] for seen in self.requests()]
        self.assertEqual({'token1'}, {its['X-Auth-Token'] for its in headers})
        self.assertEqual(['compute 2.94', 'compute 2.67'],
                         [its['OpenStack-API-Version'] for its in headers[1:3]])
        self.assertEqual(
            [None, 'application/json', 'application/json', None, None, None],
            [its.get('Content-Type') for its in headers])

    def test_connection_is_kept(self) -> None:
        nova = self.serve()
        for _ in range(3):
            nova.post('/it', {})
        self.assertEqual(1, len({seen[4] for seen in self.requests()}))

    def test_invalid_token_is_renewed_once(self) -> None:
        nova = self.serve()
        nova.get('/it')
        self.cloud.tokens += 1
        nova.post('/it', {'key': 'value'})
        self.assertEqual(3, self.cloud.tokens)
        self.assertEqual('{"key": "value"}', self.requests()[-1][3])

    def test_token_that_is_never_valid_is_unreachable(self) -> None:
        nova = self.serve()
        self.cloud.revoked = True
        self.assertIn('401', self.raised(exception.Unreachable, nova.get, '/it'))
        self.assertEqual(2, self.cloud.tokens)

    @ddt.data(({'valid_interfaces': 'public'}, '/public/it'),
              ({'region_name': 'two'}, '/two/it'), ({'region_name': 'one'}, '/compute/it'))
    @ddt.unpack
    def test_endpoint_is_that_of_the_options(self, options: dict[str, str], path: str) -> None:
        self.assertEqual({'it': path}, self.serve(**options).get('/it'))

    def test_missing_endpoint_is_unreachable(self) -> None:
        nova = self.serve(region_name='three')
        self.assertIn('compute', self.raised(exception.Unreachable, nova.get, '/it'))

    def test_silent_service_has_not_answered(self) -> None:
        nova = self.serve(timeout='1')
        self.raised(exception.Unanswered, nova.post, '/silent', {})
        self.raised(exception.Unanswered, lambda: nova.post('/silent', timeout=0.1))
        self.assertEqual({'it': '/compute/it'}, nova.get('/it'))

    def test_service_without_a_listener_is_unreachable(self) -> None:
        with socket.socket() as closed:
            closed.bind(('127.0.0.1', 0))
            nova = self.serve()
            self.cloud.url = f'http://127.0.0.1:{closed.getsockname()[1]}'
            words = self.raised(exception.Unreachable, nova.get, '/it')
        self.assertNotIn('has not', words)

    def test_keystone_without_an_answer_leaves_nothing_uncertain(self) -> None:
        nova = self.serve(auth_url='http://127.0.0.1:1/v3')
        words = self.raised(exception.Unreachable, nova.post, '/it', {})
        self.assertIn('Keystone', words)

    def test_redirection_keeps_the_request(self) -> None:
        nova = self.serve()
        self.assertEqual({'it': '/compute/it'}, nova.post('/moved', {'key': 'value'}))
        method, _, headers, body, _ = self.requests()[-1]
        self.assertEqual(('POST', '{"key": "value"}', 'token1'),
                         (method, body, headers['X-Auth-Token']))

    def test_redirection_to_no_web_server_is_not_followed(self) -> None:
        nova = self.serve(timeout='2')
        with socket.create_server(('127.0.0.1', 0)) as other:
            other.settimeout(0.1)
            self.cloud.moved = f'ftp://127.0.0.1:{other.getsockname()[1]}/it'
            self.raised(exception.Unreachable, nova.get, '/moved')
            self.assertRaises(TimeoutError, other.accept)


class TLSTest(CloudTest):

    def setUp(self) -> None:
        super().setUp()
        self.certificate, self.key = self._files()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, self.key)
        self.cloud.url = f'https://127.0.0.1:{self.listen(self.context)}'

    def _files(self) -> tuple[str, str]:
        """Return files with a certificate of an authority and server, and with its key."""
        key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, 'specreds')])
        certificate = x509.CertificateBuilder(
            name, name, key.public_key(), x509.random_serial_number(), now - _DAY, now + _DAY
        ).add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True
        ).add_extension(x509.SubjectAlternativeName([
            x509.IPAddress(ipaddress.ip_address('127.0.0.1'))]), critical=False
        ).sign(key, hashes.SHA256())
        place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (place / 'cert').write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (place / 'key').write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption()))
        return str(place / 'cert'), str(place / 'key')

    def test_known_authority_is_trusted(self) -> None:
        self.assertEqual({'it': '/compute/it'}, self.serve(cafile=self.certificate).get('/it'))

    def test_authority_of_the_environment_is_trusted(self) -> None:
        self.useFixture(fixtures.EnvironmentVariable('REQUESTS_CA_BUNDLE', self.certificate))
        self.assertEqual({'it': '/compute/it'}, self.serve().get('/it'))

    def test_unknown_authority_is_not_trusted(self) -> None:
        self.raised(exception.Unreachable, self.serve().get, '/it')
        self.assertEqual([], self.requests())

    def test_authorities_of_libcurl_itself_are_not_trusted_beside_those_of_the_options(
            self) -> None:
        place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        # OpenSSL finds a certificate in a directory by a hash of its name.
        trusted = pathlib.Path(self.certificate).read_bytes()
        name = x509.load_pem_x509_certificate(trusted).subject.public_bytes()
        number = int.from_bytes(hashlib.sha1(name[2:]).digest()[:4], 'little')
        (place / f'{number:08x}.0').write_bytes(trusted)
        empty = self.useFixture(fixtures.TempDir()).path
        other = self._files()[0]
        for built_in, file, cafile in ((pycurl.CAPATH, str(place), other),
                                       (pycurl.CAINFO, self.certificate, empty)):
            class Curl(pycurl.Curl):
                def reset(self, option: int = built_in, file: str = file) -> None:
                    super().reset()
                    self.setopt(option, file)
            with mock.patch.object(pycurl, 'Curl', Curl):
                self.raised(exception.Unreachable, self.serve(cafile=cafile).get, '/it')
            self.assertEqual([], self.requests())
            self.assertEqual({'it': '/compute/it'}, self.serve(cafile=file).get('/it'))
            self.cloud.seen.clear()

    def test_insecure_client_trusts_any_certificate(self) -> None:
        self.assertEqual({'it': '/compute/it'}, self.serve(insecure='true').get('/it'))

    def test_client_shows_its_certificate(self) -> None:
        self.context.load_verify_locations(self.certificate)
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.raised(exception.Unreachable, self.serve(cafile=self.certificate).get, '/it')
        nova = self.serve(cafile=self.certificate, certfile=self.certificate, keyfile=self.key)
        self.assertEqual({'it': '/compute/it'}, nova.get('/it'))
