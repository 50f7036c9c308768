# SPDX-License-Identifier: Apache-2.0
"""A fake cloud: hosts, guests, Nova and Cinder, faithful in whatever the engine relies on.

It raises :class:`parts.Wrong` when the network can reach two copies of a server, or when two
copies write to the same disks.
"""

from typing import Any

from specreds_cinder.superposition.truth import states
from testing.simulation import nova
from testing.simulation import parts

_RECONCILE = 30.0


class Cloud(nova.Nova):
    """The whole cloud: guests that write, and hosts that look after their backups."""

    def add_host(self, name: str, **values: Any) -> None:
        """Add a host."""
        self.hosts[name] = parts.Host(name, **values)
        self._spawn(lambda: self._reconcile(name))

    def add_server(self, name: str, host: str, **values: Any) -> None:
        """Add a server that runs."""
        server = parts.Server(name, host, **values)
        server.connect(host)
        self.servers[name] = server
        if server.period:
            self._spawn(lambda: self._write(server))

    def _write(self, server: parts.Server) -> None:
        while server.name in self.servers:
            self.hub.sleep(server.period * self.hub.random.uniform(0.5, 1.5))
            primary = server.primary
            if primary is None or not primary.runs or primary.fenced:
                continue
            if self.hosts[primary.host].stalled or not self.hosts[primary.host].storage:
                continue
            record = self.superpositions.get(server.superposition or '')
            if record is None or record.base is not primary:
                continue
            if record.state in states.DECIDED:
                raise parts.Wrong(f'{server.name} was written to by a primary that is not fenced')
            record.dirty = True

    def _reconcile(self, name: str) -> None:
        host = self.hosts[name]
        while True:
            self.hub.sleep(self.hub.random.uniform(0.5, 1.0) * _RECONCILE)
            if not host.alive:
                continue
            for backup in host.backups.values():
                if backup.phase in ('running', 'hardened'):
                    record = self.superpositions.get(backup.superposition)
                    if record is None or record.state == 'aborting':
                        backup.phase, backup.runs = 'aborted', False
