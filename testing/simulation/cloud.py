# SPDX-License-Identifier: Apache-2.0
"""A fake cloud: hosts, guests, Nova and Cinder, faithful in whatever the engine relies on.

It raises :class:`parts.Wrong` when the network can reach two copies of a server, or when two
copies write to the same disks.
"""

import itertools
from typing import Any

from specreds_cinder.superposition import states
from specreds_nova.engine import model
from testing.simulation import hub as hubs
from testing.simulation import parts

# Seconds after which Ceph forgets a client that has died.
_WATCH = 30.0
_RECONCILE = 30.0
# Seconds after which Nova marks a server without a domain as stopped.
_SYNC = 15.0


class Cloud:
    """The whole cloud. Its own activities belong to the process ``cloud``.

    :cvar sweep: seconds that a sweep takes at most
    """

    sweep = 0.05

    def __init__(self, hub: hubs.Hub) -> None:
        self.hub = hub
        hub.strict.add('cloud')
        self.hosts: dict[str, parts.Host] = {}
        self.servers: dict[str, parts.Server] = {}
        self.superpositions: dict[str, parts.Superposition] = {}
        self._collapses: dict[str, hubs.Actor] = {}
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

    def _spawn(self, act: Any, after: float = 0.0) -> hubs.Actor:
        return self.hub.spawn('cloud', act, after)

    # Hosts

    def primary_runs(self, server: parts.Server | None) -> bool | None:
        """Return whether a server runs by the sentinel of its host; None without an answer."""
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
        for server in self.servers.values():
            for copy in server.copies:
                if copy.host == name:
                    copy.runs = False
        for backup in host.backups.values():
            backup.runs = False

    def boot_host(self, name: str) -> None:
        """Turn a host on again, without its guests."""
        host = self.hosts[name]
        host.alive = host.reached = True
        host.service += 1
        for backup in host.backups.values():
            if backup.phase not in ('adopted', 'merging', 'merged', 'aborted', 'failed'):
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

    # Guests

    def crash(self, name: str) -> None:
        """Crash the domain of a server; its host reports that."""
        server = self.servers[name]
        if server.primary is None or not self.hosts[server.primary.host].alive:
            return
        server.primary.runs = False
        self.crashes.append((server.primary.host, name, self.hub.now()))
        self._spawn(lambda: self._sync(server), _SYNC)

    def _sync(self, server: parts.Server) -> None:
        """Mark a server that does not run as stopped."""
        runs = server.primary is not None and server.primary.runs
        if not runs and server.status == 'ACTIVE' and server.task is None:
            server.status = 'SHUTOFF'

    def stop(self, name: str) -> None:
        """Stop a server for its owner."""
        server = self.servers[name]

        def act() -> None:
            while server.task is not None:
                self.hub.sleep(0.5)
            server.status, server.stopped_by_owner = 'SHUTOFF', True
            if server.primary is not None:
                server.primary.runs = False
        self._spawn(act)

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

    # Cinder

    def attach(self, name: str) -> None:
        """Attach another volume to a server."""
        self.servers[name].attached.append(f'volume-{next(self._count)}')

    def superpose(self, server_id: str, reason: str, volumes: tuple[str, ...]) -> str:
        """Superpose the volumes of a server, and return the id of the superposition."""
        server = self.servers[server_id]
        record = parts.Superposition(f'superposition-{next(self._count)}', server_id, reason,
                                     base=server.primary, volumes=volumes)
        self.superpositions[record.id] = record
        server.superposition = record.id
        return record.id

    def collapse(self, superposition: str) -> hubs.Actor:
        """Begin or continue a decision, which does not depend on its caller."""
        going = self._collapses.get(superposition)
        if going is None or going.over:
            going = self._spawn(lambda: self._decide(superposition))
            self._collapses[superposition] = going
        return going

    def fence(self, server_id: str, host: str) -> int:
        """Fence the copies of a server on a host."""
        fenced = [copy for copy in self.servers[server_id].copies
                  if copy.host == host and copy.runs]
        self.hub.latency(0.05, 0.5)
        for copy in fenced:
            copy.fenced = True
        return len(fenced)

    def _decide(self, superposition: str) -> str:
        record = self.superpositions.get(superposition)
        if record is None or record.outcome in ('dirty', 'late-dirty'):
            return 'gone'
        if record.state in states.DECIDED:
            return 'promoted'
        record.state = 'collapsing'
        self.hub.latency(0.01, self.sweep)
        if record.dirty:
            return self._drop(record, 'dirty')
        self.hub.latency(0.05, 0.6)
        self._fence(self.servers.get(record.server), record)
        self.hub.latency(0.01, self.sweep)
        if record.dirty:
            return self._drop(record, 'late-dirty')
        record.state, record.outcome = 'promoted', 'promoted'
        record.decided = self.hub.now()
        self._promoted(self.servers.get(record.server), record)
        self._spawn(lambda: self._merge(record))
        return 'promoted'

    def _fence(self, server: parts.Server | None, record: parts.Superposition) -> None:
        """Fence the first version."""
        if record.base is not None:
            if server is not None and server.late and record.base.runs:
                server.late -= 1
                record.dirty = True
            record.base.fenced = True

    def _promoted(self, server: parts.Server | None, record: parts.Superposition) -> None:
        """Check the promotion of a superposition. Worlds that know the guests' data do."""

    def _drop(self, record: parts.Superposition, outcome: str) -> str:
        record.outcome = outcome
        self._forget(record)
        return outcome

    def _forget(self, record: parts.Superposition) -> None:
        del self.superpositions[record.id]
        server = self.servers.get(record.server)
        if server is not None and server.superposition == record.id:
            server.superposition = None

    def drop(self, superposition: str) -> bool:
        """Drop a superposition, and return whether that was allowed."""
        record = self.superpositions.get(superposition)
        if record is None:
            return True
        if record.state != 'superposed':
            return False
        self._drop(record, 'aborted')
        return True

    def _merge(self, record: parts.Superposition) -> None:
        """Let the adopting host merge, or Cinder when no host has the overlay open."""
        unused = None
        while True:
            self.hub.sleep(1.0)
            server = self.servers.get(record.server)
            opener = self._opener(record)
            if server is None or (opener is None and unused is not None
                                  and self.hub.now() - unused > _WATCH):
                break
            if opener is None:
                unused = self.hub.now() if unused is None else unused
                continue
            unused = None
            if server.host == opener and server.task is None:
                self.hub.latency(2.0, 6.0)
                if self._opener(record) == opener:
                    break
        record.state = 'merged'
        self._forget(record)

    def _opener(self, record: parts.Superposition) -> str | None:
        """Return the host that has the second version open."""
        for host in self.hosts.values():
            for backup in host.backups.values():
                if backup.superposition == record.id and backup.runs:
                    return host.name
        return None

    # Backups

    def start_backup(self, host: parts.Host, backup: parts.Backup) -> None:
        """Start the domain of a backup."""
        for other in self.hosts.values():
            for rival in other.backups.values():
                if (rival is not backup and rival.superposition == backup.superposition
                        and rival.runs):
                    raise parts.Wrong(f'{backup.server}: two backups have the same disks open')
        backup.phase, backup.runs, backup.began = 'running', host.alive, self.hub.now()

    def connect(self, backup: parts.Backup) -> None:
        """Open the box of a backup."""
        server = self.servers.get(backup.server)
        if server is None or backup.phase in ('promoted', 'adopted', 'merging', 'merged'):
            return
        if not backup.durable:
            raise parts.Wrong(f'{server.name}: the backup is not durable')
        superposed = self.superpositions.get(backup.superposition)
        if superposed is not None and superposed.volumes != server.volumes():
            raise parts.Wrong(f'{server.name}: the backup has {superposed.volumes}, not '
                              f'{server.volumes()}')
        backup.phase = 'promoted'
        self._connect(server, backup.host)

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
        return not self.lease or self.hub.now() < max(host.deaf, host.renewed) + self.lease

    # Nova

    def evacuate(self, server: parts.Server, host: str | None) -> None:
        """Begin Nova's evacuation of a server."""
        server.task = 'rebuilding'
        server.evacuations += 1
        number = server.evacuations
        self._spawn(lambda: self._evacuate(server, host, number))

    def _evacuate(self, server: parts.Server, wanted: str | None, number: int) -> None:
        self.hub.latency(0.5, 3.0)
        target = wanted or self._room(server.host)
        if target is None:
            server.task, server.target, server.status = None, None, 'ERROR'
            return
        server.target, server.claimed = target, False
        host = self.hosts[target]
        if not self._waited(host) or server.evacuations != number:
            return
        begun, server.claimed = host.service, True
        adopted = next((backup for backup in host.backups.values()
                        if backup.server == server.name and backup.phase == 'promoted'
                        and backup.runs),
                       None)
        if adopted is not None:
            adopted.phase = 'adopted'
        else:
            until = self.hub.now() + 120.0
            while server.superposition in self.superpositions:
                if self.hub.now() > until:
                    server.task, server.target, server.status = None, None, 'ERROR'
                    return
                self.hub.sleep(1.0)
            if (not self._waited(host, begun) or server.task is None
                    or server.evacuations != number):
                return
            self._connect(server, target)
            if server.status not in ('ACTIVE', 'SHUTOFF') and not server.stopped_by_owner:
                server.failed = f'it was evacuated while it was {server.status}'
        if server.task is None:
            # The server was reset meanwhile.
            return
        stopped = server.status == 'SHUTOFF' and not server.stopped_by_owner
        server.host, server.task, server.status = target, None, 'ACTIVE'
        server.target = None
        if stopped and server.primary is not None:
            # Nova stops a server again that it evacuates while it is stopped.
            server.status, server.primary.runs = 'SHUTOFF', False

    def _waited(self, host: parts.Host, begun: int | None = None) -> bool:
        """Wait until a host is reachable, and return False if it has died.

        :param begun: number of the start of its nova-compute that is at work already
        """
        del begun
        while host.alive and not host.reached:
            self.hub.sleep(1.0)
        return host.alive

    def _room(self, source: str) -> str | None:
        return next(iter(self.candidates(source)), None)

    def candidates(self, source: str) -> list[str]:
        """Return the hosts that Nova would choose among, dead ones included."""
        count = {name: sum(server.host == name for server in self.servers.values())
                 for name in self.hosts}
        return [host.name for host in self.hosts.values()
                if host.name != source and not host.forced_down and count[host.name] < host.room]

    def reboot(self, server: parts.Server) -> None:
        """Start a server again on its host."""
        if server.stopped_by_owner:
            raise parts.Wrong(f'{server.name} was stopped by its owner')
        server.task = 'rebooting'

        def act() -> None:
            self.hub.latency(1.0, 3.0)
            if self.hosts[server.host].alive and server.task == 'rebooting':
                if server.primary is not None:
                    server.primary.runs = False
                server.connect(server.host)
                server.task, server.status = None, 'ACTIVE'
        self._spawn(act)

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

    # The state at the end

    def seen(self, server: parts.Server) -> list[str]:
        """Return the hosts whose copy of a server serves."""
        return [copy.host for copy in server.copies if copy.runs and not copy.fenced]

    def view(self, server: parts.Server) -> model.Server:
        """Return a server as Nova describes it."""
        return model.Server(
            id=server.name, name=server.name, project='p', host=server.host,
            status=server.status, task=server.task, locked=False, zone=None,
            flavor={'vcpus': 1, 'ram': 1, 'disk': 0}, volumes=server.volumes(),
            metadata=server.metadata)
