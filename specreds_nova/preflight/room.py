# SPDX-License-Identifier: Apache-2.0
"""Where servers would find room if their hosts failed: an estimate by Placement's answers.

Placement says once for each kind of server which hosts have room for one, and how much is free
there. That is shared out from host to host, as Nova's scheduler does by default. Its filters,
server groups, cells, and servers that come or go meanwhile are left out.
"""

import collections
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import itertools
import json
from typing import Any

from specreds_nova.engine import model
from specreds_nova.engine.clients import destinations
from specreds_nova.engine.clients import flavors
from specreds_nova.engine.clients import placement
from specreds_nova.preflight import reading

# A resource of a provider, and how much of it a server takes.
_Resource = tuple[str, str]
_Candidate = tuple[str, tuple[tuple[_Resource, int], ...]]


class Room:
    """The room on the hosts of a cloud.

    :param servers: those whose room is asked for
    :param ask: returns Placement's allocation candidates for a query
    """

    def __init__(self, cloud: reading.Cloud, servers: Iterable[model.Server],
                 ask: Callable[[Mapping[str, str]], reading.Thing]) -> None:
        self._cloud = cloud
        self._ask = ask
        # Of hosts that may get servers.
        self._zones = {str(service['host']): service.get('zone') for service in cloud.services
                       if destinations.serves(service)}
        by_tenant = any(placement.is_for_tenants(aggregate)
                        for its in cloud.aggregates.values() for aggregate in its)
        self._free: dict[_Resource, int] = {}
        self._answers: dict[str, list[_Candidate]] = {}
        kinds: dict[Any, list[_Candidate]] = {}
        self._candidates: dict[str, list[_Candidate]] = {}
        for server in servers:
            key = (json.dumps(server.flavor, sort_keys=True, default=str),
                   server.boots_from_volume, server.zone, by_tenant and server.project)
            if key not in kinds:
                kinds[key] = self._of(server)
            self._candidates[server.id] = kinds[key]

    @property
    def hosts(self) -> frozenset[str]:
        """Return the hosts that may get servers."""
        return frozenset(self._zones)

    def place(self, servers: Iterable[model.Server], dead: Collection[str]
              ) -> dict[str, str | None]:
        """Return the host on which each server would be; None if no host has room.

        :param servers: in the order in which they are placed
        :param dead: the hosts that have failed
        """
        taken: collections.Counter[_Resource] = collections.Counter()
        # By kind: the hosts that are left, the next one last.
        left: dict[int, list[_Candidate]] = {}
        placed: dict[str, str | None] = {}
        for server in servers:
            candidates = self._candidates[server.id]
            ring = left.get(id(candidates))
            if ring is None:
                ring = left[id(candidates)] = candidates[::-1]
            placed[server.id] = None
            while ring:
                host, needs = candidate = ring.pop()
                if host in dead or any(self._free[resource] - taken[resource] < amount
                                       for resource, amount in needs):
                    # Nothing is given back, so that the host has no room for later ones either.
                    continue
                taken.update(dict(needs))
                ring.insert(0, candidate)
                placed[server.id] = host
                break
        return placed

    def without(self, by_host: Mapping[str, Sequence[model.Server]], *, pairs: bool
                ) -> dict[str, tuple[str, ...]]:
        """Return the servers that would find no room, each with the fewest hosts that fail.

        :param by_host: the servers of each host, in the order in which they are placed
        :param pairs: also let two hosts fail at once
        """
        without: dict[str, tuple[str, ...]] = {}
        for count in (1, 2) if pairs else (1,):
            for dead in itertools.combinations(sorted(by_host), count):
                servers = [server for host in dead for server in by_host[host]]
                for server, host in self.place(servers, dead).items():
                    if host is None:
                        without.setdefault(server, dead)
        return without

    def _of(self, server: model.Server) -> list[_Candidate]:
        """Return the hosts for a server, the one with the most free memory first."""
        candidates = next(filter(None, map(self._asked, flavors.queries(
            server.flavor, boots_from_volume=server.boots_from_volume))), [])
        return [(host, needs) for host, needs in candidates if host in self._zones
                and server.zone in (None, self._zones[host])
                and placement.allow(self._cloud.aggregates.get(host, ()), server)]

    def _asked(self, query: dict[str, str]) -> list[_Candidate]:
        key = json.dumps(query, sort_keys=True)
        if key not in self._answers:
            self._answers[key] = self._read(self._ask(query))
        return self._answers[key]

    def _read(self, answer: reading.Thing) -> list[_Candidate]:
        summaries = answer['provider_summaries']
        for provider, summary in summaries.items():
            for name, resource in summary['resources'].items():
                self._free[provider, name] = int(resource['capacity']) - int(resource['used'])
        by_host: dict[str, _Candidate] = {}
        for request in answer['allocation_requests']:
            needs = tuple(((provider, name), int(amount))
                          for provider, its in request['allocations'].items()
                          for name, amount in its['resources'].items())
            provider = next(iter(request['allocations']))
            root = summaries[provider].get('root_provider_uuid') or provider
            if host := self._cloud.providers.get(root):
                by_host.setdefault(host, (host, needs))
        return sorted(by_host.values(), key=lambda candidate: (
            -max((self._free[resource] for resource, _ in candidate[1]
                  if resource[1] == 'MEMORY_MB'), default=0), candidate[0]))
