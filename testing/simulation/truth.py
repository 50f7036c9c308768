# SPDX-License-Identifier: Apache-2.0
"""Decisions of engines, judged by the state of the world rather than by what an engine knows."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from specreds_nova.engine import model
from specreds_nova.engine.recovery import timeline
from testing.simulation import hub as hubs
from testing.simulation import parts
from testing.simulation import world as worlds

# Seconds after the return of a host, and after another engine has begun to hear it without a
# break, in which an engine may still decide against the host.
_GRACE = 10.0
# Seconds between two looks at what engines hear, after which a look is missing.
_LOOKS = 6.0


class Engine(Protocol):
    """The part of the process of an engine that is judged, or asked."""

    name: str
    owner: str

    def hears(self, host: str) -> bool:
        """Return whether the engine hears a host, does not suspect it, and can say so."""


class Truth:
    """The whole cloud, as no engine of it sees it.

    :param engines: the latest process of each engine, by name
    """

    def __init__(self, hub: hubs.Hub, world: worlds.World, engines: Mapping[str, Any]) -> None:
        self._hub = hub
        self._world = world
        self._engines = engines
        # By process and host: since when the engine was seen to hear the host, and when last.
        self._heard: dict[tuple[str, str], tuple[float, float]] = {}

    def look(self) -> None:
        """Note which engines hear which hosts. To be called every few seconds."""
        now = self._hub.now()
        for engine in self._engines.values():
            for host in self._world.hosts:
                key = engine.owner, host
                if engine.hears(host):
                    since, last = self._heard.get(key, (now, now))
                    self._heard[key] = (since if now - last <= _LOOKS else now), now
                else:
                    self._heard.pop(key, None)

    def check_decision(self, engine: Engine, recovery: model.Recovery, primary: parts.Copy | None
                       ) -> None:
        """Record a decision against a primary that runs where another engine hears its host.

        It is right to fence a primary that may be fenced already.
        """
        if primary is None or not self._serves(primary) or _insists(recovery):
            return
        host, now = self._world.hosts[primary.host], self._hub.now()
        well_since = max(host.since, self._world.mended.get(host.name, 0.0))
        witnesses = [*self._witnesses(engine, host.name)]
        if now - well_since > _GRACE and witnesses:
            self._world.fail(f'{recovery.server} is decided against though it runs on '
                             f'{host.name}, which is heard by {" and ".join(witnesses)}')

    def _serves(self, primary: parts.Copy) -> bool:
        """Return whether a primary runs on a host whose links work."""
        host = self._world.hosts[primary.host]
        return primary.runs and not primary.fenced and host.reached and host.storage

    def _witnesses(self, engine: Engine, host: str) -> Iterable[str]:
        """Yield the other engines that hear a host for a while."""
        for other in self._engines.values():
            since, _ = self._heard.get((other.owner, host), (self._hub.now(), 0.0))
            if other.name != engine.name and other.hears(host) and (
                    self._hub.now() - since > _GRACE):
                yield other.name


def _insists(recovery: model.Recovery) -> bool:
    """Return whether a recovery has to decide although its host is well.

    The primary may be fenced: by a decision with an unknown outcome, or without a superposition.
    """
    return any(step.detail.get('outcome') == 'gone' or step.name == timeline.SHUT_OUT
               for step in recovery.steps)
