# SPDX-License-Identifier: Apache-2.0
"""A cluster of broker nodes between hosts and engines, with a network per engine."""

from collections.abc import Callable, Iterator
import dataclasses
import functools
from typing import Any

from specreds_nova.beats import listener
from specreds_nova.beats import message
from specreds_nova.beats import rejections
from testing.simulation import hub as hubs
from testing.simulation import parts
from testing.simulation import world as worlds

# Seconds within which a client of a broken node connects to another one.
_RECONNECT = (0.5, 3.0)
# Seconds without a beat that are a gap.
GAP = 3.0
# Beats of a host that somebody may send once more, and values that are not of any field.
_KEPT = 20
_JUNK: tuple[Any, ...] = ('', 'boom', [1], {}, None, True, float('nan'), -1e300, 10**17)
# A host lists its domains in each beat after a change, and in every fifth otherwise.
_LISTED = 5


class Ear:
    """The connection of one engine.

    :param reader: stands for the thread that reads
    :param monitor: receives beats and echoes
    :param now: the clock of the engine
    """

    def __init__(self, name: str, node: str, reader: hubs.Actor, monitor: Any,
                 now: Callable[[], float]) -> None:
        self.name = name
        self.owner = reader.owner
        self.node = node
        self.reader = reader
        self.monitor = monitor
        self.now = now
        self.waiting: list[tuple[str, Any]] = []
        # Seconds between two times at which it reads; 0 if it reads at once. And what waits, with
        # the time at which it was sent.
        self.gulp = 0.0
        self.backlog: list[tuple[float, str, Any]] = []


class Broker:
    """The nodes, and what each client hears.

    :ivar down: nodes that do not work
    :ivar split: pairs of nodes between which nothing passes
    :ivar cut: engines that are cut off from the broker
    :ivar deaf: pairs of engine and host whose beats the engine misses
    """

    def __init__(self, hub: hubs.Hub, world: worlds.World, nodes: int, interval: float,
                 echo: float) -> None:
        self._hub = hub
        self._world = world
        self.nodes = [f'b{number + 1}' for number in range(nodes)]
        self.down: set[str] = set()
        self.split: set[frozenset[str]] = set()
        self.cut: set[str] = set()
        self.deaf: set[tuple[str, str]] = set()
        self._interval = interval
        self._echo = echo
        # By process of an engine and host: numbers of the host's boots that it has heard of.
        self.kernels: dict[tuple[str, str], set[int]] = {}
        # By process and host: when it has received the latest beat, and the latest one with the
        # host's boot.
        self.heard: dict[tuple[str, str], float] = {}
        self.told: dict[tuple[str, str], float] = {}
        # Likewise: since when it receives beats without a gap.
        self.unbroken: dict[tuple[str, str], float] = {}
        # By host: what somebody sends in its name, and its latest beats.
        self.forged: dict[str, str] = {}
        self._beats: dict[str, list[message.Beat]] = {}
        # By process and server: when it heard last that the server has crashed.
        self.crashes: dict[tuple[str, str], float] = {}
        self._ears: dict[str, Ear] = {}
        self._homes: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self._sent: dict[str, dict[int, float]] = {}
        self._last: dict[str, tuple[int, frozenset[str]]] = {}
        # By host: the node that it has named last in a beat.
        self._named: dict[str, str] = {}

    # Clients

    def add_host(self, name: str) -> None:
        """Let a host send heartbeats."""
        self._homes[name] = self._hub.random.choice(self.nodes)
        self._sent[name] = {}
        self._hub.call(self._hub.random.uniform(0.0, self._interval), lambda: self._beat(name))

    def listen(self, name: str, monitor: Any, now: Callable[[], float]) -> None:
        """Let an engine hear."""
        reader = hubs.Actor(self._hub, self._hub.owner, lambda: None)
        ear = Ear(name, self._hub.random.choice(self.nodes), reader, monitor, now)
        self._ears[name] = ear
        if ear.node in self.down:
            self._move(ear)
        self._hub.call(self._echo * self._hub.random.random(), lambda: self._echoes(ear))

    def thaw(self, name: str) -> None:
        """Let an engine read what came while it stood still."""
        ear = self._ears.get(name)
        if ear is not None:
            waiting, ear.waiting = ear.waiting, []
            for method, argument in waiting:
                self._deliver(ear, method, argument)

    def say_goodbye(self, host: str, kind: str) -> None:
        """Let a host's next beat be its last one."""
        self._world.farewells.pop(host, None)
        self._send(self._world.hosts[host], kind)

    # Nodes

    def break_node(self, node: str) -> None:
        """Stop a node; its clients connect to another one."""
        self.down.add(node)
        for host, home in self._homes.items():
            if home == node:
                self._hub.call(self._hub.random.uniform(*_RECONNECT),
                               functools.partial(self._rehome, host))
        for ear in self._ears.values():
            if ear.node == node:
                self._hub.call(self._hub.random.uniform(*_RECONNECT),
                               functools.partial(self._move, ear))

    def mend_node(self, node: str) -> None:
        """Start a node."""
        self.down.discard(node)
        for host in self._homes:
            self._rehome(host)
        for ear in self._ears.values():
            self._move(ear)

    def _working(self) -> list[str]:
        return [node for node in self.nodes if node not in self.down]

    def _rehome(self, host: str) -> None:
        if self._homes[host] in self.down and (working := self._working()):
            self._homes[host] = self._hub.random.choice(working)

    def _move(self, ear: Ear) -> None:
        if ear.node in self.down and (working := self._working()):
            ear.node = self._hub.random.choice(working)

    def _hears(self, ear: Ear, node: str) -> bool:
        return not (ear.name in self.cut or ear.node in self.down or node in self.down
                    or (self.split and frozenset((ear.node, node)) in self.split))

    def node(self, engine: str) -> str:
        """Return the node that an engine is connected to; empty before it listens."""
        ear = self._ears.get(engine)
        return ear.node if ear is not None else ''

    # Messages

    def _deliver(self, ear: Ear, method: str, argument: Any) -> None:
        if not self._hub.alive(ear.owner):
            return
        if self._hub.frozen(ear.owner):
            ear.waiting.append((method, argument))
            return
        if ear.gulp:
            ear.backlog.append((self._hub.now(), method,
                                ear.now() if argument is None else argument))
            return
        if method == 'heard':
            self._note(ear.owner, argument)
        before, self._hub.running = self._hub.running, ear.reader
        try:
            getattr(ear.monitor, method)(ear.now() if argument is None else argument)
        finally:
            self._hub.running = before

    def overload(self, name: str, gulp: float) -> None:
        """Let an engine read seldom.

        :param gulp: seconds between two times at which it reads; 0 to read at once again
        """
        ear = self._ears.get(name)
        if ear is None:
            return
        begins, ear.gulp = gulp and not ear.gulp, gulp
        if begins:
            self._hub.call(gulp, functools.partial(self._read, ear))
        elif not gulp:
            self._read(ear)

    def _read(self, ear: Ear) -> None:
        """Let an engine read all at once that is not too old, as its listener does."""
        if not self._hub.alive(ear.owner) or self._ears.get(ear.name) is not ear:
            return
        backlog, ear.backlog = ear.backlog, []
        if not self._hub.frozen(ear.owner) and backlog:
            fresh = [(method, argument) for at, method, argument in backlog
                     if self._hub.now() - at <= listener._FRESH]
            newest = {argument.host: argument for method, argument in fresh if method == 'heard'}
            for beat in newest.values():
                self._note(ear.owner, beat)
            before, self._hub.running = self._hub.running, ear.reader
            try:
                ear.monitor.heard_late(
                    tuple(newest.values()),
                    [argument for method, argument in fresh if method == 'echo'],
                    len(backlog) - len(fresh))
            finally:
                self._hub.running = before
        if ear.gulp:
            self._hub.call(ear.gulp * self._hub.random.uniform(0.5, 1.5),
                           functools.partial(self._read, ear))

    def _note(self, owner: str, beat: message.Beat) -> None:
        now = self._hub.now()
        if beat.leaving:
            self._world.farewells.setdefault(beat.host, now)
        if now - self.heard.get((owner, beat.host), 0.0) > GAP:
            self.unbroken[owner, beat.host] = now
        self.heard[owner, beat.host] = now
        if beat.uptime is not None:
            self.told[owner, beat.host] = now

    def _echoes(self, ear: Ear) -> None:
        if not self._hub.alive(ear.owner):
            return
        if not self._hub.frozen(ear.owner) and self._hears(ear, ear.node):
            self._deliver(ear, 'echo', None)
        self._hub.call(self._echo, functools.partial(self._echoes, ear))

    def _beat(self, name: str) -> None:
        host = self._world.hosts[name]
        if host.reached:
            self._send(host, '')
        self._hub.call(self._interval, functools.partial(self._beat, name))

    def _send(self, host: parts.Host, goodbye: str) -> None:
        name = host.name
        running = self._world.running(name)
        key = host.kernel * 1000 + host.service
        number = self._numbers[name] = self._numbers.get(name, -1) + 1
        listed = self._last.get(name) != (key, running) or number % _LISTED == 0
        self._last[name] = key, running
        now = self._hub.now()
        sent = self._sent[name]
        sent[number] = now
        home = self._homes[name]
        if len(sent) > 30:
            del sent[min(sent)]
        beat = message.Beat(
            host=name, boot=f'{name}-{key}', number=number, interval=self._interval,
            libvirt_age=0.0, storage_age=0.0 if host.storage else now - host.deaf,
            ended=self._world.ended(name),
            ready=tuple(self._signs(host)),
            leaving=bool(goodbye), goodbye=goodbye, kernel=f'{name}-{host.kernel}',
            running='+'.join(sorted(running)) or 'none', broker=home,
            domains=tuple(sorted(running)) if listed else None,
            uptime=self._uptime(host, home, listed) if self._world.places else None)
        lease, age = self._world.report(name)
        if lease:
            beat = dataclasses.replace(beat, lease=lease, sentinel_age=age)
        known = self._beats.setdefault(name, [])
        self._beats[name] = [*known[-_KEPT:], beat]
        for ear in self._ears.values():
            if (ear.name, name) not in self.deaf and self._hears(ear, home):
                self._deliver(ear, 'heard', beat)
                if name in self.forged and not goodbye:
                    self._forge(ear, beat, known)
                self.kernels.setdefault((ear.owner, name), set()).add(host.kernel)
                for server in beat.ended:
                    self.crashes[ear.owner, server] = now

    def _forge(self, ear: Ear, beat: message.Beat, former: list[message.Beat]) -> None:
        """Send what is no beat of a host to an engine, right after the latest one that is."""
        if not self._hub.alive(ear.owner) or self._hub.frozen(ear.owner) or ear.gulp:
            return
        kind, source = self.forged[beat.host], self._hub.random
        fields, echo = message.encode(beat), {'engine': ear.name, 'sent': ear.now() + 86400.0}
        changes: dict[str, Any] = {
            'malformed': {source.choice(sorted({*fields} - {'host'})): source.choice(_JUNK)},
            'ahead': {'number': beat.number + 10**6},
            'other': {'boot': 'forged', 'kernel': 'forged', 'running': 'none', 'domains': [],
                      'number': source.randint(0, 2 * beat.number + 1)}}
        if kind == 'old' and former:
            fields = message.encode(source.choice(former))
        fields.update(changes.get(kind, {}))
        body = (message.wrap('echo', echo) if kind == 'echo'
                else message.wrap('beat', {'beat': fields}))
        before, self._hub.running = self._hub.running, ear.reader
        try:
            listener.Ears(ear.name, ear.monitor, lambda sent: False, rejections.Rejections()
                          ).hear([body])
        finally:
            self._hub.running = before

    def _uptime(self, host: parts.Host, home: str, listed: bool) -> float | None:
        """Return the seconds since the boot of a host, in the beats that name its broker node."""
        if self._named.get(host.name) == home and not listed:
            return None
        self._named[host.name] = home
        return self._hub.now() - host.booted

    def _signs(self, host: parts.Host) -> Iterator[str]:
        """Yield what a host reports of its backups."""
        for backup in host.backups.values():
            server = self._world.servers.get(backup.server)
            if not backup.runs or backup.phase not in ('running', 'hardened') or server is None:
                continue
            age = self._hub.now() - backup.began
            if 0.0 <= server.boot <= age:
                yield backup.id
            if 0.0 <= server.frame <= age:
                yield message.first_frame(backup.id)

    def answer(self, engine: str, host: str, boot: str, number: int, hides: bool,
               protects: str = '') -> None:
        """Bring an engine's answer to a host."""
        del protects
        ear = self._ears.get(engine)
        if ear is None or not self._hears(ear, self._homes[host]):
            raise OSError('the broker does not answer')
        known = self._world.hosts[host]
        if boot == f'{host}-{known.kernel * 1000 + known.service}' and (
                known.reached or known.paused):
            sent = self._sent[host].get(number)
            if sent is not None:
                self._world.renewal(host, sent, hides)
