# SPDX-License-Identifier: Apache-2.0
"""What Nova tells of the cloud as a whole; kept for a moment, as all recoveries ask for it."""

from collections.abc import Callable, Mapping, Sequence
import threading
import time
from typing import Any, Generic, TypeVar

from specreds_nova.engine.clients import rest

_T = TypeVar('_T')

# Seconds for which something is not asked for again: what changes with failures, what seldom does.
_MOMENT = 2.0
_WHILE = 60.0


class Kept(Generic[_T]):
    """Something that is read at most once in a while, by one thread for all of them.

    :param seconds: how long it is good for
    """

    def __init__(self, read: Callable[[], _T], seconds: float) -> None:
        self._read = read
        self._seconds = seconds
        self._lock = threading.Lock()
        self._until = float('-inf')
        self._found: _T | None = None

    def get(self) -> _T:
        """Give it."""
        with self._lock:
            if self._found is None or time.monotonic() >= self._until:
                self._found = self._read()
                self._until = time.monotonic() + self._seconds
            return self._found

    def forget(self) -> None:
        """Have it read again the next time."""
        with self._lock:
            self._until = float('-inf')


class Facts:
    """Services, hosts, aggregates and server groups.

    :param nova: the service
    """

    def __init__(self, nova: rest.Service) -> None:
        self._nova = nova
        self._services = Kept(self._read_services, _MOMENT)
        self._hosts = Kept(self._read_hosts, _WHILE)
        self._aggregates = Kept(self._read_aggregates, _WHILE)
        self._groups = Kept(self._read_groups, _MOMENT)

    def warm_up(self) -> None:
        """Read everything, before there is a hurry."""
        self.services()
        self._hosts.get()
        self._aggregates.get()
        self.groups()

    def services(self) -> Mapping[str, Mapping[str, Any]]:
        """Give what Nova says of the nova-compute of each host."""
        return self._services.get()

    def changed(self) -> None:
        """Have the services read again."""
        self._services.forget()

    def host(self, provider: str) -> str | None:
        """Give the host of a resource provider, by its UUID."""
        found = self._hosts.get().get(provider)
        if found is None:
            self._hosts.forget()
            found = self._hosts.get().get(provider)
        return found

    def aggregates(self, host: str) -> Sequence[Mapping[str, Any]]:
        """Return the aggregates that a host is in."""
        return self._aggregates.get().get(host, ())

    def groups(self) -> Mapping[str, Mapping[str, Any]]:
        """Give the server group of each server that is in one."""
        return self._groups.get()

    def _read_services(self) -> dict[str, dict[str, Any]]:
        found = self._nova.get('/os-services', binary='nova-compute')['services']
        return {one['host']: one for one in found}

    def _read_hosts(self) -> dict[str, str]:
        return {hypervisor['id']: hypervisor['service']['host']
                for hypervisor in self._nova.pages('/os-hypervisors/detail', 'hypervisors')}

    def _read_aggregates(self) -> dict[str, list[dict[str, Any]]]:
        by_host: dict[str, list[dict[str, Any]]] = {}
        for aggregate in self._nova.get('/os-aggregates')['aggregates']:
            for host in aggregate['hosts']:
                by_host.setdefault(host, []).append(aggregate)
        return by_host

    def _read_groups(self) -> dict[str, dict[str, Any]]:
        groups = self._nova.counted_pages('/os-server-groups', 'server_groups',
                                          all_projects='true')
        return {member: {'id': group['id'], 'policy': group.get('policy'),
                         'rules': group.get('rules') or {}, 'members': group['members']}
                for group in groups for member in group['members']}
