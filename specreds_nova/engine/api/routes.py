# SPDX-License-Identifier: Apache-2.0
"""The routes of the API. A ``{name}`` in a path stands for one part of the path."""

from collections.abc import Callable
import dataclasses
import functools
from http import HTTPStatus
import re

from specreds_nova.engine.api import call
from specreds_nova.engine.api import errors
from specreds_nova.engine.api import schemas
from specreds_nova.engine.api.handlers import coverage
from specreds_nova.engine.api.handlers import hosts
from specreds_nova.engine.api.handlers import modes
from specreds_nova.engine.api.handlers import recoveries
from specreds_nova.engine.api.handlers import servers
from specreds_nova.engine.api.handlers import versions

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
    Route('GET', '/', versions.index, public=True),
    Route('GET', '/v1', versions.show, public=True),
    Route('GET', '/v1/recoveries', recoveries.index, query=schemas.RECOVERIES),
    Route('GET', '/v1/recoveries/{recovery_id}', recoveries.show),
    Route('POST', '/v1/recoveries/{recovery_id}/action', recoveries.act,
          body=schemas.RECOVERY_ACTION),
    Route('GET', '/v1/hosts', hosts.index, query=schemas.HOSTS),
    Route('GET', '/v1/hosts/{host}', hosts.show),
    Route('POST', '/v1/hosts/{host}/action', hosts.act, body=schemas.HOST_ACTION),
    Route('GET', '/v1/modes', modes.index),
    Route('PUT', '/v1/modes', modes.put, body=schemas.MODE),
    Route('DELETE', '/v1/modes', modes.delete, query=schemas.MODES),
    Route('GET', '/v1/servers/{server_id}/protection', servers.protection),
    Route('POST', '/v1/servers/{server_id}/action', servers.act, body=schemas.SERVER_ACTION),
    Route('GET', '/v1/coverage', coverage.show),
    Route('GET', '/v1/simulation', coverage.simulate, query=schemas.SIMULATION),
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
