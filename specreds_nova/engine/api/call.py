# SPDX-License-Identifier: Apache-2.0
"""One request: who asks, what for, and what there is to answer it with."""

from collections.abc import Sequence
import dataclasses
from http import HTTPStatus
from typing import Any, Protocol, TypeVar
from urllib import parse

from oslo_context import context
from oslo_policy import policy
import webob

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.api import errors
from specreds_nova.engine.api import protection

T = TypeVar('T')

Body = dict[str, Any]


class Store(Protocol):
    """What the API needs of :class:`specreds_nova.engine.db.store.Store`."""

    def host(self, name: str) -> model.Host: ...
    def hosts(self) -> list[model.Host]: ...
    def change_host(self, host: model.Host, **values: Any) -> model.Host | None: ...
    def get(self, recovery_id: str) -> model.Recovery | None: ...
    def active(self, host: str | None = None) -> list[model.Recovery]: ...
    def recoveries(self, filters: dict[str, str], limit: int | None = None,
                   marker: str | None = None) -> list[model.Recovery]: ...
    def request_abort(self, recovery_id: str) -> bool: ...


@dataclasses.dataclass(frozen=True)
class Services:
    """What requests are answered with.

    :ivar max_limit: how many things one answer lists at most
    """

    store: Store
    protection: protection.Protection
    enforcer: policy.Enforcer
    max_limit: int


@dataclasses.dataclass(frozen=True)
class Call:
    """A request that is well-formed.

    :ivar path: the parts of the path that the route names
    :ivar query: of the URL
    :ivar body: None if there is none
    """

    request: webob.Request
    context: context.RequestContext
    services: Services
    path: dict[str, str]
    query: dict[str, str]
    body: Any

    def allows(self, rule: str, project: str | None = None) -> bool:
        """Tell whether the caller may do something with what a project owns."""
        try:
            return self.services.enforcer.authorize(
                rule, {'project_id': project}, self.context, do_raise=False)
        except policy.InvalidScope:
            return False

    def authorize(self, rule: str, project: str | None = None) -> None:
        """Make sure that the caller may.

        :raises errors.Problem: he may not
        """
        if not self.allows(rule, project):
            raise errors.Problem(
                HTTPStatus.FORBIDDEN,
                f'your roles do not allow {rule}; by default it takes the role admin or service')

    @property
    def limit(self) -> int:
        """How many things to list."""
        return min(int(self.query.get('limit', self.services.max_limit)),
                   self.services.max_limit)

    def url(self, path: str, **query: str | int) -> str:
        """Give the address of a path of the API, as the caller reaches it."""
        address = f'{self.request.application_url}{path}'
        return f'{address}?{parse.urlencode(query)}' if query else address

    def page(self, name: str, found: Sequence[T], shown: Sequence[Body], marker: str) -> Body:
        """Show a page of a list.

        :param name: of the list
        :param found: one more than what is shown, if there are more
        :param marker: the field that says where the next page begins
        """
        answer: Body = {name: list(shown)}
        if shown and len(found) > len(shown):
            query = {**self.query, 'limit': len(shown), 'marker': shown[-1][marker]}
            answer[f'{name}_links'] = [
                {'rel': 'next', 'href': self.url(f'/v1/{name}', **query)}]
        return answer


def missing(what: str, name: str) -> exception.NotFound:
    """Say that there is none, for the caller."""
    return exception.NotFound(f'there is no {what} {name}')
