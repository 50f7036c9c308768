# SPDX-License-Identifier: Apache-2.0
"""The process that answers for Keystone, Nova, Placement and Cinder.

A request takes as long as on a cloud without load, once a worker of its service is free.
"""

import asyncio
import collections
from collections.abc import Callable
import dataclasses
import json
import random
import re
import sys
import time
from typing import Any
import uuid

from bench.scale import latency
from bench.scale.simulated import inventory as inventories
from bench.scale.simulated import web
from bench.scale.simulated import workers

_DAY = 86400.0
# Entries that Nova returns on one page.
_PAGE = 1000
# Hosts of one rack, which is an aggregate.
_RACK = 100
# Traits of a host: flags of a processor, most of them.
_TRAITS = [f'HW_CPU_X86_FLAG_{number}' for number in range(40)]
# Seconds that an evacuation takes, and that volumes are merged after a decision.
_EVACUATION = (5.0, 10.0)
_MERGED = 20.0

# Path of the number of requests so far, and of the time of workers.
COUNT = '/count'

Answer = Callable[..., web.Reply]


class OpenStack:
    """The services.

    :param inventory: the hosts and servers
    :param url: of this process
    """

    def __init__(self, inventory: inventories.Inventory, url: str) -> None:
        self._inventory = inventory
        self._url = url
        self._random = random.Random(1)
        self._servers = inventory.failed
        self._forced_down: set[str] = set()
        # By server: its new host, and when it is there.
        self._moves: dict[str, tuple[float, str]] = {}
        # By superposition: as Cinder describes it, and when it was decided.
        self._superpositions: dict[str, dict[str, Any]] = {}
        self._decided: dict[str, float] = {}
        self._candidates: dict[str, bytes] = {}
        self._count = 0
        # By first part of the path.
        self._workers = collections.defaultdict[str, workers.Workers](workers.Workers)
        self._routes: list[tuple[str, re.Pattern[str], Answer]] = [
            (method, re.compile(pattern), answer) for method, pattern, answer in (
                ('GET', COUNT, self._counted),
                ('POST', '/identity/v3/auth/tokens', self._token),
                ('GET', '/compute/servers/detail', self._list),
                ('GET', '/compute/servers/([^/]+)', self._server),
                ('POST', '/compute/servers/([^/]+)/action', self._act),
                ('GET', '/compute/os-services', self._services),
                ('PUT', '/compute/os-services/([^/]+)', self._force_down),
                ('GET', '/compute/os-hypervisors/detail', self._hypervisors),
                ('GET', '/compute/os-aggregates', self._aggregates),
                ('GET', '/compute/os-server-groups', self._groups),
                ('GET', '/compute/os-migrations', self._migrations),
                ('GET', '/placement/resource_providers', self._providers),
                ('GET', '/placement/allocation_candidates', self._room),
                ('POST', '/volume/os-superpositions', self._superpose),
                ('GET', '/volume/os-superpositions(?:/detail)?', self._all_superpositions),
                ('GET', '/volume/os-superpositions/([^/]+)', self._superposition),
                ('POST', '/volume/os-superpositions/([^/]+)/check', self._check),
                ('POST', '/volume/os-superpositions/([^/]+)/collapse', self._collapse),
                ('POST', '/volume/os-superpositions/fence', self._fence),
            )]

    def answer(self, request: web.Request) -> web.Reply:
        """Answer a request."""
        self._count += 1
        for method, pattern, answer in self._routes:
            match = pattern.fullmatch(request.path)
            if match and method == request.method:
                reply = answer(request, *match.groups())
                return reply if pattern.pattern == COUNT else self._served(request, reply)
        print(f'unforeseen: {request}', flush=True)
        return web.Reply({'error': {'message': 'it is not simulated'}}, status=400)

    def _served(self, request: web.Request, reply: web.Reply) -> web.Reply:
        """Return a reply that is sent when a worker has served the request."""
        service = self._workers[request.path.split('/')[1]]
        return dataclasses.replace(reply, seconds=service.serve(reply.seconds, time.monotonic()))

    def _takes(self, between: tuple[float, float]) -> float:
        return self._random.uniform(*between)

    def _reply(self, body: Any, between: tuple[float, float] = latency.NOVA) -> web.Reply:
        return web.Reply(body, self._takes(between))

    def _counted(self, request: web.Request) -> web.Reply:
        del request
        return web.Reply({'requests': self._count,
                          'busy': sum(each.busy for each in self._workers.values())})

    # Keystone

    def _token(self, request: web.Request) -> web.Reply:
        del request
        expires = time.strftime('%Y-%m-%dT%H:%M:%S.000000Z', time.gmtime(time.time() + _DAY))
        catalog = [{'type': kind, 'id': kind, 'name': kind, 'endpoints': [
            {'id': kind, 'interface': 'public', 'region': 'one', 'region_id': 'one',
             'url': f'{self._url}/{path}'}]}
            for kind, path in (('compute', 'compute'), ('placement', 'placement'),
                               ('block-storage', 'volume'))]
        token = {'methods': ['password'], 'expires_at': expires, 'issued_at': expires,
                 'user': {'id': 'u', 'name': 'u', 'domain': {'id': 'default', 'name': 'd'}},
                 'project': {'id': 'p', 'name': 'p', 'domain': {'id': 'default', 'name': 'd'}},
                 'roles': [{'id': 'r', 'name': 'admin'}], 'catalog': catalog}
        return web.Reply({'token': token}, self._takes(latency.NOVA), 201,
                         'X-Subject-Token: token\r\n')

    # Nova

    def _list(self, request: web.Request) -> web.Reply:
        host, project = request.query.get('host'), request.query.get('project_id')
        if project is not None:
            servers = [server for server in self._servers.values()
                       if server['tenant_id'] == project]
        elif host in self._inventory.dead_hosts:
            servers = [server for server in self._servers.values()
                       if server['OS-EXT-SRV-ATTR:host'] == host
                       and self._now(server)['OS-EXT-SRV-ATTR:host'] == host]
        elif host in self._inventory.all_hosts:
            servers = self._inventory.on(str(host))
        else:
            servers = []
        return self._reply({'servers': [self._now(server) for server in servers]}, latency.LIST)

    def _server(self, request: web.Request, server_id: str) -> web.Reply:
        del request
        return self._reply({'server': self._now(self._servers[server_id])})

    def _now(self, server: dict[str, Any]) -> dict[str, Any]:
        """Return a server as it is at this moment."""
        ended, host = self._moves.get(server['id'], (0.0, ''))
        if not host:
            return server
        if time.monotonic() < ended:
            return server | {'OS-EXT-STS:task_state': 'rebuilding'}
        return server | {'OS-EXT-SRV-ATTR:host': host}

    def _act(self, request: web.Request, server_id: str) -> web.Reply:
        evacuation = request.body.get('evacuate')
        if evacuation is not None:
            host = evacuation.get('host') or self._inventory.living_hosts[0]
            self._moves[server_id] = time.monotonic() + self._takes(_EVACUATION), host
        return web.Reply(None, self._takes(latency.NOVA), 202)

    def _services(self, request: web.Request) -> web.Reply:
        host = request.query.get('host')
        hosts = self._inventory.all_hosts if host is None else [host]
        return self._reply({'services': [self._service(name) for name in hosts]},
                           latency.LIST if host is None else latency.NOVA)

    def _service(self, host: str) -> dict[str, Any]:
        forced = host in self._forced_down
        return {'id': inventories.made(f'service{host}'), 'host': host, 'binary': 'nova-compute',
                'status': 'enabled', 'state': 'down' if forced else 'up', 'zone': 'nova',
                'disabled_reason': None, 'forced_down': forced,
                'updated_at': _stamp()}

    def _force_down(self, request: web.Request, service_id: str) -> web.Reply:
        [host] = [host for host in self._inventory.all_hosts
                  if inventories.made(f'service{host}') == service_id]
        if request.body['forced_down']:
            self._forced_down.add(host)
        else:
            self._forced_down.discard(host)
        return self._reply({'service': self._service(host)})

    def _hypervisors(self, request: web.Request) -> web.Reply:
        hosts, marker = self._inventory.all_hosts, request.query.get('marker')
        entries = [{'id': inventories.made(host), 'service': {'host': host}} for host in hosts]
        first = 1 + [entry['id'] for entry in entries].index(marker) if marker else 0
        page: dict[str, Any] = {'hypervisors': entries[first:first + _PAGE]}
        if first + _PAGE < len(entries):
            page['hypervisors_links'] = [{'rel': 'next', 'href': ''}]
        return self._reply(page, latency.LIST)

    def _aggregates(self, request: web.Request) -> web.Reply:
        del request
        hosts = self._inventory.living_hosts
        racks = [hosts[first:first + _RACK] for first in range(0, len(hosts), _RACK)]
        racks.append(self._inventory.dead_hosts)
        return self._reply({'aggregates': [
            {'id': number, 'name': f'rack{number}', 'metadata': {'rack': str(number)},
             'hosts': rack} for number, rack in enumerate(racks)]}, latency.LIST)

    def _groups(self, request: web.Request) -> web.Reply:
        first = int(request.query.get('offset', 0))
        return self._reply({'server_groups': self._inventory.groups[first:first + _PAGE]},
                           latency.LIST)

    def _migrations(self, request: web.Request) -> web.Reply:
        server_id = request.query['instance_uuid']
        ended, host = self._moves.get(server_id, (0.0, ''))
        under_way = host and time.monotonic() < ended
        return self._reply({'migrations': [
            {'status': 'running', 'dest_compute': host, 'created_at': _stamp(),
             'updated_at': _stamp()}] if under_way else []})

    # Placement

    def _providers(self, request: web.Request) -> web.Reply:
        del request
        return self._reply({'resource_providers': []})

    def _room(self, request: web.Request) -> web.Reply:
        limit = request.query.get('limit', '')
        if limit not in self._candidates:
            hosts = self._inventory.living_hosts[:int(limit) if limit else None]
            resources = {'VCPU': 1, 'MEMORY_MB': 2048}
            summary = {'resources': {'VCPU': {'capacity': 256, 'used': 0},
                                     'MEMORY_MB': {'capacity': 524288, 'used': 0}},
                       'traits': _TRAITS, 'parent_provider_uuid': None}
            ids = [inventories.made(host) for host in hosts]
            self._candidates[limit] = json.dumps({
                'allocation_requests': [{'allocations': {name: {'resources': resources}},
                                         'mappings': {'': [name]}} for name in ids],
                'provider_summaries': {name: summary | {'root_provider_uuid': name}
                                       for name in ids}}).encode()
        return self._reply(self._candidates[limit], latency.LIST)

    # Cinder

    def _superpose(self, request: web.Request) -> web.Reply:
        wanted, made = request.body['superposition'], str(uuid.uuid4())
        self._superpositions[made] = {
            'id': made, 'state': 'superposed', 'outcome': None, 'overlay_bytes': 0,
            'reason': wanted['reason'], 'server_id': wanted['server_id']}
        return web.Reply({'superposition': self._superpositions[made]},
                         self._takes(latency.SUPER), 202)

    def _all_superpositions(self, request: web.Request) -> web.Reply:
        state = request.query.get('state')
        return self._reply({'superpositions': [
            shown for shown in self._superpositions.values()
            if state in (None, shown['state'])] if 'all_tenants' in request.query else []})

    def _superposition(self, request: web.Request, superposition_id: str) -> web.Reply:
        del request
        if time.monotonic() - self._decided.get(superposition_id, float('inf')) > _MERGED:
            self._superpositions.pop(superposition_id, None)
        shown = self._superpositions.get(superposition_id)
        if shown is None:
            return web.Reply({'itemNotFound': {'message': 'it is merged'}},
                             self._takes(latency.NOVA), 404)
        return self._reply({'superposition': shown})

    def _check(self, request: web.Request, superposition_id: str) -> web.Reply:
        del request, superposition_id
        return self._reply({'check': {'dirty': False}})

    def _collapse(self, request: web.Request, superposition_id: str) -> web.Reply:
        del request
        self._superpositions[superposition_id] |= {'state': 'promoted', 'outcome': 'promoted'}
        self._decided[superposition_id] = time.monotonic()
        return self._reply({'collapse': {'outcome': 'promoted'}}, latency.SUPER)

    def _fence(self, request: web.Request) -> web.Reply:
        volumes = request.body['fence']['volume_ids']
        return self._reply({'fence': {'volumes': [
            {'id': volume, 'clients': 1} for volume in volumes]}})


def _stamp() -> str:
    """Return this moment as Nova writes it."""
    return time.strftime('%Y-%m-%dT%H:%M:%S.000000', time.gmtime())


def main() -> None:
    """Serve on a port until the process ends: ``PORT INVENTORY``."""
    port, inventory = int(sys.argv[1]), inventories.Inventory.of(sys.argv[2])
    services = OpenStack(inventory, f'http://127.0.0.1:{port}')
    asyncio.run(web.serve(port, services.answer))


if __name__ == '__main__':
    main()
