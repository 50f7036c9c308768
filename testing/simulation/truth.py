# SPDX-License-Identifier: Apache-2.0
"""What engines begin, judged by the state of the world rather than by what an engine knows."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from specreds_nova.beats import message
from specreds_nova.beats import voices as all_voices
from specreds_nova.engine import model
from specreds_nova.engine import modes
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery.steps import race
from specreds_nova.engine.recovery.steps import restart
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import monitor as monitors
from specreds_nova.engine.suspicion import weighing
from testing.simulation import hub as hubs
from testing.simulation import parts
from testing.simulation import store as stores
from testing.simulation import voices
from testing.simulation import world as worlds

# Seconds after the return of a host, and after another engine has begun to hear it without a
# break, in which an engine may still decide against the host.
_GRACE = 10.0
# Seconds in which an engine may still act on what it knew before a goodbye or a mode.
_HEEDED = 20.0
# Seconds from the start of a backup until its host has had an answer of the primary's sentinel.
_ANSWERED = 1.5
# Seconds of a silence, by the clock of an engine, from before the host stood still: one interval
# between two beats, and what a clock is fast.
_BEFORE = 1.1
# Seconds between two looks at what engines hear, after which a look is missing.
_LOOKS = 6.0


class Engine(Protocol):
    """The part of the process of an engine that is judged, or asked."""

    name: str
    owner: str

    def hears(self, host: str) -> bool:
        """Return whether the engine hears a host, does not suspect it, and can say so."""

    def answers(self, host: str) -> bool:
        """Return whether the engine should answer a host: it hears the host, which is trusted."""


class Truth:
    """The whole cloud, as no engine of it sees it.

    :param store: returns the database
    :param engines: the latest process of each engine, by name
    :param network: the voices of sentinels
    """

    def __init__(self, hub: hubs.Hub, world: worlds.World, store: Callable[[], stores.Store],
                 engines: Mapping[str, Any], network: voices.Network) -> None:
        self._hub = hub
        self._network = network
        self._world = world
        self._store = store
        self._engines = engines
        # By process and host: since when the engine was seen to hear the host, and when last.
        # Without a process: the same for the answers of the host's sentinel.
        self._seen: dict[tuple[str, str], tuple[float, float]] = {}
        # The hosts that engines have answered for a while since their mode is not to act.
        self._told: set[str] = set()

    def look(self) -> None:
        """Note which engines and sentinels can be heard. To be called every few seconds."""
        for host in self._world.hosts:
            self._note(('', host), self._world.answers(host))
            for engine in self._engines.values():
                self._note((engine.owner, host), engine.hears(host))
            self._note(('answered', host), any(
                engine.answers(host) for engine in self._engines.values()))
            self._check_voice(self._world.hosts[host])
            self._check_shown(self._world.hosts[host])
            self._check_restrained(self._world.hosts[host])

    def _check_voice(self, host: parts.Host) -> None:
        """Record a host that has been off for a while, and whose sentinel an engine hears."""
        since, _ = self._seen.get(('off', host.name), (self._hub.now(), 0.0))
        self._note(('off', host.name), not host.alive)
        if host.alive or self._hub.now() - since <= _GRACE:
            return
        for engine in self._engines.values():
            if engine.engine is not None and not self._hub.frozen(engine.owner) and (
                    engine.engine._voices.state(host.name) == all_voices.HEARD):
                self._world.fail(f'{engine.name} hears the sentinel of {host.name}, which is off')

    def _check_restrained(self, host: parts.Host) -> None:
        """Record a host that begins to hide servers although its mode is not to act."""
        now = self._hub.now()
        mode = modes.mode(self._store().modes(), host.name, (), now)
        if mode == model.ACT:
            self._told.discard(host.name)
            return
        since, _ = self._seen.get(('answered', host.name), (now, now))
        changed = self._world.restrained.get(host.name, 0.0)
        if (host.reached and host.sentinel
                and now - max(since, changed, host.since) > _GRACE):
            self._told.add(host.name)
        if host.name in self._told and host.alive and (
                self._world.hides(host) and self._world.running(host.name)):
            self._world.fail(f'{host.name} hides its servers although its mode is {mode}')

    def _check_shown(self, host: parts.Host) -> None:
        """Record a host that hides servers although engines should answer it for a while."""
        now, lease = self._hub.now(), self._world._lease(host)
        since, _ = self._seen.get(('answered', host.name), (now, now))
        # A host that sends no beats hides its servers, whatever engines believe of it.
        hides = host.reached and now - host.since > lease and self._world.hides(host)
        if hides and now - since > lease + _GRACE and self._world.running(host.name):
            self._world.fail(f'{host.name} hides its servers, though it is trusted and heard')

    def _note(self, key: tuple[str, str], heard: bool) -> None:
        now = self._hub.now()
        since, last = self._seen.get(key, (now, now))
        if heard:
            self._seen[key] = (since if now - last <= _LOOKS else now), now
        else:
            self._seen.pop(key, None)

    def _lasts(self, owner: str, host: str) -> bool:
        """Return whether something is heard without a break since a while."""
        since, _ = self._seen.get((owner, host), (self._hub.now(), 0.0))
        return self._hub.now() - since > _GRACE

    def check_decision(self, engine: Engine, recovery: model.Recovery, primary: parts.Copy | None
                       ) -> None:
        """Record a decision against a primary that should have been spared.

        It is right to fence a primary that may be fenced already.
        """
        if primary is None or not primary.runs or primary.fenced or _insists(recovery):
            return
        host, now = self._world.hosts[primary.host], self._hub.now()
        if mode := self._restrains(host.name):
            self._world.fail(f'{recovery.server} is decided against although the mode of '
                             f'{host.name} is {mode}')
        witnesses = [*self._witnesses(engine, host.name)]
        well_since = max(host.since, self._world.mended.get(host.name, 0.0))
        if host.reached and host.storage and now - well_since > _GRACE and witnesses:
            self._world.fail(f'{recovery.server} is decided against though it runs on '
                             f'{host.name}, which is heard by {" and ".join(witnesses)}')
        if self._spoken_for(engine.owner, host) and not restart.concerns(recovery):
            self._world.fail(f'{recovery.server} is decided against though the sentinel of '
                             f'{host.name} is heard')
        if self._unhidden(host):
            self._world.fail(f'{recovery.server} is decided against at once though nothing hides '
                             f'the servers of {host.name}')
        if early := self._early(host, recovery):
            self._world.fail(early)
        if self._silent_in_order(host, recovery):
            self._world.fail(f'{recovery.server} is decided against though it runs on '
                             f'{host.name}, whose nova-compute was stopped in good order')
        if self._lasts('', host.name) and self._answered(host, recovery):
            self._world.fail(f'{recovery.server} is decided against though it runs by the '
                             f'sentinel of {host.name}')

    def _spoken_for(self, owner: str, host: parts.Host) -> bool:
        """Return whether an engine has to know by the sentinel that a host is well for a while."""
        well_since = max(host.since, self._world.mended.get(host.name, 0.0), host.booted)
        return bool(host.alive and host.storage and self._hub.now() - well_since > _GRACE
                    and self._network.speaks(owner, host.name, _GRACE))

    def check_creation(self, owner: str, recovery: model.Recovery) -> None:
        """Record a recovery that is created although the mode of its host is not to act.

        Or one that is created for the silence of a host whose sentinel is heard, or was stopped
        in good order within the last minute.

        :param owner: the process of the engine
        """
        silent = {fact.get('kind') for fact in recovery.why} == {evidence.SILENCE}
        host = self._world.hosts[recovery.host]
        if silent and self._spoken_for(owner, host):
            self._world.fail(f'a recovery of {recovery.server} is created though the sentinel of '
                             f'{host.name} is heard')
        left = self._network.left(owner, host.name)
        if silent and host.alive and host.storage and left is not None and (
                left < weighing.RETURN_S - _GRACE):
            self._world.fail(f'a recovery of {recovery.server} is created {left:.0f} s after the '
                             f'goodbye of the sentinel of {host.name}')
        if mode := self._restrains(recovery.host):
            self._world.fail(f'a recovery of {recovery.server} is created although the mode of '
                             f'{recovery.host} is {mode}')

    def _unhidden(self, host: parts.Host) -> bool:
        """Return whether nothing hides the servers of a host that has just fallen silent."""
        return (self._world.reports and not host.reached and not host.sentinel
                and self._world.without_sentinel(host) > monitors.SENTINEL_S + _GRACE
                and self._hub.now() - host.silent < self._world.evacuate_after - _BEFORE)

    def _restrains(self, host: str) -> str | None:
        """Return the mode of a host for which engines have not acted for a while; or None."""
        now = self._hub.now()
        mode = modes.mode(self._store().modes(), host, (), now)
        late = now - self._world.restrained.get(host, 0.0) > _HEEDED
        return mode if late and mode != model.ACT else None

    def _early(self, host: parts.Host, recovery: model.Recovery) -> str | None:
        """Return what is wrong with a decision by a first frame; None if nothing is."""
        last = next((step for step in reversed(recovery.steps)
                     if step.name == runs.RACE), None)
        if last is None or not last.detail.get('early'):
            return None
        now, server = self._hub.now(), self._world.servers.get(recovery.server)
        # When the frame decided. The host may have returned since, or for so short a time before
        # that nobody has heard it.
        at = now if last.ended is None else last.ended
        silent = 0.0 if host.reached and host.since <= at else at - host.silent
        heard = not 0.0 <= host.silent - host.since < _BEFORE
        if heard and silent < race.NOT_BEFORE - _BEFORE:
            return (f'{recovery.server} is decided against by a first frame, though {host.name} '
                    f'was silent for {silent:.1f} s only')
        frames = server is not None and any(
            0.0 <= server.frame <= now - backup.began
            for there in self._world.hosts.values() for backup in there.backups.values()
            if backup.superposition == recovery.superposition)
        return None if frames else f'{recovery.server} has sent no frame, and is decided against'

    def _answered(self, host: parts.Host, recovery: model.Recovery) -> bool:
        """Return whether a sentinel has had the time to answer the host of a backup.

        A nova-compute that was away has not asked meanwhile.
        """
        there = self._world.hosts.get(recovery.destination or '')
        return (there is not None and there.storage and self._world.answers(host.name)
                and there.reached and self._hub.now() - there.since > _GRACE
                and any(self._hub.now() - backup.began > _ANSWERED
                        for backup in there.backups.values()
                        if backup.superposition == recovery.superposition and backup.runs))

    def _silent_in_order(self, host: parts.Host, recovery: model.Recovery) -> bool:
        """Return whether the silence of a host was recorded as expected before a recovery."""
        recorded = self._store().host(host.name)
        since = self._world.farewells.get(host.name)
        return (recorded.goodbye == message.SERVICE and since is not None and not host.compute
                and recovery.created - since > _HEEDED and not _ordered(recovery)
                and not restart.concerns(recovery))

    def _witnesses(self, engine: Engine, host: str) -> Iterable[str]:
        """Yield the other engines that hear a host for a while."""
        for other in self._engines.values():
            if other.name != engine.name and other.hears(host) and (
                    self._lasts(other.owner, host)):
                yield other.name


def _insists(recovery: model.Recovery) -> bool:
    """Return whether a recovery has to decide although its host is well.

    The primary may be fenced: by a decision with an unknown outcome, or without a superposition.
    """
    return any(step.detail.get('outcome') == 'gone' or step.name == runs.SHUT_OUT
               for step in recovery.steps)


def _ordered(recovery: model.Recovery) -> bool:
    """Return whether an operator has caused a recovery."""
    return any(fact.get('kind') == evidence.OPERATOR for fact in recovery.why)
