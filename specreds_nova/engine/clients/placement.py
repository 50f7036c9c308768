# SPDX-License-Identifier: Apache-2.0
"""The hosts that have room for a server and may run it."""

from collections.abc import Mapping, Sequence
import dataclasses
import json
import threading
import time
from typing import Any

from specreds_nova.engine import model
from specreds_nova.engine.clients import facts as cloud_facts
from specreds_nova.engine.clients import flavors
from specreds_nova.engine.clients import rest

# Seconds for which servers with equal queries share an answer. The answer may be outdated: a full
# host refuses the claim of a backup.
_VALID = 1.5
# Candidates in the first request, as many as Nova's scheduler requests.
_LIMIT = 1000
_TENANT = 'filter_tenant_id'
_SPECS = 'aggregate_instance_extra_specs:'
# Aggregates of a host that is in none.
_NONE: Sequence[Mapping[str, Any]] = ()


@dataclasses.dataclass
class _Room:
    """An answer of Placement.

    :ivar hosts: the hosts that have room, the best first
    :ivar whole: whether the list is complete
    :ivar allowed: the allowed hosts among them, by zone, project and extra specs of the servers
    """

    until: float
    hosts: list[str]
    whole: bool
    allowed: dict[tuple[str | None, str, str], list[str]] = dataclasses.field(
        default_factory=dict)


class Candidates:
    """Placement's allocation candidates that zones and aggregates allow."""

    def __init__(self, placement: rest.Service, facts: cloud_facts.Facts) -> None:
        self._placement = placement
        self._facts = facts
        self._lock = threading.Lock()
        self._kept: dict[str, _Room] = {}

    def warm_up(self) -> None:
        """Get a token and find Placement, before a recovery needs them."""
        self._placement.get('/resource_providers', name='none')

    def hosts(self, server: model.Server) -> list[str]:
        """Return the hosts for a server, the best first.

        Placement is asked for a limited number of hosts, and for all of them if none of those is
        allowed.
        """
        room = self._with_room(server, _LIMIT)
        hosts = self._allowed_in(room, server)
        return hosts if hosts or room.whole else self._allowed_in(
            self._with_room(server, None), server)

    def _allowed_in(self, room: _Room, server: model.Server) -> list[str]:
        specs = json.dumps(server.flavor.get('extra_specs') or {}, sort_keys=True)
        key = (server.zone, server.project, specs)
        hosts = room.allowed.get(key)
        if hosts is None:
            services, aggregates = self._facts.services(), self._facts.aggregates_of_all()
            # By sequence of aggregates, which many of the hosts share.
            verdicts: dict[int, bool] = {}

            def allowed(host: str) -> bool:
                its = aggregates.get(host, _NONE)
                verdict = verdicts.get(id(its))
                if verdict is None:
                    verdict = verdicts[id(its)] = allow(its, server)
                return verdict
            hosts = room.allowed[key] = [
                host for host in room.hosts
                if server.zone in (None, services.get(host, {}).get('zone')) and allowed(host)]
        return hosts

    def _with_room(self, server: model.Server, limit: int | None) -> _Room:
        for query in flavors.queries(server.flavor, boots_from_volume=server.boots_from_volume):
            room = self._room(query, limit)
            if room.hosts:
                break
        return room

    def _room(self, query: dict[str, str], limit: int | None) -> _Room:
        if limit is not None:
            query['limit'] = str(limit)
        key = json.dumps(query, sort_keys=True)
        with self._lock:
            # Only one of several threads with equal queries sends a request.
            room = self._kept.get(key)
            if room is None or time.monotonic() >= room.until:
                hosts, count = self._ask(query)
                now = time.monotonic()
                room = _Room(now + _VALID, hosts, limit is None or count < limit)
                self._kept = {other: answer for other, answer in self._kept.items()
                              if answer.until > now}
                self._kept[key] = room
            return room

    def _ask(self, query: Mapping[str, str]) -> tuple[list[str], int]:
        """Return the hosts that have room, and the number of candidates."""
        answer = self._placement.get('/allocation_candidates', **query)
        summaries = answer['provider_summaries']
        best: dict[str, float] = {}
        for request in answer['allocation_requests']:
            for provider in request['allocations']:
                root = summaries[provider].get('root_provider_uuid') or provider
                host = self._facts.host(root)
                if host is not None:
                    best[host] = max(best.get(host, 0.0),
                                     _free(summaries.get(root) or summaries[provider]))
        return (sorted(best, key=lambda host: (-best[host], host)),
                len(answer['allocation_requests']))

    def allowed(self, server: model.Server, host: str) -> bool:
        """Return whether the aggregates of a host allow a server on it."""
        return allow(self._facts.aggregates(host), server)


def allow(aggregates: Sequence[Mapping[str, Any]], server: model.Server) -> bool:
    """Return whether the aggregates of a host allow a server on it."""
    for aggregate in aggregates:
        tenants = _tenants(aggregate)
        if tenants and server.project not in tenants:
            return False
    specs: Mapping[str, str] = server.flavor.get('extra_specs') or {}
    return all(any(aggregate['metadata'].get(key.removeprefix(_SPECS)) == value
                   for aggregate in aggregates)
               for key, value in specs.items() if key.startswith(_SPECS))


def is_for_tenants(aggregate: Mapping[str, Any]) -> bool:
    """Return whether only servers of some projects are allowed in an aggregate."""
    return bool(_tenants(aggregate))


def _tenants(aggregate: Mapping[str, Any]) -> list[str]:
    return [tenant.strip() for key, value in aggregate['metadata'].items()
            if key.startswith(_TENANT) for tenant in value.split(',')]


def _free(summary: Mapping[str, Any]) -> float:
    """Return the free share of the memory of a provider."""
    memory = summary['resources'].get('MEMORY_MB')
    if not memory or not memory['capacity']:
        return 0.0
    return 1.0 - float(memory['used']) / float(memory['capacity'])
