# SPDX-License-Identifier: Apache-2.0
"""A client of a REST service with the credentials of the engine.

keystoneauth has the tokens and the catalogue, and libcurl the connections: a request by
keystoneauth and ``requests`` takes several times the processor time of one by libcurl.
"""

from collections.abc import Iterator, Mapping
import json
import os
from typing import Any, NamedTuple
from urllib import parse

from keystoneauth1 import exceptions
from keystoneauth1 import loading
from oslo_config import cfg
import pycurl
import requests
from requests import utils

from specreds_nova.engine import exception
from specreds_nova.engine.clients import conf as clients_conf

_TOO_BUSY = 429
_TIMED_OUT = 408
_UNKNOWN = 401
_GATEWAY_TIMED_OUT = 504
_REDIRECTS = 5

# Seconds that Nova, Placement and Cinder may take to answer unless [service_auth] timeout is set.
_TIMEOUT_S = 10.0


class Answer(NamedTuple):
    """An answer of a service."""

    status: int
    content: bytes = b''


class Failed(Exception):
    """A service has answered with an error.

    :ivar status: its status
    :ivar content: its body
    """

    def __init__(self, answer: Answer) -> None:
        super().__init__(f'status {answer.status}')
        self.status, self.content = answer


class Session:
    """Sends requests to all services. May be used by several threads.

    :ivar keystone: the session of keystoneauth
    :raises exception.Invalid: the configuration has no credentials
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        clients_conf.register(conf)
        self._conf = conf.service_auth
        self._timeout = self._conf.timeout or _TIMEOUT_S
        try:
            auth = loading.load_auth_from_conf_options(conf, clients_conf.GROUP)
        except exceptions.AuthPluginException as exc:
            raise exception.Invalid(f'[{clients_conf.GROUP}]: {exc}') from exc
        if auth is None:
            raise exception.Invalid(f'[{clients_conf.GROUP}] has no credentials: set auth_type')
        self.keystone = loading.load_session_from_conf_options(
            conf, clients_conf.GROUP, auth=auth, timeout=self._timeout)
        self._options = _options(self.keystone.verify, self.keystone.cert)
        # Handles of libcurl that are not in use, each with its connections.
        self._handles: list[pycurl.Curl] = []
        # A token with its catalogue, and the addresses of services in it.
        self._known: tuple[Any, dict[str, str]] = None, {}

    def request(self, kind: str, method: str, path: str, *, headers: Mapping[str, str],
                body: bytes | None = None, timeout: float | None = None) -> Answer:
        """Send a request, and return the answer, whatever its status is.

        libcurl sends a request again if a connection that it has kept ends without any answer:
        requests of an engine may be repeated.

        :param kind: type of the service in the catalogue
        :param timeout: seconds that the answer may take, unless the configuration says it
        :raises exception.Unreachable: the service does not answer, or Keystone does not
        :raises exception.Unanswered: the service has not answered in time
        """
        def send() -> Answer:
            lines = {**(self.keystone.get_auth_headers() or {}), **headers}
            return self._send(method, self._address(kind) + path, lines, body,
                              timeout or self._timeout)
        try:
            answer = send()
            # A token that Keystone has revoked: the service has done nothing.
            return send() if answer.status == _UNKNOWN and self.keystone.invalidate() else answer
        except exceptions.ClientException as exc:
            raise exception.Unreachable(f'Keystone does not help: {exc}') from exc
        except pycurl.error as exc:
            code, words = exc.args
            raise (exception.Unanswered if code == pycurl.E_OPERATION_TIMEDOUT
                   else exception.Unreachable)(words) from exc

    def _address(self, kind: str) -> str:
        """Return the address of a service.

        keystoneauth copies the whole catalogue each time that it looks for a service in it.
        """
        catalogue = getattr(self.keystone.auth, 'auth_ref', None)
        known, addresses = self._known
        if catalogue is not known:
            addresses = {}
            self._known = catalogue, addresses
        if kind not in addresses:
            address = self.keystone.get_endpoint(
                service_type=kind, interface=self._conf.valid_interfaces,
                region_name=self._conf.region_name)
            if address is None:
                raise exceptions.EndpointNotFound(f'the catalogue has no endpoint of {kind}')
            addresses[kind] = address.rstrip('/')
        return addresses[kind]

    def _send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None,
              timeout: float) -> Answer:
        try:
            handle = self._handles.pop()
        except IndexError:
            handle = pycurl.Curl()
        # This keeps the connections.
        handle.reset()
        for option, value in self._options:
            handle.setopt(option, value)
        # libcurl would name another type, and wait for leave to send a long body.
        lines = {'Accept': 'application/json', 'Expect': '',
                 'Content-Type': 'application/json' if body else '', **headers}
        handle.setopt(pycurl.HTTPHEADER, [f'{name}: {line}' for name, line in lines.items()])
        handle.setopt(pycurl.URL, url)
        handle.setopt(pycurl.TIMEOUT_MS, int(1000 * timeout))
        if method != 'GET':
            handle.setopt(pycurl.POSTFIELDS, body or b'')
            handle.setopt(pycurl.CUSTOMREQUEST, method)
        try:
            content = handle.perform_rb()
            return Answer(handle.getinfo(pycurl.RESPONSE_CODE), content)
        finally:
            self._handles.append(handle)


def _options(verify: Any, certificate: Any) -> list[tuple[int, Any]]:
    """Return the options of libcurl that are the same for all requests.

    :param verify: file or directory with certificates of authorities, or whether to verify
    :param certificate: file with the engine's certificate, or two files, the second one with its
        key
    """
    # As keystoneauth verifies Keystone: the environment may name certificates, too.
    verify = requests.Session().merge_environment_settings(
        'https://localhost', {}, None, verify, None)['verify']
    options = [(pycurl.NOSIGNAL, 1), (pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1),
               (pycurl.FOLLOWLOCATION, 1), (pycurl.MAXREDIRS, _REDIRECTS),
               (pycurl.POSTREDIR, pycurl.REDIR_POST_ALL),
               (pycurl.REDIR_PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)]
    if not verify:
        options += [(pycurl.SSL_VERIFYPEER, 0), (pycurl.SSL_VERIFYHOST, 0)]
    else:
        path = utils.DEFAULT_CA_BUNDLE_PATH if verify is True else verify
        # Otherwise libcurl trusts its built-in file or directory, too.
        directory = os.path.isdir(path)
        options += [(pycurl.CAPATH, path if directory else None),
                    (pycurl.CAINFO, None if directory else path)]
    if certificate:
        files = [certificate] if isinstance(certificate, str) else certificate
        options += zip((pycurl.SSLCERT, pycurl.SSLKEY), files, strict=False)
    return options


class Service:
    """A service. Each method raises the errors that are listed here.

    :param name: name of the service in logs and errors
    :param kind: type of the service in the catalogue
    :param version: microversions of all requests
    :raises exception.Unreachable: the service does not answer, or is overloaded
    :raises exception.Unanswered: the service has not answered in time
    :raises exception.NotFound: the service does not know the object
    :raises exception.Refused: the service refuses the request, with its reason
    """

    def __init__(self, session: Session, name: str, kind: str, version: str) -> None:
        self.name = name
        self._session = session
        self._kind = kind
        self._version = version

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """Send a GET request, and return the body of the answer."""
        query = parse.urlencode(params, doseq=True)
        return self.ask('GET', f'{path}?{query}' if query else path)

    def pages(self, path: str, key: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Yield every entry of a list that the service divides into pages.

        Nova links to the next page, which begins after a marker.

        :param key: name of the list in the answer
        """
        marker: dict[str, str] = {}
        while True:
            page = self.get(path, **params, **marker)
            yield from page[key]
            if not page.get(f'{key}_links') or not page[key]:
                return
            marker = {'marker': page[key][-1]['id']}

    def counted_pages(self, path: str, key: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Yield every entry of a list with pages that have no links, by offset.

        Nova's ``max_limit`` is not known here, so a page without a new entry is the end.

        :param key: name of the list in the answer
        """
        seen: set[str] = set()
        offset = 0
        while True:
            page = self.get(path, **params, **({'offset': offset} if offset else {}))[key]
            new = [entry for entry in page if entry['id'] not in seen]
            if not new:
                return
            yield from new
            seen.update(entry['id'] for entry in new)
            offset += len(page)

    def post(self, path: str, body: Mapping[str, Any] | None = None,
             timeout: float | None = None) -> dict[str, Any]:
        """Send a POST request, and return the body of the answer."""
        return self.ask('POST', path, body, timeout=timeout)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None, *,
            version: str | None = None, timeout: float | None = None) -> dict[str, Any]:
        """Send a request, and return the body of the answer.

        :param version: microversion, if the request has another one than all requests
        :param timeout: seconds that the answer may take
        """
        try:
            answer = self._session.request(
                self._kind, method, path, timeout=timeout,
                headers={'OpenStack-API-Version': version or self._version},
                body=None if body is None else json.dumps(body).encode())
        except exception.Unreachable as exc:
            raise type(exc)(f'{self.name} does not answer {method} {path}: {exc}') from exc
        if answer.status < 400:
            shown: dict[str, Any] = json.loads(answer.content) if answer.content else {}
            return shown
        raise _error(answer.status)(
            f'{self.name} answers {method} {path} with {answer.status}: {_message(answer)}'
        ) from Failed(answer)


def _error(status: int) -> type[exception.EngineError]:
    if status == 404:
        return exception.NotFound
    if status in (_TIMED_OUT, _GATEWAY_TIMED_OUT):
        return exception.Unanswered
    if status >= 500 or status in (_TOO_BUSY, _UNKNOWN):
        return exception.Unreachable
    return exception.Refused


def _message(answer: Answer) -> str:
    """Return the message of the service itself."""
    try:
        fault = next(iter(json.loads(answer.content).values()))
        return str(fault['message'])
    except (AttributeError, KeyError, TypeError, ValueError, StopIteration):
        return 'it gives no reason'
