# SPDX-License-Identifier: Apache-2.0
"""A client of a REST service with the credentials of the engine."""

from collections.abc import Iterator, Mapping
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from keystoneauth1 import loading
from keystoneauth1 import session as sessions
from oslo_config import cfg

from specreds_nova.engine import exception
from specreds_nova.engine.clients import conf as clients_conf
from specreds_nova.engine.clients import connections

# Connections; as many threads may send requests at once.
_CONNECTIONS = 128
_TOO_BUSY = 429
_TIMED_OUT = 408
_UNKNOWN = 401
_GATEWAY_TIMED_OUT = 504


# Seconds that Nova, Placement and Cinder may take to answer unless [service_auth] timeout is set.
_TIMEOUT_S = 10.0


def session(conf: cfg.ConfigOpts) -> sessions.Session:
    """Return the session that all services share.

    :raises exception.Invalid: the configuration has no credentials
    """
    clients_conf.register(conf)
    try:
        auth = loading.load_auth_from_conf_options(conf, clients_conf.GROUP)
    except exceptions.AuthPluginException as exc:
        raise exception.Invalid(f'[{clients_conf.GROUP}]: {exc}') from exc
    if auth is None:
        raise exception.Invalid(f'[{clients_conf.GROUP}] has no credentials: set auth_type')
    shared: sessions.Session = loading.load_session_from_conf_options(
        conf, clients_conf.GROUP, auth=auth, session=connections.Session(_CONNECTIONS),
        timeout=conf.service_auth.timeout or _TIMEOUT_S)
    return shared


class Service:
    """A service. Each method raises the errors that are listed here.

    :param name: name of the service in logs and errors
    :param kind: type of the service in the catalogue
    :param microversion: microversion of all requests
    :param headers: headers of all requests
    :raises exception.Unreachable: the service does not answer, or is overloaded
    :raises exception.Unanswered: the service has not answered in time
    :raises exception.NotFound: the service does not know the object
    :raises exception.Refused: the service refuses the request, with its reason
    """

    def __init__(self, session: sessions.Session, conf: cfg.ConfigOpts, name: str, kind: str,
                 microversion: str | None = None,
                 headers: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._headers = dict(headers or {})
        self._session = session
        # A catalogue, and the address of the service in it.
        self._endpoint: tuple[Any, str | None] = None, None
        self._adapter = adapter.Adapter(
            session, service_type=kind, interface=list(conf.service_auth.valid_interfaces),
            region_name=conf.service_auth.region_name, default_microversion=microversion)

    def get(self, path: str, **params: Any) -> dict[str, Any]:
        """Send a GET request, and return the body of the answer."""
        return _body(self.ask('GET', path, params=params or None))

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
             **more: Any) -> dict[str, Any]:
        """Send a POST request, and return the body of the answer."""
        return _body(self.ask('POST', path, json=body, **more))

    def ask(self, method: str, path: str, **request: Any) -> Any:
        """Send a request, and return the response.

        :param request: parameters of ``requests``
        """
        headers = self._headers | request.pop('headers', {})
        try:
            return self._adapter.request(path, method, headers=headers,
                                         endpoint_override=self._address(), **request)
        except exceptions.HttpError as exc:
            status = exc.http_status or 0
            message = f'{self.name} answers {method} {path} with {status}: {_message(exc)}'
            if status == 404:
                raise exception.NotFound(message) from exc
            if status in (_TIMED_OUT, _GATEWAY_TIMED_OUT):
                raise exception.Unanswered(message) from exc
            if status >= 500 or status in (0, _TOO_BUSY, _UNKNOWN):
                raise exception.Unreachable(message) from exc
            raise exception.Refused(message) from exc
        except exceptions.ConnectTimeout as exc:
            # The session raises it for an answer that is late, too.
            raise exception.Unanswered(
                f'{self.name} has not answered {method} {path}: {exc}') from exc
        except exceptions.ClientException as exc:
            raise exception.Unreachable(
                f'{self.name} does not answer {method} {path}: {exc}') from exc

    def _address(self) -> str | None:
        """Return the address of the service; None to have it looked up for the request.

        keystoneauth copies the whole catalogue each time that it looks for a service in it.

        :raises exceptions.ClientException: the catalogue has no such service
        """
        # The token, with the catalogue; None without one.
        catalogue = getattr(self._session.auth, 'auth_ref', None)
        if catalogue is None:
            return None
        known, address = self._endpoint
        if catalogue is not known:
            address = self._adapter.get_endpoint()
            self._endpoint = catalogue, address
        # Names in parentheses after a percent sign would be replaced.
        return address and address.replace('%', '%%')


def _body(response: Any) -> dict[str, Any]:
    body: dict[str, Any] = response.json() if response.content else {}
    return body


def _message(exc: exceptions.HttpError) -> str:
    """Return the message of the service itself."""
    response: Any = exc.response
    try:
        fault = next(iter(response.json().values()))
        return str(fault['message'])
    except (AttributeError, KeyError, TypeError, ValueError, StopIteration):
        return str(exc.message or exc)
