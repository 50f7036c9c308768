# SPDX-License-Identifier: Apache-2.0
"""The cloud of generated simulations: links of hosts, boots, sentinels, and the data of guests."""

from collections.abc import Collection
import dataclasses
import functools
import math

from specreds_cinder.superposition.truth import states
from specreds_nova.beats import message
from specreds_nova.beats import renewals
from testing.simulation import hub as hubs
from testing.simulation import nova
from testing.simulation import opinions
from testing.simulation import parts

# Seconds within which a sentinel that reaches Ceph ends a server that was overtaken, and seconds
# after which it does so if no superposition says that.
_SENTINEL = 1.0
_FENCED = 6.0
# Seconds that a nova-compute takes to start.
_STARTS = 1.5
# Seconds for which a host that is shut down in good order may be away, and seconds after which
# engines have noticed that it was away for longer.
GRACE = 20.0
_NOTICED = 6.0
# Phases of backups that hold room in Placement, and whose domains are hidden from Nova.
_CLAIMING = ('starting', 'running', 'hardened', 'promoted')


@dataclasses.dataclass
class End:
    """The end of a guest.

    :ivar lives: the server's number of copies at that time
    :ivar kernel: the boot of the host that ended with it; None if only the guest has crashed
    :ivar in_order: the host was shut down in good order
    :ivar over: the host is back
    :ivar left: it was not active for Nova, so that its user or an operator has to act
    :ivar back: when the nova-compute has returned that was away then; None if it was not
    """

    host: str
    at: float
    lives: int
    kernel: int | None
    in_order: bool = False
    over: bool = False
    left: bool = False
    back: float | None = None


class World(opinions.Cloud):
    """A cloud whose hosts have links of their own."""

    sweep = 0.2

    def __init__(self, hub: hubs.Hub, lease: float) -> None:
        super().__init__(hub)
        self.lease = lease
        # By server: how its latest guest ended, unless its owner has stopped it.
        self.ends: dict[str, End] = {}
        # By host: when an engine heard its latest goodbye first, from which its grace counts.
        self.farewells: dict[str, float] = {}
        # The last time at which no engine was listening.
        self.unheard = 0.0
        # By host: when an operator last set its mode.
        self.restrained: dict[str, float] = {}
        # By host: when an operator last gave a word on it, or took it back.
        self.spoken: dict[str, float] = {}
        # By recovery: when an operator has asked for its end.
        self.aborted: dict[str, float] = {}
        # By host: what it shares with others, in words; with that, beats have the uptime.
        self.places: dict[str, tuple[str, ...]] = {}
        # By host whose nova-compute is away: since when.
        self._stopped: dict[str, float] = {}
        # By host: when its link to Ceph was mended.
        self.mended: dict[str, float] = {}
        # Seconds of silence after which engines decide against a host that nothing hides.
        self.evacuate_after = 0.0
        # Hosts report what their sentinels do; of one that does not run, since when and what that
        # was.
        self.reports = False
        self._ended: dict[str, tuple[float, str]] = {}
        # By host that stands still: the latest answer that waits for it.
        self._delayed: dict[str, tuple[float, bool]] = {}

    def fail(self, text: str) -> None:
        """Record a violation."""
        self.hub.failures.append(parts.Wrong(text))

    # Hosts

    def update(self, host: parts.Host) -> None:
        """Derive what others see of a host from its parts, after a change."""
        reached = host.alive and host.control and host.compute and not host.paused
        if reached and not host.reached:
            host.since = self.hub.now()
        if not reached and host.reached:
            host.silent = self.hub.now()
        host.reached = host.beats = reached
        self.check()

    def power_off(self, name: str, spared: Collection[str] = ()) -> None:
        """Turn a host off, with its guests.

        :param spared: servers that an operator shuts down in good order
        """
        host = self.hosts[name]
        if host.alive:
            for server in self.servers.values():
                if server.primary is not None and server.primary.host == name and (
                        server.primary.runs):
                    self.ends[server.name] = End(name, self.hub.now(), server.lives, host.kernel,
                                                 server.name in spared, left=_is_left(server))
        host.alive = host.compute = False
        self._stopped.pop(name, None)
        self.end_guests(host)
        self.update(host)

    def power_on(self, name: str) -> None:
        """Boot a host, without its guests."""
        host = self.hosts[name]
        if host.alive:
            return
        host.alive, host.paused, host.stalled = True, False, False
        host.kernel += 1
        host.booted = self.hub.now()
        self.update(host)
        self.start_compute(name)

    def crash(self, name: str) -> None:
        """Crash the domain of a server; its host reports that."""
        primary = self.servers[name].primary
        if primary is not None and primary.runs and self.hosts[primary.host].alive:
            self.ends[name] = End(primary.host, self.hub.now(), self.servers[name].lives, None,
                                  left=_is_left(self.servers[name]))
        super().crash(name)

    def stop_compute(self, name: str) -> None:
        """Stop nova-compute of a host; its guests go on."""
        host = self.hosts[name]
        if host.compute:
            self._stopped[name] = self.hub.now()
        host.compute = False
        self.update(host)

    def _tell_crashes(self, name: str) -> None:
        """Have a nova-compute that has started report the guests that crashed without it."""
        since = self._stopped.pop(name, math.inf)
        for server in sorted({server for host, server, at in self.crashes
                              if host == name and at >= since} - self.running(name)):
            if (end := self.ends.get(server)) is not None and end.host == name:
                end.back = self.hub.now()
            self._remember(name, server)

    def _remember(self, name: str, server: str) -> None:
        """Have a nova-compute report a crash that none has seen."""
        self.crashes.append((name, server, self.hub.now()))

    def start_compute(self, name: str) -> None:
        """Start nova-compute of a host, which removes what runs elsewhere by now."""
        host = self.hosts[name]
        host.service += 1
        number = host.service

        def begin() -> None:
            if not host.alive or host.service != number:
                return
            host.compute, host.started = True, self.hub.now()
            self._tell_crashes(name)
            for backup in host.backups.values():
                if not backup.runs and backup.phase in _CLAIMING:
                    backup.phase, backup.claim = 'failed', False
            for end in self.ends.values():
                if end.host == name and not end.over:
                    # Engines that listen count a host that was away for longer as failed.
                    since = max(end.at + GRACE, self.unheard,
                                self.farewells.get(name, 0.0) + GRACE)
                    end.in_order &= self.hub.now() - since <= _NOTICED
                    end.over = True
            if host.storage:
                self.clean(host)
            self._reset_evacuations(host)
            for server in self.servers.values():
                if server.host == name:
                    self._resume_reboot(server)
                    self.hub.call(nova.SYNC, functools.partial(self._sync, server, name))
            self.update(host)
        self.hub.call(_STARTS, begin)

    def _reset_evacuations(self, host: parts.Host) -> None:
        """Have a nova-compute that starts reset the adoptions that its end has interrupted."""
        begun = {backup.server for backup in host.backups.values()
                 if backup.phase in ('promoted', 'failed')}
        for server in self.servers.values():
            if server.target == host.name and server.claimed and server.name in begun:
                server.task, server.target, server.claimed = None, None, False

    def _resume_reboot(self, server: parts.Server) -> None:
        """Have a nova-compute that starts repeat the reboot that its end has interrupted."""
        if server.task == 'rebooting' and not server.stopped_by_owner:
            if server.primary is not None and server.primary.runs:
                server.task = None
            else:
                self.reboot(server)

    def cut(self, name: str, *links: str) -> None:
        """Cut links of a host: control, storage or tenant."""
        host = self.hosts[name]
        for link in links:
            if link == 'storage' and host.storage:
                host.deaf = self.hub.now()
            setattr(host, link, False)
        self.update(host)

    def mend(self, name: str, *links: str) -> None:
        """Mend links of a host."""
        host = self.hosts[name]
        for link in links:
            setattr(host, link, True)
        if 'storage' in links:
            self.mended[name] = self.hub.now()
            host.hidden = False
            self._look(host)
        self.update(host)

    def pause(self, name: str, paused: bool) -> None:
        """Let a whole host stand still, or go on."""
        host = self.hosts[name]
        host.paused = paused
        if not paused:
            self._look(host)
        self.update(host)
        if not paused and name in self._delayed:
            self.renewal(name, *self._delayed.pop(name))

    def renewal(self, name: str, sent: float, hides: bool) -> None:
        """Take an engine's answer to a heartbeat that a host sent at a time."""
        host = self.hosts[name]
        if not host.alive or not host.control:
            return
        if host.paused:
            if self.reports:
                self._delayed[name] = max(self._delayed.get(name, (0.0, False)), (sent, hides))
            return
        if host.sentinel:
            self._heed(host, sent, hides)
        if sent > host.renewed:
            host.renewed = sent
            if not host.storage:
                self.check()

    def _heed(self, host: parts.Host, sent: float, hides: bool) -> None:
        """Have a sentinel hide servers from now on, or hide none."""
        now = self.hub.now()
        if sent < host.heeded or now - sent > renewals.HEEDED_S / host.rate:
            return
        host.heeded = sent
        if hides != host.hides:
            host.hidden = not hides and self.hides(host)
            host.hides = hides
            self.check()

    def hides(self, host: parts.Host) -> bool:
        """Return whether the sentinel of a host hides its servers."""
        return (host.hides and host.sentinel and not host.storage and self.lease > 0
                and self.hub.now() - max(host.deaf, host.renewed) > self._lease(host))

    def report(self, name: str) -> tuple[str, float | None]:
        """Return the lease and the age of the sentinel that a host reports in a beat."""
        if not self.reports:
            return '', None
        since, lease = self._ended.get(name, (self.hub.now(), self._reported(name)))
        return lease, self.hub.now() - since

    def _reported(self, name: str) -> str:
        return message.LEASED if self.hosts[name].hides else message.SHOWS

    # Sentinels

    def without_sentinel(self, host: parts.Host) -> float:
        """Return for how long a host had no sentinel when it fell silent."""
        since, _ = self._ended.get(host.name, (host.silent, ''))
        return host.silent - since

    def run_sentinel(self, name: str, runs: bool) -> None:
        """Start or stop the sentinel of a host."""
        host = self.hosts[name]
        host.sentinel = runs
        self._look(host)
        if runs:
            self._ended.pop(name, None)
            host.heeded = 0.0
        else:
            self._ended.setdefault(name, (self.hub.now(), self._reported(name)))

    def _look(self, host: parts.Host) -> None:
        """Have the sentinel of a host end the servers that were overtaken, within a second."""
        self.hub.call(self.hub.random.uniform(0.1, _SENTINEL), lambda: self._end_fenced(host))

    def _end_fenced(self, host: parts.Host) -> None:
        if host.storage and host.alive and host.sentinel and not host.paused:
            for server in self.servers.values():
                for copy in server.copies:
                    if copy.host == host.name and copy.fenced and copy.runs:
                        if copy is server.primary:
                            self.ends[server.name] = End(host.name, self.hub.now(), server.lives,
                                                         None, left=_is_left(server))
                        copy.runs = False
                        self._report(server, host)

    def _report(self, server: parts.Server, host: parts.Host) -> None:
        """Have a host report that a domain has ended, unless a backup of the server is hidden.

        The event is hidden from Nova, which looks after some minutes.
        """
        if not any(backup.server == server.name and backup.phase in _CLAIMING
                   for backup in host.backups.values()):
            self.crashes.append((host.name, server.name, self.hub.now()))

    # What tenants see

    def visible(self, copy: parts.Copy) -> bool:
        """Return whether tenants reach a copy, apart from what the lease allows for a while."""
        host = self.hosts[copy.host]
        if not (copy.runs and host.alive and host.tenant) or host.paused:
            return False
        if not copy.fenced:
            return True
        # Its sentinel ends it within a second, or hides it after the length of the lease. Nothing
        # else does, and nothing is promised without it.
        if host.storage or not host.sentinel:
            return False
        # What engines had renewed was over at the fence: it was Ceph that had renewed it since.
        lease = self._lease(host)
        by_ceph = host.renewed + lease <= copy.fenced_at
        if (host.deaf >= copy.fenced_at - (lease if by_ceph else 0.0) - _SENTINEL
                and self.hub.now() < host.deaf + lease + _SENTINEL):
            return False
        return self._shows(host)

    def check(self) -> None:
        """Record servers that can be seen twice."""
        for server in self.servers.values():
            if len(server.copies) < 2:
                continue
            seen = [copy.host for copy in server.copies if self.visible(copy)]
            if len(seen) > 1:
                self.fail(f'{server.name} is seen twice, on {" and ".join(seen)}')

    def _connect(self, server: parts.Server, host: str) -> None:
        server.connect(host)
        primary = server.primary
        assert primary is not None
        record = self._overlay_of(server, host)
        if record is not None:
            primary.overlay = record.id
            held = record.stored
        else:
            held = server.stored
        if held < server.acknowledged:
            self.fail(f'{server.name}: {server.acknowledged - held} acknowledged writes are lost')
        self.check()

    def _overlay_of(self, server: parts.Server, host: str) -> parts.Superposition | None:
        """Return the superposition whose second version a backup on a host has open."""
        for backup in self.hosts[host].backups.values():
            record = self.superpositions.get(backup.superposition)
            if backup.server == server.name and backup.phase == 'promoted' and record is not None:
                return record
        return None

    # The data of guests

    def _write(self, server: parts.Server) -> None:
        while server.name in self.servers:
            self.hub.sleep(server.period * self.hub.random.uniform(0.5, 1.5))
            for copy in server.copies:
                if copy.runs and not copy.fenced:
                    self._put(server, copy)

    def _put(self, server: parts.Server, copy: parts.Copy) -> None:
        host = self.hosts[copy.host]
        if host.stalled or host.paused or not host.storage or not host.alive:
            return
        if copy.overlay in self.superpositions:
            server.acknowledged += 1
            self.superpositions[str(copy.overlay)].stored += 1
            return
        record = self.superpositions.get(server.superposition or '')
        if record is not None and record.state in states.DECIDED:
            if copy is record.base:
                self.fail(f'{server.name} was written to by a primary that is not fenced')
            # Cinder fences those that come later, and Nova waits for the merge.
            return
        server.acknowledged += 1
        server.stored += 1
        if record is not None:
            record.dirty = True

    def superpose(self, server_id: str, reason: str, volumes: tuple[str, ...],
                  dead_host: str | None = None) -> str:
        """Superpose the volumes of a server, and return the id of the superposition."""
        record_id = super().superpose(server_id, reason, volumes, dead_host)
        self.superpositions[record_id].stored = self.servers[server_id].stored
        return record_id

    def _seal(self, server: parts.Server, host: str) -> None:
        """Fence copies of a dead host, unless one of them answers."""
        machine = self.hosts[host]
        running = [copy for copy in server.copies if copy.host == host and copy.runs]
        if machine.alive and running:
            if machine.storage and not machine.stalled and not machine.paused:
                return
            self.fail(f'{server.name} is fenced first, as if {host} were dead, and {host} lives')
        super()._seal(server, host)

    def _promoted(self, server: parts.Server | None, record: parts.Superposition) -> None:
        """Check that no acknowledged write is lost by a decision."""
        if server is not None and record.stored < server.acknowledged:
            self.fail(f'{server.name}: an acknowledged write is lost by the decision')

    def _fence(self, server: parts.Server | None, record: parts.Superposition) -> None:
        """Fence every client of the first version."""
        if server is None:
            return
        if server.late and server.primary is not None and server.primary.runs and (
                self.hosts[server.primary.host].storage):
            server.late -= 1
            server.acknowledged += 1
            server.stored += 1
            record.dirty = True
        for copy in server.copies:
            if copy.overlay != record.id and not copy.fenced:
                copy.fenced, copy.fenced_at = True, self.hub.now()
                self._look(self.hosts[copy.host])

    def _opener(self, record: parts.Superposition) -> str | None:
        """Return the host that has the second version open, as Ceph lists it."""
        name = super()._opener(record)
        host = None if name is None else self.hosts[name]
        return name if host is not None and host.storage and not host.paused else None

    def _fence_users(self, record: parts.Superposition) -> None:
        """Fence the copies that have the second version open."""
        server = self.servers.get(record.server)
        for copy in server.copies if server is not None else ():
            if copy.overlay == record.id and not copy.fenced:
                copy.fenced, copy.fenced_at = True, self.hub.now()
                self._look(self.hosts[copy.host])

    def fence(self, server_id: str, host: str) -> int:
        """Fence the copies of a server on a host."""
        fenced = super().fence(server_id, host)
        for copy in self.servers[server_id].copies if server_id in self.servers else ():
            if copy.host == host and copy.fenced and copy.fenced_at == 0.0:
                copy.fenced_at = self.hub.now()
                self.hub.call(_FENCED, functools.partial(self._look, self.hosts[host]))
        return fenced

    def _forget(self, record: parts.Superposition) -> None:
        server = self.servers.get(record.server)
        if server is not None and record.state in states.DECIDED:
            server.stored = record.stored
        super()._forget(record)

    # Nova

    def _waited(self, host: parts.Host, begun: int | None = None) -> bool:
        """Wait until a host is reachable: its requests wait in a queue until it has taken them."""
        while not host.reached:
            self.hub.sleep(1.0)
        return begun is None or begun == host.service

    def drop_claims(self) -> None:
        """Note which backups hold room no longer."""
        for host in self.hosts.values():
            for backup in host.backups.values():
                if backup.phase not in _CLAIMING:
                    backup.claim = False

    def ended(self, name: str) -> tuple[str, ...]:
        """Return the servers whose crash a host reports."""
        now = self.hub.now()
        # By server: its latest crash, and how many there were without a pause of that length.
        crashes: dict[str, tuple[float, int]] = {}
        for host, server, at in self.crashes:
            if host == name:
                before, times = crashes.get(server, (0.0, 0))
                again = times and at - before < message.REPEATED
                crashes[server] = at, times + 1 if again else 1
        return tuple(server for server, (at, times) in crashes.items()
                     if now - at < message.REPEATED for _ in range(times))

    def running(self, name: str) -> frozenset[str]:
        """Return the servers whose domain runs on a host."""
        return frozenset(server.name for server in self.servers.values()
                         for copy in server.copies if copy.host == name and copy.runs)


def _is_left(server: parts.Server) -> bool:
    """Return whether engines do not start a server again that ends now on a host that is well."""
    return server.task is None and server.status not in ('ACTIVE', 'SHUTOFF')
