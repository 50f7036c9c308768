# SPDX-License-Identifier: Apache-2.0
"""A fake cloud: hosts, guests, Nova and Cinder, faithful in whatever the engine relies on.

It raises :class:`Wrong` when the network can reach two copies of a server, or when two copies
write to the same disks.
"""

import dataclasses
import itertools
from typing import Any

from specreds_cinder.superposition import states
from specreds_nova.engine import model
from testing.simulation import hub as hubs

# Seconds after which Ceph forgets a client that has died.
_WATCH = 30.0
_RECONCILE = 30.0
# Seconds after which Nova marks a server without a domain as stopped.
_SYNC = 15.0


class Wrong(AssertionError):
    """A state that must never be reached."""


@dataclasses.dataclass
class Host:
    """A compute host.

    :ivar alive: its machine runs
    :ivar beats: its heartbeats reach the engines, since `since`
    :ivar reached: RPC calls reach it
    :ivar plugged: it has the plug-in, and can run backups
    :ivar word: an operator has declared it failed
    :ivar storage: it reaches Ceph, or has not since ``deaf``
    :ivar renewed: when it sent the latest heartbeat that an engine has answered
    :ivar control: its link to the control plane works
    :ivar tenant: its link to the network of tenants works
    :ivar compute: its nova-compute runs
    :ivar paused: the whole machine stands still
    :ivar kernel: number of its boots
    :ivar service: number of the starts of its nova-compute
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
    storage: bool = True
    deaf: float = 0.0
    renewed: float = 0.0
    control: bool = True
    tenant: bool = True
    compute: bool = True
    paused: bool = False
    kernel: int = 1
    service: int = 1
    backups: dict[str, 'Backup'] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Copy:
    """A running domain of a server.

    :ivar fenced: its writes are refused since ``fenced_at``, so the guest hangs
    :ivar overlay: the superposition to whose second version it writes
    """

    host: str
    runs: bool = True
    fenced: bool = False
    fenced_at: float = 0.0
    overlay: str | None = None


@dataclasses.dataclass
class Backup:
    """A backup on a host: the journal and the domain.

    :ivar claim: it holds room in Placement
    """

    id: str
    server: str
    superposition: str
    host: str
    phase: str = 'starting'
    runs: bool = False
    began: float = 0.0
    durable: bool = False
    claim: bool = True


@dataclasses.dataclass
class Server:
    """A server: its row in Nova, its guest and its volumes.

    :ivar period: seconds between two writes of the guest; 0 for no writes
    :ivar boot: seconds until its backup is ready; negative for never
    :ivar refused: why its volumes cannot be superposed
    :ivar unfenceable: why its volumes cannot be fenced without a superposition
    :ivar late: how many times its guest will write at the moment when it is being fenced
    """

    name: str
    host: str
    period: float = 0.5
    boot: float = 5.0
    refused: str = ''
    unfenceable: str = ''
    late: int = 0
    status: str = 'ACTIVE'
    task: str | None = None
    target: str | None = None
    metadata: dict[str, str] = dataclasses.field(default_factory=dict)
    primary: Copy | None = None
    copies: list[Copy] = dataclasses.field(default_factory=list)
    # How many copies have been connected: its first boot, evacuations, promotions, reboots.
    lives: int = 0
    superposition: str | None = None
    failed: str = ''
    # Number of its evacuations.
    evacuations: int = 0
    # Its owner has stopped it.
    stopped_by_owner: bool = False
    # Volumes that were attached beside the one that it boots from.
    attached: list[str] = dataclasses.field(default_factory=list)
    # Writes that its users were told are done, and those of them in the version of the volumes.
    acknowledged: int = 0
    stored: int = 0

    def volumes(self) -> tuple[str, ...]:
        """Return the ids of its volumes."""
        return (f'volume-{self.name}', *self.attached)

    def connect(self, host: str) -> None:
        """Connect a new copy of the server to the network.

        :raises Wrong: another copy is connected
        """
        connected = [copy for copy in self.copies if copy.runs and not copy.fenced]
        if connected:
            raise Wrong(f'{self.name} runs on {connected[0].host}, and would be seen twice')
        self.primary = Copy(host)
        self.copies.append(self.primary)
        self.lives += 1


@dataclasses.dataclass
class Superposition:
    """A superposition as Cinder records it."""

    id: str
    server: str
    reason: str
    state: str = 'superposed'
    dirty: bool = False
    outcome: str | None = None
    decided: float = 0.0
    base: Copy | None = None
    volumes: tuple[str, ...] = ()
    # Acknowledged writes in the second version.
    stored: int = 0


class Cloud:
    """The whole cloud. Its own activities belong to the process ``cloud``."""

    def __init__(self, hub: hubs.Hub) -> None:
        self.hub = hub
        hub.strict.add('cloud')
        self.hosts: dict[str, Host] = {}
        self.servers: dict[str, Server] = {}
        self.superpositions: dict[str, Superposition] = {}
        self._collapses: dict[str, hubs.Actor] = {}
        self._count = itertools.count(1)
        self.unreachable: set[str] = set()
        # Length of the lease on the network, in seconds; 0 for none.
        self.lease = 0.0
        # Sentinels answer through Ceph which servers run.
        self.second_opinion = False
        # Host, server and time of each crash.
        self.crashes: list[tuple[str, str, float]] = []

    def add_host(self, name: str, **values: Any) -> None:
        """Add a host."""
        self.hosts[name] = Host(name, **values)
        self._spawn(lambda: self._reconcile(name))

    def add_server(self, name: str, host: str, **values: Any) -> None:
        """Add a server that runs."""
        server = Server(name, host, **values)
        server.connect(host)
        self.servers[name] = server
        if server.period:
            self._spawn(lambda: self._write(server))

    def _spawn(self, act: Any, after: float = 0.0) -> hubs.Actor:
        return self.hub.spawn('cloud', act, after)

    # Hosts

    def primary_runs(self, server: 'Server | None') -> bool | None:
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

    def _sync(self, server: Server) -> None:
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

    def _write(self, server: Server) -> None:
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
                raise Wrong(f'{server.name} was written to by a primary that is not fenced')
            record.dirty = True

    # Cinder

    def attach(self, name: str) -> None:
        """Attach another volume to a server."""
        self.servers[name].attached.append(f'volume-{next(self._count)}')

    def superpose(self, server_id: str, reason: str, volumes: tuple[str, ...]) -> str:
        """Superpose the volumes of a server, and return the id of the superposition."""
        server = self.servers[server_id]
        record = Superposition(f'superposition-{next(self._count)}', server_id, reason,
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
        self.hub.latency(0.01, 0.05)
        if record.dirty:
            return self._drop(record, 'dirty')
        self.hub.latency(0.05, 0.6)
        if record.base is not None:
            server = self.servers.get(record.server)
            if server is not None and server.late and record.base.runs:
                server.late -= 1
                record.dirty = True
            record.base.fenced = True
        self.hub.latency(0.01, 0.05)
        if record.dirty:
            return self._drop(record, 'late-dirty')
        record.state, record.outcome = 'promoted', 'promoted'
        record.decided = self.hub.now()
        self._spawn(lambda: self._merge(record))
        return 'promoted'

    def _drop(self, record: Superposition, outcome: str) -> str:
        record.outcome = outcome
        self._forget(record)
        return outcome

    def _forget(self, record: Superposition) -> None:
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

    def _merge(self, record: Superposition) -> None:
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

    def _opener(self, record: Superposition) -> str | None:
        """Return the host that has the second version open."""
        for host in self.hosts.values():
            for backup in host.backups.values():
                if backup.superposition == record.id and backup.runs:
                    return host.name
        return None

    # Backups

    def start_backup(self, host: Host, backup: Backup) -> None:
        """Start the domain of a backup."""
        for other in self.hosts.values():
            for rival in other.backups.values():
                if (rival is not backup and rival.superposition == backup.superposition
                        and rival.runs):
                    raise Wrong(f'{backup.server}: two backups have the same disks open')
        backup.phase, backup.runs, backup.began = 'running', host.alive, self.hub.now()

    def connect(self, backup: Backup) -> None:
        """Open the box of a backup."""
        server = self.servers.get(backup.server)
        if server is None or backup.phase in ('promoted', 'adopted', 'merging', 'merged'):
            return
        if not backup.durable:
            raise Wrong(f'{server.name}: the backup is not durable')
        superposed = self.superpositions.get(backup.superposition)
        if superposed is not None and superposed.volumes != server.volumes():
            raise Wrong(f'{server.name}: the backup has {superposed.volumes}, not '
                        f'{server.volumes()}')
        backup.phase = 'promoted'
        self._connect(server, backup.host)

    def _connect(self, server: Server, host: str) -> None:
        """Connect a new copy of a server to the network.

        :raises Wrong: a copy that is fenced can still be seen
        """
        for copy in server.copies:
            if copy.runs and copy.fenced and self._shows(self.hosts[copy.host]):
                wrong = Wrong(f'{server.name} is fenced on {copy.host}, and would be seen twice')
                # An engine that calls this would take it for an answer of a host.
                self.hub.failures.append(wrong)
                raise wrong
        server.connect(host)

    def _shows(self, host: Host) -> bool:
        """Return whether a host shows tenants servers that are fenced.

        A sentinel that reaches Ceph ends them; another one hides them when its lease is over.
        """
        if host.storage:
            return False
        return not self.lease or self.hub.now() < max(host.deaf, host.renewed) + self.lease

    # Nova

    def evacuate(self, server: Server, host: str | None) -> None:
        """Begin Nova's evacuation of a server."""
        server.task = 'rebuilding'
        server.evacuations += 1
        number = server.evacuations
        self._spawn(lambda: self._evacuate(server, host, number))

    def _evacuate(self, server: Server, wanted: str | None, number: int) -> None:
        self.hub.latency(0.5, 3.0)
        target = wanted or self._room(server.host)
        if target is None:
            server.task, server.target, server.status = None, None, 'ERROR'
            return
        server.target = target
        host = self.hosts[target]
        if not self._waited(host) or server.evacuations != number:
            return
        begun = host.service
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
            if server.status != 'ACTIVE' and not server.stopped_by_owner:
                server.failed = f'it was evacuated while it was {server.status}'
        if server.task is None:
            # The server was reset meanwhile.
            return
        server.host, server.task, server.status = target, None, 'ACTIVE'
        server.target = None

    def _waited(self, host: Host, begun: int | None = None) -> bool:
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

    def reboot(self, server: Server) -> None:
        """Start a server again on its host."""
        if server.stopped_by_owner:
            raise Wrong(f'{server.name} was stopped by its owner')
        server.task = 'rebooting'

        def act() -> None:
            self.hub.latency(1.0, 3.0)
            if self.hosts[server.host].alive and server.task == 'rebooting':
                if server.primary is not None:
                    server.primary.runs = False
                server.connect(server.host)
                server.task, server.status = None, 'ACTIVE'
        self._spawn(act)

    def clean(self, host: Host) -> None:
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

    def seen(self, server: Server) -> list[str]:
        """Return the hosts whose copy of a server serves."""
        return [copy.host for copy in server.copies if copy.runs and not copy.fenced]

    def view(self, server: Server) -> model.Server:
        """Return a server as Nova describes it."""
        return model.Server(
            id=server.name, name=server.name, project='p', host=server.host,
            status=server.status, task=server.task, locked=False, zone=None,
            flavor={'vcpus': 1, 'ram': 1, 'disk': 0}, volumes=server.volumes(),
            metadata=server.metadata)
