# SPDX-License-Identifier: Apache-2.0
"""A cloud in simulated time: hosts that beat, a broker that may fail, and one monitor."""

from collections.abc import Mapping
import dataclasses
from typing import Any
from unittest import mock

import testtools

from specreds_nova.beats import message
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import monitor
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.engine.suspicion import watcher
from specreds_nova.tests.unit.engine import clock as clocks

INTERVAL = 0.2
_ECHO = 0.1
_TICK = 0.05
_STEP = 0.01


class Witness(watcher.Watcher):
    """An observer that records every event with its time."""

    def __init__(self, clock: clocks.Clock) -> None:
        self._clock = clock
        self.events: list[tuple[float, str, tuple[Any, ...]]] = []

    def appeared(self, host: str, kernel: str) -> None:
        """Record that a host was heard for the first time."""
        self._note('appeared', host, kernel)

    def doubted(self, host: str) -> None:
        """Record that a host is late."""
        self._note('doubted', host)

    def suspected(self, host: str, why: tuple[Mapping[str, Any], ...]) -> None:
        """Record that a host is suspected."""
        self._note('suspected', host, why)

    def cleared(self, host: str) -> None:
        """Record the end of a suspicion."""
        self._note('cleared', host)

    def left(self, host: str, goodbye: str | None, at: float | None) -> None:
        """Record a goodbye, or its end."""
        self._note('left', host, goodbye, at)

    def crashed(self, host: str, server: str, why: tuple[Mapping[str, Any], ...]) -> None:
        """Record the crash of a server."""
        self._note('crashed', host, server, why)

    def booted(self, host: str, kernel: str) -> None:
        """Record another boot of a host."""
        self._note('booted', host, kernel)

    def names(self, name: str) -> list[str]:
        """Return the hosts of all events of a kind, in order."""
        return [arguments[0] for _, kind, arguments in self.events if kind == name]

    def _note(self, name: str, *arguments: Any) -> None:
        self.events.append((self._clock.now(), name, arguments))


@dataclasses.dataclass
class Node:
    """A host that sends heartbeats."""

    name: str
    offset: float
    boot: str = 'b1'
    number: int = 0
    alive: bool = True
    more: dict[str, Any] = dataclasses.field(default_factory=dict)

    def beat(self, **more: Any) -> message.Beat:
        """Return the next heartbeat."""
        beat = message.Beat(self.name, self.boot, self.number, INTERVAL, **{**self.more, **more})
        self.number += 1
        return beat


class CloudTestCase(testtools.TestCase):
    """A test with some hosts that the engine has heard for a while.

    A subclass may set other ``settings`` of the monitor.
    """

    hosts = 5
    settings = monitoring.Settings()

    def setUp(self) -> None:
        """Start the cloud."""
        super().setUp()
        self.begin()

    def weigh(self, kind: str, weight: float) -> None:
        """Let a kind of evidence have another weight."""
        patch = mock.patch.dict(evidence.KINDS, {
            kind: dataclasses.replace(evidence.KINDS[kind], weight=weight)})
        patch.start()
        self.addCleanup(patch.stop)

    def begin(self) -> None:
        """Create hosts, monitor and observer, and let time pass."""
        self.clock = clocks.Clock()
        self.witness = Witness(self.clock)
        self.monitor = monitor.Monitor(self.clock, self.witness, self.settings)
        self.nodes = {f'cn{number}': Node(f'cn{number}', 0.037 * number)
                      for number in range(1, self.hosts + 1)}
        self.broker = True
        # While the engine is frozen, messages to it wait.
        self.frozen = False
        self._waiting: list[message.Beat | float] = []
        self._count = 0
        self.run_for(10)

    def stand_still(self, seconds: float) -> None:
        """Let time pass while the engine is frozen."""
        self.frozen = True
        self.run_for(seconds)
        self.frozen = False

    def run_for(self, seconds: float) -> None:
        """Let time pass, with heartbeats, echoes and rounds of the monitor."""
        for _ in range(round(seconds / _STEP)):
            self._count += 1
            self.clock.time = 1000.0 + self._count * _STEP
            for node in self.nodes.values():
                if node.alive and self._due(INTERVAL, node.offset):
                    self._send(node.beat())
            if not self.frozen:
                if self._due(_ECHO):
                    self._send(self.clock.time)
                self._deliver()
                if self._due(_TICK):
                    self.monitor.tick()

    def suspected(self) -> set[str]:
        """Return the hosts that are suspected."""
        return {name for name in self.nodes if self.monitor.suspected(name)}

    def gate(self, host: str, service: Mapping[str, Any] | None = None) -> list[str]:
        """Return the reasons for which no recovery starts for a host."""
        return gates.Gates((gates.Link(), gates.TooMany(0.5), gates.Flapping(3))).reasons(
            self.monitor.facts(host, service))

    def _due(self, interval: float, offset: float = 0.0) -> bool:
        return (self._count - round(offset / _STEP)) % round(interval / _STEP) == 0

    def _send(self, what: message.Beat | float) -> None:
        if self.broker:
            self._waiting.append(what)

    def _deliver(self) -> None:
        waiting, self._waiting = self._waiting, []
        for what in waiting:
            if isinstance(what, message.Beat):
                self.monitor.heard(what)
            else:
                self.monitor.echo(what)
