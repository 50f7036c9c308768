# SPDX-License-Identifier: Apache-2.0
"""What Cinder's API of superpositions refuses before it looks for anything.

Its real controller says so: a test whose answers are prepared would otherwise accept any request.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from cinder import objects
from cinder.api.openstack import wsgi

objects.register_all()

from specreds_cinder.api import controller  # noqa: E402 - after Cinder's objects

_BASE = '/os-superpositions'
# The first thing that an action needs once the request itself is in order.
_CONTEXT = 'cinder.context'
_PLAIN = {('GET', False): 'index', ('POST', False): 'create', ('GET', True): 'show',
          ('DELETE', True): 'delete'}


def refusal(method: str, url: str, body: Any = None,
            headers: Mapping[str, str] | None = None) -> str | None:
    """Return why a request for superpositions is refused, or None if it is in order.

    :param url: path and query below the project
    """
    request = wsgi.Request.blank(url, method=method, headers=dict(headers or {}))
    parts = request.path_info.removeprefix(_BASE).strip('/').split('/')
    identity, action = _route(method, [part for part in parts if part])
    if action is None:
        return f'{HTTPStatus.NOT_FOUND}: no route for {method} {url}'
    arguments: dict[str, Any] = {'id': identity} if identity else {}
    if method == 'POST':
        arguments['body'] = body
    # Without its services, which only an action itself needs.
    made: Any = object.__new__(controller.SuperpositionsController)
    try:
        getattr(made, action)(request, **arguments)
    except wsgi.Fault as exc:
        return f'{exc.status_int}: {exc.wrapped_exc.explanation}'
    except KeyError as exc:
        if exc.args != (_CONTEXT,):
            raise
    return None


def _route(method: str, parts: list[str]) -> tuple[str | None, str | None]:
    """Return the id in a path, and the controller's action; None for what the path lacks."""
    if len(parts) == 1 and controller.COLLECTION_ACTIONS.get(parts[0]) == method:
        return None, parts[0]
    if len(parts) == 2 and controller.MEMBER_ACTIONS.get(parts[1]) == method:
        return parts[0], parts[1]
    if len(parts) > 1:
        return None, None
    return parts[0] if parts else None, _PLAIN.get((method, bool(parts)))
