# SPDX-License-Identifier: Apache-2.0
"""The voices of sentinels: datagrams between hosts and engines, and what happens to them."""

from collections.abc import Callable
import dataclasses
import functools
from typing import Any

from specreds_nova.beats import message
from specreds_nova.beats import voice
from specreds_nova.beats import voices as all_voices
from testing.simulation import hub as hubs
from testing.simulation import parts
from testing.simulation import world as worlds

MASTER, FORMER = bytes(range(voice.KEY)), bytes(range(1, voice.KEY + 1))
# Seconds between two beats, and between two times at which an engine finds its socket empty. All
# times of voices are five times as long as in production, as beats of nova-compute are.
_BEAT = 0.5
# Seconds of beats after which an engine has to believe a sentinel.
_BELIEVED = 10.0
# Beats to an engine that somebody has seen, and may send once more.
_SEEN = 20
# By name of a constant of the engine: its value.
SLOWER = {'PATIENCE': 2.5, 'ALONE': 10.0, 'PAUSE': 1.5, '_RENEW': 0.5, '_ANSWER': 1.0,
          '_OTHER': 3.0}
# Seconds for which nonces count.
NONCE_S = 4.0
# Ways of a datagram that fail.
UP, DOWN, BOTH = WAYS = ('up', 'down', 'both')


@dataclasses.dataclass
class _Said:
    """What a sentinel knows of an engine's process."""

    boot: bytes
    nonce: bytes = voice.NO_NONCE


class _Sentinel:
    """The sentinel of one host.

    :ivar starts: number of its starts
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.starts = 0
        self.running = True
        self.number = 0
        self.sent: dict[int, float] = {}
        self.engines: dict[str, _Said] = {}


@dataclasses.dataclass
class _Ear:
    """The socket of one process of an engine."""

    name: str
    owner: str
    voices: all_voices.Voices
    reader: hubs.Actor
    waiting: list[tuple[bytes, str]] = dataclasses.field(default_factory=list)


class Network:
    """Brings datagrams from hosts to engines and back.

    :param on: whether hosts have keys; without keys, nothing is sent
    :ivar lost: by host: the ways that fail
    :ivar keys: by host: its master key, if it is another one
    :ivar replayed: the hosts whose beats somebody sends once more
    :ivar cut: engines that are cut off
    """

    def __init__(self, hub: hubs.Hub, world: worlds.World, cut: set[str], *, on: bool) -> None:
        self._hub = hub
        self._world = world
        self.on = on
        self.cut = cut
        self.lost: dict[str, str] = {}
        self.keys: dict[str, bytes] = {}
        self.replayed: set[str] = set()
        self._seen: dict[str, list[bytes]] = {}
        self._ears: dict[str, _Ear] = {}
        self._sentinels: dict[str, _Sentinel] = {}
        # By process of an engine and host: since when each beat of the sentinel has arrived, and
        # when the latest one has that the engine has to believe.
        self._heard: dict[tuple[str, str], tuple[float, float]] = {}
        # By process and host: when it has heard the goodbye of the sentinel.
        self._left: dict[tuple[str, str], float] = {}

    # Clients

    def add_host(self, name: str) -> None:
        """Let the sentinel of a host speak."""
        if self.on:
            self._sentinels[name] = _Sentinel(name)
            self._hub.call(_BEAT * self._hub.random.random(),
                           functools.partial(self._beat, name))

    def listen(self, name: str, voices: all_voices.Voices) -> None:
        """Let an engine hear."""
        if self.on:
            voices.use((MASTER,))
            reader = hubs.Actor(self._hub, self._hub.owner, lambda: None)
            ear = self._ears[name] = _Ear(name, self._hub.owner, voices, reader)
            self._hub.call(_BEAT * self._hub.random.random(), functools.partial(self._drain, ear))

    def speaks(self, owner: str, host: str, seconds: float) -> bool:
        """Return whether a process has heard a sentinel without a gap for some seconds."""
        since, last = self._heard.get((owner, host), (self._hub.now(), 0.0))
        return self._hub.now() - since > seconds and self._hub.now() - last < 2.0 * _BEAT

    def last(self, owner: str, host: str) -> float:
        """Return when a process has had to believe a sentinel last; minus infinity for never."""
        return self._heard.get((owner, host), (0.0, float('-inf')))[1]

    def say_goodbye(self, host: str) -> None:
        """Let the sentinel of a host say goodbye, before it is stopped."""
        if not self.on:
            return
        for ear in self._ears.values():
            if self.speaks(ear.owner, host, _BELIEVED):
                self._left[ear.owner, host] = self._hub.now()
        self._say(self._world.hosts[host], voice.Kind.GOODBYE)

    def left(self, owner: str, host: str) -> float | None:
        """Return how long ago a process has heard the goodbye of a sentinel that is stopped."""
        at = self._left.get((owner, host))
        return None if at is None or self._world.hosts[host].sentinel else self._hub.now() - at

    # Messages

    def _beat(self, name: str) -> None:
        host, sentinel = self._world.hosts[name], self._sentinels[name]
        runs = host.alive and host.sentinel
        if runs and not sentinel.running:
            sentinel.starts += 1
            sentinel.engines.clear()
        sentinel.running = runs
        if runs and not host.paused:
            self._say(host, voice.Kind.BEAT)
        if name in self.replayed:
            for ear in self._ears.values():
                for datagram in self._hub.random.sample(
                        self._seen.get(name, []), min(3, len(self._seen.get(name, [])))):
                    self._deliver(ear, datagram, '')
        self._hub.call(_BEAT, functools.partial(self._beat, name))

    def _say(self, host: parts.Host, kind: voice.Kind) -> None:
        sentinel = self._sentinels[host.name]
        if not (host.alive and host.sentinel):
            return
        sentinel.number += 1
        sentinel.sent[sentinel.number] = self._hub.now()
        sentinel.sent.pop(sentinel.number - 30, None)
        lease, _ = self._world.report(host.name)
        key = _key(self.keys.get(host.name, MASTER), host.name)
        age = 0.0 if host.storage else self._hub.now() - host.deaf
        for ear in list(self._ears.values()):
            known = sentinel.engines.setdefault(ear.name, _Said(
                f'{sentinel.starts:03}{host.name:.2}{ear.name:.3}'.encode().ljust(voice.ID)))
            datagram = key.beat(voice.Beat(
                host.name, known.boot, sentinel.number,
                voice.kernel_id(f'{host.name}-{host.kernel}'), known.nonce, kind, lease or
                message.LEASED, age))
            self._seen[host.name] = [*self._seen.get(host.name, [])[-_SEEN:], datagram]
            if self._passes(host, ear, UP):
                self._note(ear, host.name)
                self._deliver(ear, datagram, host.name)

    def _note(self, ear: _Ear, host: str) -> None:
        """Note that a beat of a sentinel arrives that an engine has to believe."""
        now = self._hub.now()
        since, last = self._heard.get((ear.owner, host), (now, float('-inf')))
        good = (self._passes(self._world.hosts[host], ear, DOWN)
                and host not in self.keys and not self._hub.frozen(ear.owner))
        if not good or now - last > 2.0 * _BEAT:
            since = now
        self._heard[ear.owner, host] = since, now if good else last

    def _passes(self, host: parts.Host, ear: _Ear, way: str) -> bool:
        return (host.control and not host.paused and ear.name not in self.cut
                and self.lost.get(host.name) not in (way, BOTH))

    def _deliver(self, ear: _Ear, datagram: bytes, host: str) -> None:
        if self._hub.frozen(ear.owner):
            ear.waiting.append((datagram, host))
        elif self._hub.alive(ear.owner):
            self._as(ear, lambda: self.answer(ear.name, ear.voices.hear([(datagram, host)])))

    def _drain(self, ear: _Ear) -> None:
        """Let an engine read what waits, and find its socket empty."""
        if not self._hub.alive(ear.owner):
            return
        if not self._hub.frozen(ear.owner):
            waiting, ear.waiting = ear.waiting, []

            def drain() -> None:
                before = ear.voices._now()
                self.answer(ear.name, ear.voices.hear(waiting))
                ear.voices.empty(before)
            self._as(ear, drain)
        self._hub.call(_BEAT, functools.partial(self._drain, ear))

    def _as(self, ear: _Ear, act: Callable[[], Any]) -> None:
        before, self._hub.running = self._hub.running, ear.reader
        try:
            act()
        finally:
            self._hub.running = before

    def answer(self, engine: str, answers: list[tuple[bytes, Any]]) -> None:
        """Bring answers of an engine to hosts."""
        ear = self._ears.get(engine)
        for datagram, name in answers:
            host = self._world.hosts.get(name)
            if host is None or ear is None or not self._passes(host, ear, DOWN) or not (
                    host.alive and host.sentinel):
                continue
            sentinel = self._sentinels[name]
            answer = _key(self.keys.get(name, MASTER), name).answered(datagram)
            known = sentinel.engines.get(engine)
            if answer is None or known is None or answer.boot != known.boot:
                continue
            known.nonce = answer.nonce
            sent = sentinel.sent.get(answer.number)
            if sent is not None and answer.says is not voice.Says.NOTHING:
                self._world.renewal(name, sent, answer.says is voice.Says.HIDE)


class Receiver:
    """The socket of an engine, as the engine uses it."""

    def __init__(self, network: Network, engine: str, voices: all_voices.Voices) -> None:
        self._network = network
        self._engine = engine
        self._voices = voices

    def start(self) -> None:
        """Begin."""
        self._network.listen(self._engine, self._voices)

    def stop(self, patience: float) -> None:
        """Do nothing."""

    def problems(self) -> list[str]:
        """Return nothing."""
        return []

    def answerable(self) -> list[tuple[str, bytes, int]]:
        """Return the latest sign of life of each sentinel."""
        return self._voices.answerable()

    def renew(self, host: str, boot: bytes, number: int, hides: bool) -> None:
        """Renew the lease of a host."""
        renewal = self._voices.renewal(
            host, boot, number, voice.Says.HIDE if hides else voice.Says.SHOW)
        if renewal is not None:
            self._network.answer(self._engine, [(renewal[0], host)])

    def address(self) -> str:
        """Return nothing: hosts know where engines are."""
        return ''


@functools.cache
def _key(master: bytes, host: str) -> voice.Key:
    return voice.Key(voice.host_key(master, host))
