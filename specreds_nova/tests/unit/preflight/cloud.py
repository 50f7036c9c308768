# SPDX-License-Identifier: Apache-2.0
"""A cloud whose APIs answer from dictionaries."""

from typing import Any
from unittest import mock

from specreds_nova.preflight import reading

FLAVOR = {'original_name': 'm1', 'vcpus': 1, 'ram': 1024, 'disk': 0, 'ephemeral': 0, 'swap': 0,
          'extra_specs': {}}


def server(name: str, **values: Any) -> dict[str, Any]:
    """Return a server as Nova shows it."""
    return {
        'id': name, 'name': name, 'tenant_id': 'p1', 'status': 'ACTIVE', 'image': '',
        'OS-EXT-SRV-ATTR:host': 'h1', 'OS-EXT-STS:task_state': None, 'flavor': FLAVOR,
        'metadata': {}, 'os-extended-volumes:volumes_attached': [{'id': f'v-{name}'}], **values}


def volume(name: str, **values: Any) -> dict[str, Any]:
    """Return a volume as Cinder shows it."""
    return {'id': f'v-{name}', 'os-vol-host-attr:host': 'c1@rbd#rbd', 'multiattach': False,
            'volume_image_metadata': {'image_name': 'debian'}, **values}


class _Service:
    """A proxy of openstacksdk: only reads, and pages of two."""

    def __init__(self, answers: dict[str, Any], cloud: 'Cloud') -> None:
        self._answers = answers
        self._cloud = cloud

    def get(self, path: str, params: dict[str, Any], microversion: str | None) -> Any:
        """Answer a request."""
        del microversion
        self._cloud.requests.append(self._cloud.now)
        if isinstance(answer := self._answers[path], Exception):
            raise answer
        if 'resources' in params:
            return mock.Mock(status_code=200, json=lambda: answer)
        [(name, items)] = answer.items()
        if 'limit' in params:
            ids = [item['id'] for item in items]
            first = ids.index(params['marker']) + 1 if 'marker' in params else 0
            items = items[first:first + 2]
        return mock.Mock(status_code=200, json=lambda: {name: items})


class Cloud:
    """A cloud with two back ends, and hosts that have servers.

    :param servers: by host: the names of its servers, each a letter
    :ivar free: by host: for how many servers it has room
    """

    def __init__(self, **servers: str) -> None:
        self.now = 0.0
        self.requests: list[float] = []
        self.servers = [server(name, **{'OS-EXT-SRV-ATTR:host': host})
                        for host, names in servers.items() for name in names]
        self.volumes = [volume(server['name']) for server in self.servers]
        self.ports: list[dict[str, Any]] = []
        self.extensions: list[dict[str, str]] = []
        self.free = dict.fromkeys(servers, 0)
        self.hypervisors: list[dict[str, Any]] = [
            {'id': f'r-{host}', 'hypervisor_type': 'QEMU', 'service': {'host': host}}
            for host in servers]
        self.services: list[dict[str, Any]] = [
            {'host': host, 'status': 'enabled', 'state': 'up', 'zone': 'nova'}
            for host in servers]
        self.aggregates = [{'name': 'ssd', 'hosts': ['h1'], 'metadata': {}}]

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _candidates(self) -> dict[str, Any]:
        resources = {'VCPU': 1, 'MEMORY_MB': 1024}
        return {
            'allocation_requests': [
                {'allocations': {f'r-{host}': {'resources': resources}}}
                for host, count in self.free.items() if count],
            'provider_summaries': {
                f'r-{host}': {'root_provider_uuid': f'r-{host}', 'resources': {
                    name: {'capacity': amount * (count + 5), 'used': amount * 5}
                    for name, amount in resources.items()}}
                for host, count in self.free.items()}}

    def reader(self) -> reading.Reader:
        """Return a reader of the cloud."""
        connection = mock.Mock(
            compute=_Service({
                '/servers/detail': {'servers': self.servers},
                '/os-services': {'services': self.services},
                '/os-hypervisors/detail': {'hypervisors': self.hypervisors},
                '/os-aggregates': {'aggregates': self.aggregates}}, self),
            placement=_Service({'/allocation_candidates': self._candidates()}, self),
            block_storage=_Service({
                '/volumes/detail': {'volumes': self.volumes},
                '/extensions': {'extensions': self.extensions},
                '/scheduler-stats/get_pools': {'pools': [
                    {'name': 'c1@rbd#rbd', 'capabilities': {
                        'storage_protocol': 'ceph',
                        'location_info': 'ceph:/etc/ceph/ceph.conf:fsid:cinder:volumes'}},
                    {'name': 'c1@lvm#lvm', 'capabilities': {'storage_protocol': 'iSCSI'}}]}},
                self),
            network=_Service({'/ports': {'ports': self.ports}}, self))
        return reading.Reader(connection, now=lambda: self.now, sleep=self._sleep)
