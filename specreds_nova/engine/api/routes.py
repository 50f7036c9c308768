# SPDX-License-Identifier: Apache-2.0
"""The routes of the API. A ``{name}`` in a path stands for one part of the path."""

from collections.abc import Callable
import dataclasses
import functools
from http import HTTPStatus
import re

from specreds_nova.engine.api import call
from specreds_nova.engine.api import errors
from specreds_nova.engine.api import handlers
from specreds_nova.engine.api import schemas

Handler = Callable[[call.Call], tuple[HTTPStatus, call.Body]]


@dataclasses.dataclass(frozen=True)
class Route:
    """One route.

    :ivar query: schema of the query
    :ivar body: schema of the body; None for no body
    :ivar public: whether the route needs no token
    """

    method: str
    path: str
    handler: Handler
    query: schemas.Schema = dataclasses.field(default_factory=lambda: schemas.NOTHING)
    body: schemas.Schema | None = None
    public: bool = False

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """Return the pattern of the paths of this route."""
        return re.compile(re.sub(r'\\{(\w+)\\}', r'(?P<\1>[^/]+)', re.escape(self.path)))


ROUTES = (
    Route('GET', '/', handlers.list_versions, public=True),
    Route('GET', '/v1', handlers.show_version, public=True),
    Route('GET', '/v1/recoveries', handlers.list_recoveries, query=schemas.RECOVERIES),
    Route('GET', '/v1/recoveries/{recovery_id}', handlers.show_recovery),
    Route('POST', '/v1/recoveries/{recovery_id}/action', handlers.abort_recovery,
          body=schemas.RECOVERY_ACTION),
    Route('GET', '/v1/hosts', handlers.list_hosts, query=schemas.HOSTS),
    Route('GET', '/v1/hosts/{host}', handlers.show_host),
    Route('POST', '/v1/hosts/{host}/action', handlers.say_of_host, body=schemas.HOST_ACTION),
    Route('GET', '/v1/modes', handlers.list_modes),
    Route('PUT', '/v1/modes', handlers.set_mode, body=schemas.MODE),
    Route('DELETE', '/v1/modes', handlers.remove_mode, query=schemas.MODES),
    Route('GET', '/v1/servers/{server_id}/protection', handlers.show_protection),
    Route('POST', '/v1/servers/{server_id}/action', handlers.begin_drill,
          body=schemas.SERVER_ACTION),
    Route('GET', '/v1/coverage', handlers.show_coverage),
    Route('GET', '/v1/simulation', handlers.simulate, query=schemas.SIMULATION),
)


def find(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """Return the route of a request, and the named parts of its path.

    :param path: path below the path of the application
    :raises errors.Problem: no route has this path or method
    """
    path = path.rstrip('/') or '/'
    routes = [(route, match) for route in ROUTES if (match := route.pattern.fullmatch(path))]
    if not routes:
        raise errors.Problem(HTTPStatus.NOT_FOUND, f'the API has no path {path}')
    for route, match in routes:
        if method in (route.method, 'HEAD' if route.method == 'GET' else ''):
            return route, match.groupdict()
    allowed = ', '.join(sorted(route.method for route, _match in routes))
    raise errors.Problem(HTTPStatus.METHOD_NOT_ALLOWED,
                         f'{path} supports {allowed}, not {method}', {'Allow': allowed})
