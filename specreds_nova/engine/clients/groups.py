# SPDX-License-Identifier: Apache-2.0
"""Server groups: the hosts that the policy of a group forbids or prefers."""

from collections.abc import Callable, Mapping
import hashlib

from specreds_nova.engine import model

AFFINITY = 'affinity'
_ANTI_AFFINITY = 'anti-affinity'


class Groups:
    """The hosts of the members of server groups.

    :param hosts_of: returns the host of each server of a project that exists
    """

    def __init__(self, hosts_of: Callable[[str], Mapping[str, str]]) -> None:
        self._hosts_of = hosts_of

    def others(self, server: model.Server, placed: Mapping[str, str]) -> list[str]:
        """Return the host of each other member of a server's group.

        :param placed: by server, the host of a backup that Nova does not know of yet
        """
        group = server.group
        members = [member for member in group['members'] if member != server.id] if group else []
        if not members:
            return []
        hosts = {**self._hosts_of(server.project), **placed}
        return [hosts[member] for member in members if member in hosts]

    def immovable(self, server: model.Server) -> str | None:
        """Return why Nova would evacuate a server to no host; None if it may.

        The first of several members of an affinity group that leaves their host is refused where
        it arrives, as the others are not there.
        """
        if policy(server) != AFFINITY:
            return None
        others = set(self.others(server, {}))
        if others != {server.host}:
            return None
        return (f'Nova evacuates no server of an affinity group away from the other members on '
                f'its host {server.host}: it would need a backup, or another server group')


def policy(server: model.Server) -> str:
    """Return the policy of a server's group; empty without a group."""
    return str((server.group or {}).get('policy') or '')


def forbidden(server: model.Server, others: list[str]) -> set[str]:
    """Return the hosts that an anti-affinity forbids."""
    if policy(server) != _ANTI_AFFINITY:
        return set()
    return {host for host in others if others.count(host) >= _most(server)}


def ordered(server: model.Server, hosts: list[str], others: list[str]) -> list[str]:
    """Remove the hosts that a server's group forbids, and put those last that it avoids."""
    name = policy(server)
    if name.endswith(_ANTI_AFFINITY):
        near = [host for host in hosts if others.count(host) < _most(server)]
        return near if name == _ANTI_AFFINITY else _first(near, hosts)
    if not name.endswith(AFFINITY) or server.group is None:
        return hosts
    together = [host for host in hosts if host in others]
    if not together:
        # All members are on the suspected host: they meet again on the same new host, the first in
        # an order that all engines compute.
        group = str(server.group['id'])
        return sorted(hosts, key=lambda host: _draw(group, host), reverse=True)
    return together if name == AFFINITY else _first(together, hosts)


def _first(preferred: list[str], hosts: list[str]) -> list[str]:
    return preferred + [host for host in hosts if host not in preferred]


def _most(server: model.Server) -> int:
    """Return how many members an anti-affinity allows on one host."""
    return int(((server.group or {}).get('rules') or {}).get('max_server_per_host', 1))


def _draw(group: str, host: str) -> bytes:
    """Return a key by which all engines choose the same host for a group."""
    return hashlib.sha256(f'{group} {host}'.encode()).digest()
