# SPDX-License-Identifier: Apache-2.0
"""The hosts that have room for a server and may run it."""

from collections.abc import Callable, Mapping
import hashlib
import json
import threading
import time
from typing import Any

from specreds_nova.engine import model
from specreds_nova.engine.clients import facts as cloud_facts
from specreds_nova.engine.clients import flavors
from specreds_nova.engine.clients import rest

# Seconds for which an answer serves all servers with the same query: a host without room refuses
# when a backup claims it.
_VALID = 1.5
_AFFINITY = 'affinity'
# Extra spec of flavors whose servers have a virtual TPM.
_VTPM = 'hw:tpm_version'
_TENANT = 'filter_tenant_id'
_SPECS = 'aggregate_instance_extra_specs:'


class Candidates:
    """Placement's allocation candidates that Nova's policies allow.

    :param where: returns the host of a server; None if it is deleted
    """

    def __init__(self, placement: rest.Service, facts: cloud_facts.Facts,
                 where: Callable[[str], str | None]) -> None:
        self._placement = placement
        self._facts = facts
        self._where = where
        self._lock = threading.Lock()
        self._kept: dict[str, tuple[float, list[str]]] = {}

    def warm_up(self) -> None:
        """Get a token and find Placement, before a recovery needs them."""
        self._placement.get('/resource_providers', name='none')

    def hosts(self, server: model.Server, placed: Mapping[str, str]) -> list[str]:
        """Return the hosts for a server, the best first.

        :param placed: by server, the host of a backup that Nova does not know of yet
        """
        services = self._facts.services()
        allowed = [
            host for host in self._with_room(server)
            if host != server.host and _serves(services.get(host))
            and server.zone in (None, services[host].get('zone'))
            and self._allowed(server, host)]
        return self._by_group(server, allowed, placed)

    def immovable(self, server: model.Server) -> str | None:
        """Return why Nova would evacuate a server to no host; None if it may.

        Nova's API refuses servers with a virtual TPM, whose state would be lost. The first of
        several members of an affinity group that leaves their host is refused where it arrives,
        as the others are not there.
        """
        if _VTPM in (server.flavor.get('extra_specs') or {}):
            return 'Nova evacuates no server with a virtual TPM, whose state is on its host'
        group = server.group
        if group is None or group.get('policy') != _AFFINITY:
            return None
        others = [self._where(member) for member in group['members'] if member != server.id]
        if server.host not in others or any(host not in (None, server.host) for host in others):
            return None
        return (f'Nova evacuates no server of an affinity group away from the other members on '
                f'its host {server.host}: it would need a backup, or another server group')

    def _with_room(self, server: model.Server) -> list[str]:
        query = flavors.query(server.flavor, boots_from_volume=server.boots_from_volume)
        key = json.dumps(query, sort_keys=True)
        with self._lock:
            # Of several threads with the same query, one sends it.
            until, hosts = self._kept.get(key, (0.0, []))
            if time.monotonic() >= until:
                hosts = self._ask(query)
                self._kept = {other: answer for other, answer in self._kept.items()
                              if answer[0] > time.monotonic()}
                self._kept[key] = (time.monotonic() + _VALID, hosts)
            return hosts

    def _ask(self, query: Mapping[str, str]) -> list[str]:
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
        return sorted(best, key=lambda host: (-best[host], host))

    def _allowed(self, server: model.Server, host: str) -> bool:
        """Return whether the aggregates of a host allow a server on it."""
        aggregates = self._facts.aggregates(host)
        for aggregate in aggregates:
            tenants = [tenant.strip() for key, value in aggregate['metadata'].items()
                       if key.startswith(_TENANT) for tenant in value.split(',')]
            if tenants and server.project not in tenants:
                return False
        specs: Mapping[str, str] = server.flavor.get('extra_specs') or {}
        return all(any(aggregate['metadata'].get(key.removeprefix(_SPECS)) == value
                       for aggregate in aggregates)
                   for key, value in specs.items() if key.startswith(_SPECS))

    def _by_group(self, server: model.Server, hosts: list[str], placed: Mapping[str, str]
                  ) -> list[str]:
        """Remove the hosts that the server's group forbids, and put those last that it avoids."""
        group = server.group
        if group is None or not hosts:
            return hosts
        policy = str(group.get('policy') or '')
        others = [placed.get(member) or self._where(member)
                  for member in group['members'] if member != server.id]
        count = {host: others.count(host) for host in hosts}
        if policy.endswith('anti-affinity'):
            most = int((group.get('rules') or {}).get('max_server_per_host', 1))
            near = [host for host in hosts if count[host] < most]
            if policy == 'anti-affinity':
                return near
            return near + [host for host in hosts if host not in near]
        if not policy.endswith('affinity'):
            return hosts
        together = [host for host in hosts if count[host]]
        if not together:
            # All members are on the suspected host: they meet again on the same new host, the
            # first in an order that all engines compute.
            return sorted(hosts, key=lambda host: _draw(str(group['id']), host), reverse=True)
        if policy == _AFFINITY:
            return together
        return together + [host for host in hosts if host not in together]


def _serves(service: Mapping[str, Any] | None) -> bool:
    return (service is not None and service['state'] == 'up' and service['status'] == 'enabled'
            and not service.get('forced_down'))


def _free(summary: Mapping[str, Any]) -> float:
    """Return the free share of the memory of a provider."""
    memory = summary['resources'].get('MEMORY_MB')
    if not memory or not memory['capacity']:
        return 0.0
    return 1.0 - float(memory['used']) / float(memory['capacity'])


def _draw(group: str, host: str) -> bytes:
    """Return a key by which all engines choose the same host for a group."""
    return hashlib.sha256(f'{group} {host}'.encode()).digest()
