# SPDX-License-Identifier: Apache-2.0
"""Hosts, servers and groups of the simulated cloud, the same in every process."""

import dataclasses
import functools
from typing import Any
import uuid

# One in so many servers of a host that fails is in an anti-affinity group, of so many members.
_GROUPED, _MEMBERS = 10, 4
# Tenants of each failed host.
_PROJECTS = 5


@dataclasses.dataclass(frozen=True)
class Inventory:
    """Hosts, of which some fail, with equally many servers each.

    :ivar hosts: number of hosts that live
    :ivar dead: number of hosts that fail
    :ivar servers: number of servers of each host
    """

    hosts: int
    dead: int
    servers: int

    @classmethod
    def of(cls, text: str) -> 'Inventory':
        """Return the inventory that an argument of a command describes."""
        return cls(*(int(number) for number in text.split(',')))

    def __str__(self) -> str:
        return f'{self.hosts},{self.dead},{self.servers}'

    @functools.cached_property
    def living_hosts(self) -> list[str]:
        """The hosts that live."""
        return [f'host{number}' for number in range(self.hosts)]

    @functools.cached_property
    def dead_hosts(self) -> list[str]:
        """The hosts that fail."""
        return [f'dead{number}' for number in range(self.dead)]

    @functools.cached_property
    def all_hosts(self) -> list[str]:
        """All hosts."""
        return self.living_hosts + self.dead_hosts

    @functools.cached_property
    def failed(self) -> dict[str, dict[str, Any]]:
        """The servers of all hosts that fail, by id."""
        return {server['id']: server for host in self.dead_hosts for server in self.on(host)}

    def on(self, host: str) -> list[dict[str, Any]]:
        """Return the servers of a host as Nova describes them."""
        return [self._server(host, place) for place in range(self.servers)]

    @functools.cached_property
    def groups(self) -> list[dict[str, Any]]:
        """The server groups as Nova describes them."""
        dead = self.dead_hosts
        return [{'id': made(f'group{place}.{first}'), 'name': 'apart', 'policy': 'anti-affinity',
                 'rules': {}, 'metadata': {}, 'members': [
                     made(f'vm{host}.{place}') for host in dead[first:first + _MEMBERS]]}
                for place in range(0, self.servers, _GROUPED)
                for first in range(0, self.dead, _MEMBERS)]

    def _server(self, host: str, place: int) -> dict[str, Any]:
        number = int(host.lstrip('abcdefghijklmnopqrstuvwxyz'))
        # Nova's groups belong to one project.
        grouped = host in self.dead_hosts and place % _GROUPED == 0
        project = (f'group{place}.{number // _MEMBERS}' if grouped
                   else f'project{host}.{place % _PROJECTS}')
        return {
            'id': made(f'vm{host}.{place}'), 'name': f'{host}-{place}', 'tenant_id': project,
            'status': 'ACTIVE', 'locked': False, 'metadata': {}, 'image': '',
            'OS-EXT-SRV-ATTR:host': host, 'OS-EXT-STS:task_state': None,
            'OS-EXT-AZ:availability_zone': 'nova',
            'flavor': {'original_name': 'm1.small', 'vcpus': 1, 'ram': 2048, 'disk': 20,
                       'ephemeral': 0, 'swap': 0, 'extra_specs': {}},
            'os-extended-volumes:volumes_attached': [{'id': made(f'volume{host}.{place}')}]}


def made(name: str) -> str:
    """Return the UUID for a name."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))
