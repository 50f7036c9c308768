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
# One in so many servers of a host is long, if some are.
_LONG = 5
# Flavors.
SHORT, LONG = 'm1.small', 'm1.large'
# Seconds from the start of a guest until its backup is ready.
READY = 5.0


@dataclasses.dataclass(frozen=True)
class Inventory:
    """Hosts, of which some fail, with equally many servers each.

    :ivar hosts: number of hosts that live
    :ivar dead: number of hosts that fail
    :ivar servers: number of servers of each host
    :ivar short: seconds from the start of a guest until its backup is ready
    :ivar long: the same for every fifth server, which has a larger flavor; 0 if all are equal
    """

    hosts: int
    dead: int
    servers: int
    short: float = READY
    long: float = 0.0

    @classmethod
    def of(cls, text: str) -> 'Inventory':
        """Return the inventory that an argument of a command describes."""
        hosts, dead, servers, short, long = text.split(',')
        return cls(int(hosts), int(dead), int(servers), float(short), float(long))

    def __str__(self) -> str:
        return f'{self.hosts},{self.dead},{self.servers},{self.short},{self.long}'

    def is_long(self, server_id: str) -> bool:
        """Return whether a server of a host that fails takes long."""
        return bool(self.failed[server_id]['flavor']['original_name'] == LONG)

    def ready(self, server_id: str) -> float:
        """Return the seconds until the backup of a server is ready."""
        return self.long if self.long and self.is_long(server_id) else self.short

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
        long = self.long and place % _LONG == 0
        return {
            'id': made(f'vm{host}.{place}'), 'name': f'{host}-{place}', 'tenant_id': project,
            'status': 'ACTIVE', 'locked': False, 'metadata': {}, 'image': '',
            'OS-EXT-SRV-ATTR:host': host, 'OS-EXT-STS:task_state': None,
            'OS-EXT-AZ:availability_zone': 'nova',
            'flavor': {'original_name': LONG if long else SHORT, 'vcpus': 1, 'ram': 2048,
                       'disk': 20, 'ephemeral': 0, 'swap': 0, 'extra_specs': {}},
            'os-extended-volumes:volumes_attached': [{'id': made(f'volume{host}.{place}')}]}


def made(name: str) -> str:
    """Return the UUID for a name."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))
