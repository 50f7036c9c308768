# SPDX-License-Identifier: Apache-2.0
"""The hosts for a backup: by Nova's scheduler, or by Placement if that does not answer."""

from collections.abc import Callable, Collection, Mapping, MutableMapping
import threading
import time
from typing import Any, Protocol

import cachetools

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import facts as cloud_facts
from specreds_nova.engine.clients import groups
from specreds_nova.engine.clients import placement

# Seconds for which servers with equal requests share an answer of the scheduler. If a host has
# become full meanwhile, it refuses the claim of a backup, and the scheduler is asked again.
_VALID = 1.5
# Number of hosts to collect, so that the servers of a failed host spread over several hosts.
_ENOUGH = 8


class Scheduler(Protocol):
    """Nova's scheduler.

    :raises exception.Unreachable: every method, if the scheduler does not answer
    """

    def spec(self, server: model.Server) -> Any:
        """Return the request spec, the same object for servers with equal ones."""

    def select(self, server: model.Server, ignore: Collection[str],
               group_hosts: list[str]) -> list[str]:
        """Return some hosts for a server, the best first."""

    def permits(self, server: model.Server, host: str) -> bool:
        """Return whether a server may be on a host."""


class Destinations:
    """The hosts for backups.

    :param scheduler: None to choose by Placement alone
    :param beside: returns which of several hosts are in the cell of a host; Placement knows
        nothing of cells
    """

    def __init__(self, scheduler: Scheduler | None, candidates: placement.Candidates,
                 facts: cloud_facts.Facts, server_groups: groups.Groups,
                 beside: Callable[[str, list[str]], list[str]] = lambda host, hosts: hosts
                 ) -> None:
        self._scheduler = scheduler
        self._candidates = candidates
        self._facts = facts
        self._groups = server_groups
        self._beside = beside
        self._lock = threading.Lock()
        # By request: its spec, and the hosts. The key has the id of the spec, which stays unique
        # while the spec is referenced here.
        self._kept: MutableMapping[tuple[Any, ...], tuple[Any, list[str]]] = cachetools.TTLCache(
            float('inf'), _VALID, time.monotonic)
        # The services as they were read, and the hosts whose service is up and enabled.
        self._up: tuple[Mapping[str, Mapping[str, Any]], frozenset[str]] = {}, frozenset()

    def hosts(self, server: model.Server, placed: Mapping[str, str],
              avoid: Collection[str]) -> list[str]:
        """Return the hosts for a server, the best first.

        :param placed: hosts of the backups of which Nova does not know yet, by server
        :param avoid: hosts to leave out
        """
        others = self._groups.others(server, placed)
        try:
            hosts = self._scheduled(server, others, avoid)
        except exception.Unreachable:
            hosts = self._beside(server.host, self._candidates.hosts(server))
        hosts = [host for host in self._serving(server, hosts) if host not in avoid]
        return groups.ordered(server, hosts, others)

    def permits(self, server: model.Server, host: str) -> bool:
        """Return whether Nova's policies allow a server on a host, its group aside.

        Without an answer of the scheduler, the aggregates decide.
        """
        try:
            if self._scheduler is not None:
                return self._scheduler.permits(server, host)
        except exception.Unreachable:
            pass
        return self._candidates.allowed(server, host)

    def _scheduled(self, server: model.Server, others: list[str],
                   avoid: Collection[str]) -> list[str]:
        if self._scheduler is None:
            raise exception.Unreachable('no scheduler')
        # Other members are not bound to a member that is still on the failed host.
        bound = sorted({host for host in others if host != server.host}
                       if groups.policy(server) == groups.AFFINITY else ())
        ignore = {server.host, *avoid, *groups.forbidden(server, others)}
        spec = self._scheduler.spec(server)
        key = (id(spec), tuple(bound), tuple(sorted(ignore)))
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None:
            return kept[1]
        hosts = self._ask(server, ignore, bound)
        with self._lock:
            self._kept[key] = spec, hosts
        return hosts

    def _ask(self, server: model.Server, ignore: Collection[str], bound: list[str]) -> list[str]:
        assert self._scheduler is not None
        hosts: list[str] = []
        while len(hosts) < _ENOUGH:
            more = self._scheduler.select(server, {*ignore, *hosts}, bound)
            hosts += [host for host in more if host not in hosts]
            if len(more) < 2:
                # No host is left, or Nova is configured to return no alternates.
                break
        return hosts

    def _serving(self, server: model.Server, hosts: list[str]) -> list[str]:
        services = self._facts.services()
        known, up = self._up
        if services is not known:
            up = frozenset(host for host, service in services.items() if serves(service))
            self._up = services, up
        return [host for host in hosts if host != server.host and host in up]


def serves(service: Mapping[str, Any]) -> bool:
    """Return whether a nova-compute may get servers, by what Nova lists of it."""
    return (service.get('state') == 'up' and service['status'] == 'enabled'
            and not service.get('forced_down'))
