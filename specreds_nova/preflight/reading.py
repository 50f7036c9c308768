# SPDX-License-Identifier: Apache-2.0
"""Reads a cloud through its APIs, as an administrator. Changes nothing."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import time
from typing import Any

from openstack import exceptions as sdk_exceptions

from specreds_nova.engine import model
from specreds_nova.engine.clients import compute

Thing = Mapping[str, Any]

CEPH = 'ceph'

# Seconds between two requests: 20 in a second.
APART = 0.05
# Objects of an answer. An engine also reads them, and hears no heartbeat while it parses one.
_PAGE = 250
# Nova shows the flavor with its extra specs from 2.47 on, Cinder needs no microversion.
_NOVA = {'microversion': '2.79'}
_PLACEMENT = '1.36'
# What is kept of a volume.
_VOLUME = ('multiattach', 'os-vol-host-attr:host', 'replication_status', 'volume_image_metadata')


@dataclasses.dataclass(frozen=True)
class Cloud:
    """What a cloud consists of, as its APIs show it.

    :ivar protocols: by back end of Cinder, as HOST@BACKEND: how its storage is reached
    :ivar rbd_pools: names of the pools of volumes in Ceph
    :ivar hypervisors: type of the hypervisor by host
    :ivar providers: by the id of a resource provider in Placement: its host
    :ivar aggregates: the aggregates of each host
    :ivar ports: by server
    :ivar extended: Cinder has the extension
    """

    servers: Sequence[model.Server]
    volumes: Mapping[str, Thing]
    protocols: Mapping[str, str]
    rbd_pools: frozenset[str]
    services: Sequence[Thing]
    hypervisors: Mapping[str, str]
    providers: Mapping[str, str]
    aggregates: Mapping[str, Sequence[Thing]]
    ports: Mapping[str, Sequence[Thing]]
    extended: bool


class Reader:
    """Sends requests one after the other, at most 20 in a second.

    Each request raises ``SDKException`` if a service does not answer, or refuses to.

    :param connection: of openstacksdk
    :param tell: receives what is read, in words, and how many objects of that there are so far
    :param describe: returns a server that Nova shows
    """

    def __init__(self, connection: Any, tell: Callable[[str, int], object] = lambda *_: None,
                 describe: Callable[[Thing], model.Server] = lambda shown: compute.described(
                     shown, {}),
                 now: Callable[[], float] = time.monotonic,
                 sleep: Callable[[float], object] = time.sleep) -> None:
        self._connection = connection
        self._tell = tell
        self._describe = describe
        self._now = now
        self._sleep = sleep
        self._next = float('-inf')

    def wait(self) -> None:
        """Wait until another request may be sent."""
        left = self._next - self._now()
        if left > 0.0:
            self._sleep(left)
        self._next = max(self._next, self._now()) + APART

    def read(self) -> Cloud:
        """Read the cloud."""
        nova, cinder = self._connection.compute, self._connection.block_storage
        servers = [self._describe(shown) for shown in self._pages(
            'servers', nova, '/servers/detail', all_tenants='true', **_NOVA)]
        volumes = {volume['id']: {key: volume[key] for key in _VOLUME if key in volume}
                   for volume in self._pages('volumes', cinder, '/volumes/detail',
                                             all_tenants='true')}
        pools = self._get(cinder, '/scheduler-stats/get_pools', detail='true')['pools']
        ports: dict[str, list[Thing]] = {}
        for port in self._pages('ports', self._connection.network, '/ports', fields=[
                'id', 'device_id', 'binding:vif_type', 'binding:vnic_type']):
            ports.setdefault(port['device_id'], []).append(port)
        # The rules of a server also stand in these.
        aggregates: dict[str, list[Thing]] = {}
        for aggregate in self._get(nova, '/os-aggregates')['aggregates']:
            for host in aggregate['hosts']:
                aggregates.setdefault(host, []).append(aggregate)
        hypervisors = [*self._pages('hypervisors', nova, '/os-hypervisors/detail', **_NOVA)]
        return Cloud(
            [dataclasses.replace(server, aggregates=tuple(aggregates.get(server.host, ())))
             for server in servers], volumes,
            {pool['name'].partition('#')[0]: str(
                pool.get('capabilities', {}).get('storage_protocol', '')) for pool in pools},
            # Of Ceph, the last part is the name of the pool.
            frozenset(str(pool['capabilities']['location_info']).rpartition(':')[2]
                      for pool in pools
                      if pool.get('capabilities', {}).get('storage_protocol') == CEPH
                      and pool['capabilities'].get('location_info')),
            self._get(nova, '/os-services', binary='nova-compute')['services'],
            {each['service']['host']: each['hypervisor_type'] for each in hypervisors},
            {each['id']: each['service']['host'] for each in hypervisors}, aggregates, ports,
            'os-superpositions' in {each['alias'] for each in self._get(
                cinder, '/extensions')['extensions']})

    def candidates(self, query: Mapping[str, str]) -> Thing:
        """Return Placement's allocation candidates for a query."""
        answer: Thing = self._get(self._connection.placement, '/allocation_candidates',
                                  _PLACEMENT, **query)
        return answer

    def _pages(self, name: str, service: Any, path: str, **query: Any) -> Iterator[Thing]:
        marker: dict[str, str] = {}
        count = 0
        while True:
            page = self._get(service, path, limit=_PAGE, **marker, **query)[name]
            count += len(page)
            self._tell(name, count)
            yield from page
            # Services may send less than they are asked for.
            if not page:
                return
            marker = {'marker': page[-1]['id']}

    def _get(self, service: Any, path: str, microversion: str | None = None, **query: Any) -> Any:
        self.wait()
        response = service.get(path, params=query, microversion=microversion)
        sdk_exceptions.raise_from_response(response)
        return response.json()
