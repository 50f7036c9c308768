# SPDX-License-Identifier: Apache-2.0
"""The machines of a fake cloud, its servers' domains on them, and what tenants see of those."""

import itertools
from typing import Any

from testing.simulation import hub as hubs
from testing.simulation import parts


class Machines:
    """Hosts and servers. Their activities belong to the process ``cloud``."""

    def __init__(self, hub: hubs.Hub) -> None:
        self.hub = hub
        hub.strict.add('cloud')
        self.hosts: dict[str, parts.Host] = {}
        self.servers: dict[str, parts.Server] = {}
        self.superpositions: dict[str, parts.Superposition] = {}
        self._count = itertools.count(1)
        self.unreachable: set[str] = set()
        # Length of the lease on the network, in seconds; 0 for none.
        self.lease = 0.0
        # Sentinels answer through Ceph which servers run.
        self.second_opinion = False
        # By host: when it has reported last that it has no copies of servers that run elsewhere.
        self.cleaned: dict[str, float] = {}
        # Host, server and time of each crash.
        self.crashes: list[tuple[str, str, float]] = []

    def _spawn(self, act: Any, after: float = 0.0) -> hubs.Actor:
        return self.hub.spawn('cloud', act, after)

    # Hosts

    def expect_answers(self, server_id: str, asker: str) -> None:
        """Have a host ask the sentinel of a primary, as a backup starts there."""

    def is_silent(self, server: parts.Server | None, asker: str) -> bool:
        """Return whether the sentinel of a server was asked, and has not answered in time."""
        del asker
        if server is None or server.primary is None or not self.second_opinion:
            return False
        host = self.hosts[server.primary.host]
        return not (host.alive and host.storage)

    def primary_runs(self, server: parts.Server | None, asker: str) -> bool | None:
        """Return whether a server runs by the sentinel of its host; None without an answer.

        :param asker: the host of the backup, which asks
        """
        del asker
        if server is None or server.primary is None or not self.second_opinion:
            return None
        host = self.hosts[server.primary.host]
        if not host.alive or not host.storage:
            return None
        return server.primary.runs and not server.primary.fenced

    def kill_host(self, name: str) -> None:
        """Turn a host off."""
        host = self.hosts[name]
        host.alive = host.beats = host.reached = False
        host.silent = self.hub.now()
        self.end_guests(host)

    def end_guests(self, host: parts.Host) -> None:
        """End all guests of a host that loses power."""
        for server in self.servers.values():
            for copy in server.copies:
                if copy.host == host.name:
                    copy.runs = False
        for backup in host.backups.values():
            backup.runs = False

    def boot_host(self, name: str) -> None:
        """Turn a host on again, without its guests."""
        host = self.hosts[name]
        host.alive = host.reached = True
        host.service += 1
        host.started = host.booted = self.hub.now()
        for backup in host.backups.values():
            if backup.phase not in ('adopted', 'merged', 'aborted', 'failed'):
                backup.phase = 'failed'
        self.heal_host(name)

    def cut_host(self, name: str) -> None:
        """Disconnect a host that stays alive."""
        host = self.hosts[name]
        host.beats = host.reached = False
        host.silent = self.hub.now()

    def heal_host(self, name: str) -> None:
        """Connect a host again."""
        host = self.hosts[name]
        host.beats = host.reached = host.storage = True
        host.since = self.hub.now()

    def lose_storage(self, name: str) -> None:
        """Cut a host off from Ceph: its sentinel ends no server, and its guests do not write."""
        host = self.hosts[name]
        host.storage, host.deaf = False, self.hub.now()

    def isolate(self, name: str) -> None:
        """Cut a host off from everything but the tenants' network."""
        self.cut_host(name)
        self.lose_storage(name)

    def renew(self, name: str) -> None:
        """Renew the lease of a host, whose heartbeat has been answered."""
        self.hosts[name].renewed = self.hub.now()

    def stall_host(self, name: str) -> None:
        """Keep the guests of a host from writing."""
        self.hosts[name].stalled = True

    def resume_host(self, name: str) -> None:
        """Let the guests of a host write again."""
        self.hosts[name].stalled = False

    # Copies of servers

    def _connect(self, server: parts.Server, host: str) -> None:
        """Connect a new copy of a server to the network.

        :raises parts.Wrong: a copy that is fenced can still be seen
        """
        for copy in server.copies:
            if copy.runs and copy.fenced and self._shows(self.hosts[copy.host]):
                wrong = parts.Wrong(
                    f'{server.name} is fenced on {copy.host}, and would be seen twice')
                # An engine that calls this would take it for an answer of a host.
                self.hub.failures.append(wrong)
                raise wrong
        server.connect(host)

    def _shows(self, host: parts.Host) -> bool:
        """Return whether a host shows tenants servers that are fenced.

        A sentinel that reaches Ceph ends them; another one hides them when its lease is over.
        """
        if host.storage:
            return False
        if not host.hides:
            return not host.hidden
        return not self.lease or self.hub.now() < max(host.deaf, host.renewed) + (
            self._lease(host))

    def _lease(self, host: parts.Host) -> float:
        """Return the seconds that a lease takes on a host."""
        return self.lease / host.rate

    def clean(self, host: parts.Host) -> None:
        """Destroy the copies on a host of servers that run elsewhere."""
        for server in self.servers.values():
            for copy in server.copies:
                if copy.host == host.name and copy is not server.primary:
                    copy.runs = False

    def stale(self, host: str) -> bool:
        """Return whether a host has copies of servers that run elsewhere."""
        return any(copy.host == host and copy.runs and copy is not server.primary
                   for server in self.servers.values() for copy in server.copies)

    def seen(self, server: parts.Server) -> list[str]:
        """Return the hosts whose copy of a server serves."""
        return [copy.host for copy in server.copies if copy.runs and not copy.fenced]
