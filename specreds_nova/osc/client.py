# SPDX-License-Identifier: Apache-2.0
"""A client of the engine's REST API."""

from collections.abc import Iterator, Mapping
import contextlib
from typing import Any
from urllib import parse

from keystoneauth1 import adapter
from keystoneauth1 import exceptions as auth_exceptions
from osc_lib import exceptions

from specreds_cinder.osc import pages

SERVICE_TYPE = 'speculative-recovery'

_HEADERS = {'OpenStack-API-Version': 'speculative 1.0'}
Thing = dict[str, Any]


class Client:
    """The calls of the API.

    All methods raise ``osc_lib.exceptions.CommandError`` with the API's message.

    :param session: of keystoneauth
    """

    def __init__(self, session: Any, interface: str | None = None,
                 region_name: str | None = None) -> None:
        self._api = adapter.Adapter(
            session, service_type=SERVICE_TYPE, version='1', interface=interface,
            region_name=region_name, additional_headers=_HEADERS)

    def recoveries(self, filters: Mapping[str, Any], limit: int | None = None,
                   marker: str | None = None) -> Iterator[Thing]:
        """List the recoveries that match all filters, the newest first."""
        return self._pages('recoveries', 'id', filters, limit, marker)

    def recovery(self, recovery_id: str) -> Thing:
        """Return one recovery, with its steps."""
        return dict(self._call('GET', f'/recoveries/{_part(recovery_id)}')['recovery'])

    def abort(self, recovery_id: str) -> Thing:
        """Request the end of a recovery in favour of the primary."""
        answer = self._call('POST', f'/recoveries/{_part(recovery_id)}/action',
                            json={'abort': None})
        return dict(answer['recovery'])

    def hosts(self, filters: Mapping[str, Any]) -> Iterator[Thing]:
        """List hosts by name."""
        return self._pages('hosts', 'name', filters, None, None)

    def host(self, name: str) -> Thing:
        """Return one host."""
        return dict(self._call('GET', f'/hosts/{_part(name)}')['host'])

    def say(self, name: str, action: str, **said: Any) -> Thing:
        """Say something of a host: ``suspect`` or ``clear``."""
        answer = self._call('POST', f'/hosts/{_part(name)}/action', json={action: said or None})
        return dict(answer['host'])

    def modes(self) -> list[Thing]:
        """List the modes."""
        return list(self._call('GET', '/modes')['modes'])

    def set_mode(self, **mode: Any) -> Thing:
        """Set a mode."""
        return dict(self._call('PUT', '/modes', json=mode)['mode'])

    def unset_mode(self, **scope: str) -> None:
        """Remove a mode."""
        self._call('DELETE', '/modes', params=scope)

    def drill(self, server_id: str) -> Thing:
        """Request a drill of a server."""
        answer = self._call('POST', f'/servers/{_part(server_id)}/action', json={'drill': None})
        return dict(answer['recovery'])

    def protection(self, server_id: str) -> Thing:
        """Report whether a server is protected."""
        return dict(self._call('GET', f'/servers/{_part(server_id)}/protection')['protection'])

    def coverage(self) -> Thing:
        """Report what all servers would get."""
        return dict(self._call('GET', '/coverage')['coverage'])

    def simulation(self, **which: Any) -> Thing:
        """Report what would become of servers if hosts failed.

        :param which: several hosts as ``host``, or an ``aggregate``
        """
        return dict(self._call('GET', '/simulation', params=which)['simulation'])

    def _pages(self, name: str, key: str, filters: Mapping[str, Any], limit: int | None,
               marker: str | None) -> Iterator[Thing]:
        def ask(query: Mapping[str, Any]) -> tuple[list[Thing], bool]:
            answer = self._call('GET', f'/{name}', params=query)
            return answer[name], bool(answer.get(f'{name}_links'))
        return pages.items(ask, filters, limit, marker, key=key)

    def _call(self, method: str, path: str, **request: Any) -> Any:
        with _words():
            return self._api.request(path, method, **request).json()


def _part(text: str) -> str:
    """Return a text quoted as a part of a path.

    :raises osc_lib.exceptions.CommandError: the text is empty
    """
    if not text:
        raise exceptions.CommandError('a name must not be empty')
    return parse.quote(text, safe='')


@contextlib.contextmanager
def _words() -> Iterator[None]:
    """Turn errors of the session into errors of a command.

    :raises osc_lib.exceptions.CommandError: the request failed
    """
    try:
        yield
    except (auth_exceptions.EndpointNotFound, auth_exceptions.CatalogException) as exc:
        raise exceptions.CommandError(
            f'this cloud has no speculative recovery: there is no service of type {SERVICE_TYPE} '
            f'in its catalogue, for this region and interface') from exc
    except auth_exceptions.HttpError as exc:
        raise exceptions.CommandError(_message(exc)) from exc
    except auth_exceptions.ClientException as exc:
        raise exceptions.CommandError(str(exc)) from exc


def _message(error: Any) -> str:
    """Return the API's message; for an internal error, also name the request."""
    try:
        words = str(error.response.json()['error']['message'])
    except (AttributeError, KeyError, TypeError, ValueError):
        return str(error)
    if error.http_status >= 500 and error.request_id:
        words += f' (HTTP {error.http_status}, request {error.request_id})'
    return words
