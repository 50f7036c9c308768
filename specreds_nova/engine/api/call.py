# SPDX-License-Identifier: Apache-2.0
"""One request, with its caller and the services that answer it."""

from collections.abc import Callable, Collection, Sequence
import dataclasses
from http import HTTPStatus
from typing import Any, TypeVar
from urllib import parse

from oslo_context import context
from oslo_policy import policy
import webob

from specreds_nova.engine import exception
from specreds_nova.engine.api import errors
from specreds_nova.engine.placing import protection as protections
from specreds_nova.engine.store import store as stores
from specreds_nova.preflight import coverage as coverages

T = TypeVar('T')

Body = dict[str, Any]

# The versions of the API, which a request chooses from by ``OpenStack-API-Version``, and the name
# of the service in that header.
VERSIONS = ('1.0',)
SERVICE = 'speculative'
# Largest number of recoveries or hosts in one answer, which has a link to the next ones.
LIMIT = 1000


@dataclasses.dataclass(frozen=True)
class Services:
    """The services that handlers use.

    :ivar places: returns all availability zones and aggregates, in words
    :ivar coverage: returns what is known of all servers
    :ivar max_limit: largest number of items in one answer
    """

    store: stores.Store
    protection: Callable[[str], protections.Answer]
    places: Callable[[], Collection[str]]
    coverage: Callable[[], coverages.Coverage]
    enforcer: policy.Enforcer
    max_limit: int


@dataclasses.dataclass(frozen=True)
class Call:
    """A valid request.

    :ivar path: the parts of the path that the route names
    :ivar query: parameters of the query
    :ivar body: the body; None without a body
    """

    request: webob.Request
    context: context.RequestContext
    services: Services
    path: dict[str, str]
    query: dict[str, str]
    body: Any

    def allows(self, rule: str, project: str | None = None) -> bool:
        """Return whether a rule allows the caller a request that concerns a project."""
        try:
            return self.services.enforcer.authorize(
                rule, {'project_id': project}, self.context, do_raise=False)
        except policy.InvalidScope:
            return False

    def authorize(self, rule: str, project: str | None = None) -> None:
        """Check that a rule allows the caller the request.

        :raises errors.Problem: the rule does not allow it
        """
        if not self.allows(rule, project):
            raise errors.Problem(
                HTTPStatus.FORBIDDEN,
                f'your roles do not allow {rule}, which by default needs the role admin or '
                f'service')

    @property
    def limit(self) -> int:
        """Return how many items to list."""
        return min(int(self.query.get('limit', self.services.max_limit)),
                   self.services.max_limit)

    def url(self, path: str, **query: str | int) -> str:
        """Return the URL of a path of the API, as the caller reaches it."""
        address = f'{self.request.application_url}{path}'
        return f'{address}?{parse.urlencode(query)}' if query else address

    def page(self, name: str, items: Sequence[T], shown: Sequence[Body], marker: str) -> Body:
        """Return a page of a list.

        :param name: name of the list
        :param items: the items that are shown, and one more if there is a next page
        :param marker: the field whose last value begins the next page
        """
        answer: Body = {name: list(shown)}
        if shown and len(items) > len(shown):
            query = {**self.query, 'limit': len(shown), 'marker': shown[-1][marker]}
            answer[f'{name}_links'] = [
                {'rel': 'next', 'href': self.url(f'/v1/{name}', **query)}]
        return answer


def missing(what: str, name: str) -> exception.NotFound:
    """Return the error for an object that the caller cannot see."""
    return exception.NotFound(f'there is no {what} {name}')
