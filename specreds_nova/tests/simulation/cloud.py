# SPDX-License-Identifier: Apache-2.0
"""A cloud of fakes: hosts, guests, Nova and Cinder, faithful in what the engine relies on.

It keeps watch over what must never be: a server of which two copies are seen from outside, or
whose disks two copies write to.
"""

import dataclasses
import itertools
from typing import Any

from specreds_nova.engine import model
from specreds_nova.tests.simulation import hub as hubs

DECIDED = ('promoted', 'merging', 'merged')

# Seconds after which Ceph does not know a client any more that has died.
_WATCH = 30.0
_RECONCILE = 30.0
# Seconds after which Nova notes a server as stopped whose domain is gone.
_SYNC = 15.0


class Wrong(AssertionError):
    """Something that must never be."""


@dataclasses.dataclass
class Host:
    """A compute host.

    :ivar alive: its machine runs
    :ivar beats: its heartbeats reach the engines, `since` when
    :ivar reached: calls reach it
    :ivar plugged: it can run backups
    :ivar word: an operator has said that it has failed
    """

    name: str
    room: int = 10
    alive: bool = True
    beats: bool = True
    since: float = 0.0
    silent: float = 0.0
    reached: bool = True
    forced_down: bool = False
    stalled: bool = False
    plugged: bool = True
    word: bool = False
    backups: dict[str, 'Backup'] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Copy:
    """A running domain of a server.

    :ivar fenced: its writes are refused, and it stands still
    """

    host: str
    runs: bool = True
    fenced: bool = False


@dataclasses.dataclass
class Backup:
    """A backup on a host: the journal and the domain."""

    id: str
    server: str
    superposition: str
    host: str
    phase: str = 'starting'
    runs: bool = False
    began: float = 0.0
    durable: bool = False


@dataclasses.dataclass
class Server:
    """A server: Nova's row, the guest, and its volumes.

    :ivar period: seconds between two writes of the guest; 0 for none
    :ivar boot: seconds until a backup of it is ready; negative for never
    :ivar refused: why its volumes cannot be superposed
    :ivar late: how many times its guest will write at the very moment when it is being fenced
    """

    name: str
    host: str
    period: float = 0.5
    boot: float = 5.0
    refused: str = ''
    late: int = 0
    status: str = 'ACTIVE'
    task: str | None = None
    target: str | None = None
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)
    primary: Copy | None = None
    copies: list[Copy] = dataclasses.field(default_factory=list)
    # Evacuations and promotions so far: how often another copy was let out.
    lives: int = 0
    superposition: str | None = None
    failed: str = ''
    # Somebody has asked for it to be stopped.
    asked: bool = False

    def let_out(self, host: str) -> None:
        """Have another copy that counts."""
        before = [copy for copy in self.copies if copy.runs and not copy.fenced]
        if before:
            raise Wrong(f'{self.name} runs on {before[0].host}, and would be seen twice')
        self.primary = Copy(host)
        self.copies.append(self.primary)
        self.lives += 1


@dataclasses.dataclass
class Superposition:
    """One of Cinder's."""

    id: str
    server: str
    reason: str
    state: str = 'superposed'
    dirty: bool = False
    outcome: str | None = None
    decided: float = 0.0
    base: Copy | None = None


class Cloud:
    """All of it. What it does by itself it does as the process ``cloud``."""

    def __init__(self, hub: hubs.Hub) -> None:
        self.hub = hub
        hub.strict.add('cloud')
        self.hosts: dict[str, Host] = {}
        self.servers: dict[str, Server] = {}
        self.superpositions: dict[str, Superposition] = {}
        self._collapses: dict[str, hubs.Actor] = {}
        self._count = itertools.count(1)
        self.unreachable: set[str] = set()
        # Host, server, and when it was heard of.
        self.crashes: list[tuple[str, str, float]] = []

    def add_host(self, name: str, **values: Any) -> None:
        """Add a host."""
        self.hosts[name] = Host(name, **values)
        self._do(lambda: self._reconcile(name))

    def add_server(self, name: str, host: str, **values: Any) -> None:
        """Add a server that runs."""
        server = Server(name, host, **values)
        server.let_out(host)
        self.servers[name] = server
        if server.period:
            self._do(lambda: self._write(server))

    def _do(self, act: Any, after: float = 0.0) -> hubs.Actor:
        return self.hub.spawn('cloud', act, after)

    # Hosts

    def kill_host(self, name: str) -> None:
        """The machine is off."""
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
        """It is on again; its guests are not."""
        host = self.hosts[name]
        host.alive = host.reached = True
        for backup in host.backups.values():
            if backup.phase not in ('adopted', 'merging', 'merged', 'aborted', 'failed'):
                backup.phase = 'failed'
        self.heal_host(name)

    def cut_host(self, name: str) -> None:
        """It lives, and nobody hears of it."""
        host = self.hosts[name]
        host.beats = host.reached = False
        host.silent = self.hub.now()

    def heal_host(self, name: str) -> None:
        """It is heard again."""
        host = self.hosts[name]
        host.beats = host.reached = True
        host.since = self.hub.now()

    def stall_host(self, name: str) -> None:
        """Its guests do not write for a while."""
        self.hosts[name].stalled = True

    def resume_host(self, name: str) -> None:
        """They do again."""
        self.hosts[name].stalled = False

    def _reconcile(self, name: str) -> None:
        host = self.hosts[name]
        while True:
            self.hub.sleep(self.hub.random.uniform(0.5, 1.0) * _RECONCILE)
            if not host.alive:
                continue
            for backup in host.backups.values():
                if backup.phase in ('running', 'hardened'):
                    found = self.superpositions.get(backup.superposition)
                    if found is None or found.state == 'aborting':
                        backup.phase, backup.runs = 'aborted', False

    # Guests

    def crash(self, name: str) -> None:
        """A domain is gone, and its host says so."""
        server = self.servers[name]
        if server.primary is None or not self.hosts[server.primary.host].alive:
            return
        server.primary.runs = False
        self.crashes.append((server.primary.host, name, self.hub.now()))
        self._do(lambda: self._sync(server), _SYNC)

    def _sync(self, server: Server) -> None:
        """Note a server as stopped that does not run."""
        runs = server.primary is not None and server.primary.runs
        if not runs and server.status == 'ACTIVE' and server.task is None:
            server.status = 'SHUTOFF'

    def stop(self, name: str) -> None:
        """Its owner has a server stopped."""
        server = self.servers[name]

        def act() -> None:
            while server.task is not None:
                self.hub.sleep(0.5)
            server.status, server.asked = 'SHUTOFF', True
            if server.primary is not None:
                server.primary.runs = False
        self._do(act)

    def _write(self, server: Server) -> None:
        while server.name in self.servers:
            self.hub.sleep(server.period * self.hub.random.uniform(0.5, 1.5))
            primary = server.primary
            if primary is None or not primary.runs or primary.fenced:
                continue
            if self.hosts[primary.host].stalled:
                continue
            found = self.superpositions.get(server.superposition or '')
            if found is None or found.base is not primary:
                continue
            if found.state in DECIDED:
                raise Wrong(f'{server.name} was written to by a primary that is not fenced')
            found.dirty = True

    # Cinder

    def superpose(self, server_id: str, reason: str) -> str:
        """Superpose, or give what there is."""
        server = self.servers[server_id]
        found = Superposition(f'superposition-{next(self._count)}', server_id, reason,
                              base=server.primary)
        self.superpositions[found.id] = found
        server.superposition = found.id
        return found.id

    def collapse(self, superposition: str) -> hubs.Actor:
        """Begin to decide, or go on; it goes on without whoever asked."""
        going = self._collapses.get(superposition)
        if going is None or going.over:
            going = self._do(lambda: self._decide(superposition))
            self._collapses[superposition] = going
        return going

    def _decide(self, superposition: str) -> str:
        found = self.superpositions.get(superposition)
        if found is None or found.outcome in ('dirty', 'late-dirty'):
            return 'gone'
        if found.state in DECIDED:
            return 'promoted'
        found.state = 'collapsing'
        self.hub.latency(0.01, 0.05)
        if found.dirty:
            return self._drop(found, 'dirty')
        self.hub.latency(0.05, 0.6)
        if found.base is not None:
            server = self.servers.get(found.server)
            if server is not None and server.late and found.base.runs:
                server.late -= 1
                found.dirty = True
            found.base.fenced = True
        self.hub.latency(0.01, 0.05)
        if found.dirty:
            return self._drop(found, 'late-dirty')
        found.state, found.outcome = 'promoted', 'promoted'
        found.decided = self.hub.now()
        self._do(lambda: self._merge(found))
        return 'promoted'

    def _drop(self, found: Superposition, outcome: str) -> str:
        found.outcome = outcome
        self._forget(found)
        return outcome

    def _forget(self, found: Superposition) -> None:
        del self.superpositions[found.id]
        server = self.servers.get(found.server)
        if server is not None and server.superposition == found.id:
            server.superposition = None

    def drop(self, superposition: str) -> bool:
        """Drop one; False if it may not be."""
        found = self.superpositions.get(superposition)
        if found is None:
            return True
        if found.state != 'superposed':
            return False
        self._drop(found, 'aborted')
        return True

    def _merge(self, found: Superposition) -> None:
        """By the host that has adopted, or by Cinder when nobody has it open."""
        unused = None
        while True:
            self.hub.sleep(1.0)
            server = self.servers.get(found.server)
            opener = self._opener(found)
            if server is None or (opener is None and unused is not None
                                  and self.hub.now() - unused > _WATCH):
                break
            if opener is None:
                unused = self.hub.now() if unused is None else unused
                continue
            unused = None
            if server.host == opener and server.task is None:
                self.hub.latency(2.0, 6.0)
                if self._opener(found) == opener:
                    break
        found.state = 'merged'
        self._forget(found)

    def _opener(self, found: Superposition) -> str | None:
        """Give the host that has the second version open."""
        for host in self.hosts.values():
            for backup in host.backups.values():
                if backup.superposition == found.id and backup.runs:
                    return host.name
        return None

    # Backups

    def start_backup(self, host: Host, backup: Backup) -> None:
        """Have a backup's domain run."""
        for other in self.hosts.values():
            for one in other.backups.values():
                if one is not backup and one.superposition == backup.superposition and one.runs:
                    raise Wrong(f'{backup.server}: two backups have the same disks open')
        backup.phase, backup.runs, backup.began = 'running', host.alive, self.hub.now()

    def let_out(self, backup: Backup) -> None:
        """Open the box of a backup."""
        server = self.servers.get(backup.server)
        if server is None or backup.phase in ('promoted', 'adopted', 'merging', 'merged'):
            return
        if not backup.durable:
            raise Wrong(f'{server.name}: the backup is not durable')
        backup.phase = 'promoted'
        server.let_out(backup.host)

    # Nova

    def evacuate(self, server: Server, host: str | None) -> None:
        """Have Nova evacuate a server."""
        server.task = 'rebuilding'
        self._do(lambda: self._evacuate(server, host))

    def _evacuate(self, server: Server, wanted: str | None) -> None:
        self.hub.latency(0.5, 3.0)
        target = wanted or self._room(server.host)
        if target is None:
            server.task, server.target, server.status = None, None, 'ERROR'
            return
        server.target = target
        host = self.hosts[target]
        if not self._waited(host):
            return
        adopted = next((one for one in host.backups.values()
                        if one.server == server.name and one.phase == 'promoted' and one.runs),
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
            if not self._waited(host) or server.task is None:
                return
            server.let_out(target)
            if server.status != 'ACTIVE':
                server.failed = f'it was evacuated while it was {server.status}'
        if server.task is None:
            # Somebody has reset it, and asked for something else.
            return
        server.host, server.task, server.status = target, None, 'ACTIVE'
        server.target = None

    def _waited(self, host: Host) -> bool:
        """Wait until a host has its orders, and whoever it asks answers; False if it has died."""
        while host.alive and not host.reached:
            self.hub.sleep(1.0)
        return host.alive

    def _room(self, source: str) -> str | None:
        return next(iter(self.candidates(source)), None)

    def candidates(self, source: str) -> list[str]:
        """Give the hosts that Nova would choose among; it does not know yet who is dead."""
        count = {name: sum(server.host == name for server in self.servers.values())
                 for name in self.hosts}
        return [host.name for host in self.hosts.values()
                if host.name != source and not host.forced_down and count[host.name] < host.room]

    def reboot(self, server: Server) -> None:
        """Start a server again where it is."""
        if server.asked:
            raise Wrong(f'{server.name} was stopped by its owner')
        server.task = 'rebooting'

        def act() -> None:
            self.hub.latency(1.0, 3.0)
            if self.hosts[server.host].alive and server.task == 'rebooting':
                if server.primary is not None:
                    server.primary.runs = False
                server.let_out(server.host)
                server.task, server.status = None, 'ACTIVE'
        self._do(act)

    def clean(self, host: Host) -> None:
        """Destroy what is left on a host of servers that are elsewhere."""
        for server in self.servers.values():
            for copy in server.copies:
                if copy.host == host.name and copy is not server.primary:
                    copy.runs = False

    def stale(self, host: str) -> bool:
        """Tell whether something is left there."""
        return any(copy.host == host and copy.runs and copy is not server.primary
                   for server in self.servers.values() for copy in server.copies)

    # What is to be seen in the end

    def seen(self, server: Server) -> list[str]:
        """Give the hosts on which a copy of a server serves."""
        return [copy.host for copy in server.copies if copy.runs and not copy.fenced]

    def view(self, server: Server) -> model.Server:
        """Describe a server as Nova does."""
        return model.Server(
            id=server.name, name=server.name, project='p', host=server.host,
            status=server.status, task=server.task, locked=False, zone=None,
            flavor={'vcpus': 1, 'ram': 1, 'disk': 0}, volumes=(f'volume-{server.name}',),
            metadata=server.metadata)
