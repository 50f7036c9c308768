# SPDX-License-Identifier: Apache-2.0
"""Caches of what Nova reports of the cloud as a whole, which all recoveries share."""

from collections.abc import Callable, Mapping, Sequence
import functools
import threading
import time
from typing import Any, Generic, TypeVar

from oslo_log import log as logging

from specreds_nova.engine import exception
from specreds_nova.engine.clients import rest

LOG = logging.getLogger(__name__)

_T = TypeVar('_T')

# Seconds for which values are cached that change with failures, and that seldom change.
_CHANGING = 2.0
_LASTING = 60.0
# Seconds for which the last answer is used if Nova fails, as it does for all cells while the
# database of one cell is away; and seconds until Nova is asked again. Members do not move to other
# server groups, and hosts keep their providers.
_OUTDATED, _AGAIN = 3600.0, 60.0


class Cached(Generic[_T]):
    """A value that is read again after a time, by one thread for all.

    :param seconds: time for which the value is valid
    :param outdated: further time for which the value is used if it cannot be read
    """

    def __init__(self, read: Callable[[], _T], seconds: float, outdated: float = 0.0) -> None:
        self._read = read
        self._seconds = seconds
        self._outdated = outdated
        self._lock = threading.Lock()
        self._until = self._ends = float('-inf')
        # Time before which the value is not read, after a failure.
        self._again = float('-inf')
        self._value: _T | None = None

    def at_hand(self) -> _T | None:
        """Return the value if it is valid; None if it has to be read."""
        # Without the lock, for which thousands of recoveries would wait. The time is set after the
        # value, so it is read before it.
        until, value = self._until, self._value
        return value if time.monotonic() < until else None

    def get(self) -> _T:
        """Return the value."""
        value = self.at_hand()
        if value is not None:
            return value
        with self._lock:
            if self._value is None or time.monotonic() >= self._until:
                self._value = self._renewed()
            return self._value

    def _renewed(self) -> _T:
        try:
            value = self._read()
        except exception.Unreachable as exc:
            now = time.monotonic()
            if self._value is None or now >= self._ends:
                raise
            LOG.warning('the answer before is used for %d s more: %s', self._ends - now, exc)
            self._again = now + _AGAIN
            self._until = min(self._again, self._ends)
            return self._value
        self._until = time.monotonic() + self._seconds
        self._ends = self._until + self._outdated
        return value

    def forget(self) -> None:
        """Read the value again at the next use, unless that has just failed."""
        with self._lock:
            self._until = min(self._until, self._again)

    def change(self, change: Callable[[_T], _T]) -> None:
        """Change the value if there is one; it is valid for as long as before."""
        with self._lock:
            if self._value is not None:
                self._value = change(self._value)


class Facts:
    """Services, hosts, aggregates and server groups.

    :param nova: the service
    """

    def __init__(self, nova: rest.Service) -> None:
        self._nova = nova
        self._services = Cached(self._read_services, _CHANGING)
        self._hosts = Cached(self._read_hosts, _LASTING, _OUTDATED)
        self._aggregates = Cached(self._read_aggregates, _LASTING)
        self._groups = Cached(self._read_groups, _CHANGING, _OUTDATED)
        self._lock = threading.Lock()
        self._projects: dict[str, Cached[dict[str, str]]] = {}

    def warm_up(self) -> None:
        """Read all values before a recovery needs them."""
        self.services()
        self._hosts.get()
        self._aggregates.get()
        self.groups()

    def services(self) -> Mapping[str, Mapping[str, Any]]:
        """Return Nova's description of the nova-compute of each host."""
        return self._services.get()

    def changed(self) -> None:
        """Read the services again at the next use."""
        self._services.forget()

    def forced_down(self, host: str, down: bool) -> None:
        """Note that a host was forced down in Nova, or that this was taken back.

        The services are not read again for that: a rack that fails has many servers, and a cloud
        many hosts.
        """
        def changed(services: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
            known = services.get(host)
            if known is None or bool(known.get('forced_down')) == down:
                return services
            return {**services, host: {**known, 'forced_down': down}}
        self._services.change(changed)

    def host(self, provider: str) -> str | None:
        """Return the host of a resource provider, by its UUID."""
        host = self._hosts.get().get(provider)
        if host is None:
            self._hosts.forget()
            host = self._hosts.get().get(provider)
        return host

    def aggregates(self, host: str) -> Sequence[Mapping[str, Any]]:
        """Return the aggregates that a host is in."""
        return self._aggregates.get().get(host, ())

    def aggregates_of_all(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """Return the aggregates of each host that is in any.

        Hosts in the same aggregates have the same sequence, not only an equal one.
        """
        return self._aggregates.get()

    def groups(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the server group of each server that is in one."""
        return self._groups.get()

    def groups_at_hand(self) -> Mapping[str, Mapping[str, Any]] | None:
        """Return the same if that needs no request; None otherwise."""
        return self._groups.at_hand()

    def hosts_of(self, project: str) -> Mapping[str, str]:
        """Return the host of each server of a project."""
        with self._lock:
            hosts = self._projects.setdefault(project, Cached(
                functools.partial(self._read_hosts_of, project), _CHANGING))
        return hosts.get()

    def _read_hosts_of(self, project: str) -> dict[str, str]:
        return {shown['id']: shown['OS-EXT-SRV-ATTR:host'] for shown in self._nova.pages(
            '/servers/detail', 'servers', all_tenants='true', project_id=project)
            if shown.get('OS-EXT-SRV-ATTR:host')}

    def _read_services(self) -> dict[str, dict[str, Any]]:
        services = self._nova.get('/os-services', binary='nova-compute')['services']
        by_host: dict[str, list[dict[str, Any]]] = {}
        for service in services:
            by_host.setdefault(service['host'], []).append(service)
        return {host: current(its) for host, its in by_host.items()}

    def _read_hosts(self) -> dict[str, str]:
        return {hypervisor['id']: hypervisor['service']['host']
                for hypervisor in self._nova.pages('/os-hypervisors/detail', 'hypervisors')}

    def _read_aggregates(self) -> dict[str, list[dict[str, Any]]]:
        aggregates = self._nova.get('/os-aggregates')['aggregates']
        places: dict[str, list[int]] = {}
        for place, aggregate in enumerate(aggregates):
            for host in aggregate['hosts']:
                places.setdefault(host, []).append(place)
        shared: dict[tuple[int, ...], list[dict[str, Any]]] = {}
        return {host: shared.setdefault(tuple(its), [aggregates[place] for place in its])
                for host, its in places.items()}

    def _read_groups(self) -> dict[str, dict[str, Any]]:
        groups = self._nova.counted_pages('/os-server-groups', 'server_groups',
                                          all_projects='true')
        return {member: {'id': group['id'], 'policy': group.get('policy'),
                         'rules': group.get('rules') or {}, 'members': group['members']}
                for group in groups for member in group['members']}


def known(service: Mapping[str, Any]) -> bool:
    """Return whether Nova knows the state of a service.

    Of a cell whose database does not answer, Nova lists the hosts alone. Such a service is neither
    up nor down.
    """
    return 'state' in service


def current(services: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the service of a host that counts, of one or several that Nova lists.

    The record of a host that was moved to another cell may be left in its former cell. A service
    without a state is in the cell to which Nova maps the host.
    """
    return max(services, key=lambda service: (
        not known(service), str(service.get('updated_at') or '')))
