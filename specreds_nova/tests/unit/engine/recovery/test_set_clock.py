# SPDX-License-Identifier: Apache-2.0
"""Engines whose system has had another time at their start, as before NTP has corrected it."""

from typing import Any
from unittest import mock

import ddt
import testtools

from specreds_nova.beats import message
from specreds_nova.engine import model
from specreds_nova.engine.recovery import crashes
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.suspicion import evidence
from specreds_nova.engine.suspicion import monitor
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine.recovery import base
from specreds_nova.tests.unit.engine.recovery import test_dispatch
from specreds_nova.tests.unit.engine.recovery import test_janitor
from specreds_nova.tests.unit.engine.recovery.steps import test_merge
from specreds_nova.tests.unit.engine.suspicion import base as detection_base

_HOUR = 3600.0


class JanitorBehindTest(test_janitor.JanitorTest):
    """The clock was set forward by an hour since the start."""

    clock_ahead = _HOUR


class JanitorAheadTest(test_janitor.JanitorTest):
    """The clock was set back by an hour since the start."""

    clock_ahead = -_HOUR

    def test_host_that_was_suspected_by_the_wrong_clock_is_trusted(self) -> None:
        self.clock.ahead = 0.0
        self.suspect()
        self.clock.ahead = -_HOUR
        self._return_host()
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self._state())


class DispatcherBehindTest(test_dispatch.DispatcherTest):
    """The clock was set forward by an hour since the start."""

    clock_ahead = _HOUR


class DispatcherAheadTest(test_dispatch.DispatcherTest):
    """The clock was set back by an hour since the start."""

    clock_ahead = -_HOUR


class MergeBehindTest(test_merge.SecondFailureTest):
    """The clock was set forward by an hour since the start."""

    clock_ahead = _HOUR


class MergeAheadTest(test_merge.SecondFailureTest):
    """The clock was set back by an hour since the start."""

    clock_ahead = -_HOUR


@ddt.ddt
class StampsTest(base.RecoveryTest):
    """Times in the database."""

    clock_ahead = _HOUR

    @ddt.data((100.0, 100.0), (0.0, 0.0), (-4.0, 0.0), (-6.0, float('inf')))
    @ddt.unpack
    def test_time_that_is_not_over_is_long_ago(self, ago: float, age: float) -> None:
        self.assertEqual(age, self.context.age(self.clock.wall() - ago))


class EvidenceTest(detection_base.CloudTestCase):
    """What a detector tells the database, and is told by it and by Nova."""

    def begin(self) -> None:
        super().begin()
        self.weigh(evidence.NOVA, 1.0)
        self.clock.ahead = -_HOUR

    def events(self, kind: str) -> list[tuple[Any, ...]]:
        """Return the arguments of all events of a kind."""
        return [arguments for _, name, arguments in self.witness.events if name == kind]

    def test_evidence_has_the_time_of_the_system(self) -> None:
        self.nodes['cn1'].alive = False
        self.run_for(2.0)
        [(_host, [fact])] = self.events('suspected')
        self.assertTrue(0.0 <= self.clock.wall() - fact['at'] <= 2.0)

    def test_goodbye_has_the_time_of_the_system(self) -> None:
        self.nodes['cn1'].alive = False
        self.monitor.heard(self.nodes['cn1'].beat(leaving=True, goodbye=message.SYSTEM))
        self.run_for(0.1)
        [(_host, _kind, at)] = self.events('left')
        self.assertTrue(0.0 <= self.clock.wall() - at <= 0.1)

    def test_goodbye_of_the_database_is_over_in_time(self) -> None:
        self.monitor = monitor.Monitor(self.clock, self.witness, self.settings)
        self.monitor.expect(self.nodes)
        self.monitor.left('cn1', message.SYSTEM, self.clock.wall() - 250.0)
        self.nodes['cn1'].alive = False
        self.run_for(40.0)
        self.assertFalse(self.monitor.suspected('cn1') and self.events('suspected'))
        self.run_for(20.0)
        self.assertEqual(['cn1'], self.witness.names('suspected'))

    def test_word_of_nova_on_an_earlier_nova_compute_is_left_out(self) -> None:
        expected: list[tuple[float, set[str]]] = [(20.0, set()), (-1.0, {'cn1'})]
        for ago, suspected in expected:
            self.monitor.note('cn1', evidence.NOVA, 'since', seen=self.clock.wall() - ago)
            self.run_for(0.2)
            self.assertEqual(suspected, self.suspected())


class LostServersTest(testtools.TestCase):
    """Servers that Nova has marked as stopped since the boot of their host."""

    def test_time_of_the_boot_is_that_of_the_system(self) -> None:
        compute, clock = mock.Mock(), clocks.Clock(ahead=_HOUR)
        compute.servers.return_value = [base.make_server('a', status='SHUTOFF')]
        hosts = mock.Mock(**{'boot.return_value': {'uptime': 40.0}})
        suspects = mock.Mock(**{'running.return_value': False})
        lost = crashes.LostServers(
            mock.Mock(), mock.Mock(), compute, suspects, hosts, clock)
        lost.crashed('h1', model.ANY_SERVER, ())
        compute.stopped_by_itself.assert_called_once_with('a', clock.wall() - 40.0)


class RunTest(base.RecoveryTest):
    """A recovery that an engine has just created."""

    clock_ahead = _HOUR

    def test_server_that_was_just_read_is_not_read_again(self) -> None:
        recovery = self.make_recovery('a', created=self.clock.wall())
        server = base.make_server('a')
        self.assertIs(server, runs.Run(self.context, recovery, server).server())
        self.compute.server.assert_not_called()
