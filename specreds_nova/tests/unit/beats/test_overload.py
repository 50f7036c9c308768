# SPDX-License-Identifier: Apache-2.0
"""An engine that reads late what it hears, and what it makes of its hosts then and later."""

import uuid

import fixtures
import testtools

from specreds_nova.beats import echo
from specreds_nova.beats import listener
from specreds_nova.beats import message
from specreds_nova.beats import overload
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import monitor as monitors
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine.suspicion import base

_STEP, _ECHO = 0.02, 0.1


class LateTest(testtools.TestCase):
    """Hosts whose beats wait for the engine."""

    hosts = 20

    def setUp(self) -> None:
        super().setUp()
        self.clock = clocks.Clock()
        self.witness = base.Witness(self.clock)
        self.monitor = monitors.Monitor(self.clock, self.witness)
        echoed = echo.Echoed()
        self.ears = listener.Ears('e1', self.monitor, echoed=echoed.take)
        self.nodes = {name: base.Node(name, 0.0, more={
            'kernel': 'k1', 'running': 'd1', 'libvirt_age': 0.1, 'storage_age': 0.1})
            for name in (f'cn{number}' for number in range(self.hosts))}
        self.send = echoed.add
        # Messages that wait, each with the time at which it was sent.
        self.waiting: list[tuple[float, bytes]] = []
        # By how many seconds the engine reads late, and whether it reads at all.
        self.late, self.reads = 0.0, True
        self._count = 0
        self.run_for(10)

    def run_for(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / _STEP)):
            self._count += 1
            self.clock.time = 1000.0 + self._count * _STEP
            if self._count % round(base.INTERVAL / _STEP) == 0:
                for node in self.nodes.values():
                    if node.alive:
                        self.bus('beat', {'beat': message.encode(node.beat())})
            if self._count % round(_ECHO / _STEP) == 0:
                self.send(self.clock.time)
                self.bus('echo', {'engine': 'e1', 'sent': self.clock.time})
            if self.reads:
                self._read()

    def bus(self, method: str, arguments: dict[str, object]) -> None:
        """Send a message to the engine."""
        self.waiting.append((self.clock.time, message.wrap(method, arguments)))

    def _read(self) -> None:
        until = self.clock.time - self.late
        read = [body for sent, body in self.waiting if sent <= until]
        self.waiting = self.waiting[len(read):]
        self.ears.hear(read)
        self.monitor.tick()

    def gate(self, host: str) -> list[str]:
        """Return the reasons that hold a host back."""
        return gates.Gates((gates.Link(), gates.TooMany(0.5))).reasons(self.monitor.facts(host))

    def kill(self, *names: str) -> None:
        """Let hosts die."""
        for name in names:
            self.nodes[name].alive = False

    def test_backlog_is_not_worked_off(self) -> None:
        for seconds in (3.0, 5.0, 7.0):
            self.reads = False
            self.run_for(seconds)
            self.reads = True
            self.monitor.counted()
            self.run_for(0.02)
            self.assertLess(self.monitor.counted(), 2 * self.hosts)
            self.assertGreater(self.monitor.dropped(), (seconds / base.INTERVAL - 2) * self.hosts)
            self.assertIsNone(self.monitor.trouble())
            self.run_for(5)
            self.assertEqual([], self.witness.names('suspected'))

    def test_crash_and_goodbye_in_a_backlog_are_heard(self) -> None:
        node = self.nodes['cn1']
        self.reads = False
        self.run_for(1)
        self.bus('beat', {'beat': message.encode(node.beat(ended=(str(uuid.uuid4()),)))})
        node = self.nodes['cn2']
        self.bus('beat', {'beat': message.encode(node.beat(leaving=True, goodbye='system'))})
        node.alive = False
        self.run_for(4)
        self.reads = True
        self.run_for(2)
        self.assertEqual(['cn1'], self.witness.names('crashed'))
        self.assertEqual(['cn2'], self.witness.names('left'))
        self.assertEqual([], self.witness.names('suspected'))

    def test_host_that_dies_during_an_overload_is_recovered_after_it(self) -> None:
        self.late = 5.0
        self.run_for(20)
        self.assertIn('overloaded', self.monitor.trouble() or '')
        self.assertAlmostEqual(5.0, self.monitor.lateness(), delta=0.2)
        self.kill('cn1')
        self.run_for(120)
        self.assertTrue(self.monitor.suspected('cn1'))
        self.assertIn('overloaded', str(self.gate('cn1')))
        self.late = 0.0
        self.run_for(1)
        self.assertEqual(0.0, self.monitor.lateness())
        self.assertEqual(['cn1'], self.witness.names('suspected'))
        self.assertEqual([], self.witness.names('cleared'))
        self.assertEqual([], self.gate('cn1'))

    def test_host_that_was_silent_before_the_engine_was_deaf_is_silent_after_it(self) -> None:
        self.kill('cn1')
        self.run_for(0.6)
        for seconds in (0.5, 5.0, 60.0):
            self.reads = False
            self.run_for(seconds)
            self.reads = True
            self.run_for(8)
            self.assertEqual(['cn1'], self.monitor.all_suspected())
            self.assertEqual([], self.gate('cn1'))
        self.assertEqual([], self.witness.names('cleared'))

    def test_silent_hosts_are_counted_against_all_hosts(self) -> None:
        self.kill('cn1', 'cn2')
        self.run_for(60)
        for node in self.nodes.values():
            node.alive = False
        for _ in range(10):
            self.run_for(10)
            self.assertIn('20 of 20 hosts are silent', str(self.gate('cn1')))
            self.assertIn('18 of 18 hosts are silent', str(self.gate('cn3')))
        for name, node in self.nodes.items():
            node.alive = name not in ('cn1', 'cn2')
        self.run_for(2)
        self.assertEqual({'cn1', 'cn2'}, {*self.monitor.all_suspected()})
        self.assertEqual(([], []), (self.gate('cn1'), self.gate('cn2')))
        facts = self.monitor.facts('cn1')
        self.assertEqual((2, 20), (len(facts.silent), facts.known))


class OverloadTest(testtools.TestCase):
    """The state of an engine."""

    def test_begin_and_end_are_logged_once(self) -> None:
        clock, log = clocks.Clock(), self.useFixture(fixtures.FakeLogger())
        state = overload.Overload(clock)
        shown = []
        for seconds in (0.0, 3.0, 0.0, 7.0, 4.0, *[0.0] * 80, 2.0):
            clock.time += 0.1
            shown.append(state.look(seconds))
        self.assertEqual([0.0, 3.0, 3.0, 7.0, 7.0, 7.0], shown[:6])
        self.assertEqual([0.0, 2.0], shown[-2:])
        lines = log.output.splitlines()
        self.assertEqual(3, len(lines))
        self.assertIn('3.0 s late', lines[0])
        self.assertIn('up to 7.0 s late', lines[1])
