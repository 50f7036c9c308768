# SPDX-License-Identifier: Apache-2.0
"""Which requests there are. A ``{name}`` in a path is one part of it."""

from collections.abc import Callable
import dataclasses
import functools
from http import HTTPStatus
import re

from specreds_nova.engine.api import call
from specreds_nova.engine.api import errors
from specreds_nova.engine.api import schemas
from specreds_nova.engine.api.handlers import hosts
from specreds_nova.engine.api.handlers import recoveries
from specreds_nova.engine.api.handlers import servers
from specreds_nova.engine.api.handlers import versions

Handler = Callable[[call.Call], tuple[HTTPStatus, call.Body]]


@dataclasses.dataclass(frozen=True)
class Route:
    """One of them.

    :ivar query: what the query has to look like
    :ivar body: what the body has to look like; None if there is none
    :ivar public: for everybody, without a token
    """

    method: str
    path: str
    handler: Handler
    query: schemas.Schema = dataclasses.field(default_factory=lambda: schemas.NOTHING)
    body: schemas.Schema | None = None
    public: bool = False

    @functools.cached_property
    def pattern(self) -> re.Pattern[str]:
        """What the paths look like that are meant."""
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
    Route('GET', '/v1/servers/{server_id}/protection', servers.protection),
)


def find(method: str, path: str) -> tuple[Route, dict[str, str]]:
    """Find what a request means, and the parts of its path that have names.

    :param path: below the application's
    :raises errors.Problem: nothing
    """
    path = path.rstrip('/') or '/'
    found = [(route, match) for route in ROUTES if (match := route.pattern.fullmatch(path))]
    if not found:
        raise errors.Problem(HTTPStatus.NOT_FOUND, f'there is nothing at {path}')
    for route, match in found:
        if method in (route.method, 'HEAD' if route.method == 'GET' else ''):
            return route, match.groupdict()
    allowed = ', '.join(sorted(route.method for route, _match in found))
    raise errors.Problem(HTTPStatus.METHOD_NOT_ALLOWED,
                         f'{path} takes {allowed}, not {method}', {'Allow': allowed})
