# SPDX-License-Identifier: Apache-2.0
"""The states of hosts as recoveries query them."""

import dataclasses
import threading
from typing import Any
from unittest import mock

import ddt
import testtools

from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.suspicion import correlation
from specreds_nova.engine.suspicion import gates
from specreds_nova.engine.suspicion import suspects
from specreds_nova.engine.suspicion import watched

_WELL = watched.View(
    host='h1', heard=1000.0, silence=0.1, phi=0.1, patience=0.7, suspected=False, since=None,
    why=(), leaving=False, word=None, flaps=0, libvirt_age=0.1, storage_age=0.2)
_SILENT = ({'kind': 'silence'},)
_SAID = ({'kind': 'operator'},)
_OPEN = gates.Gates(())


def _suspects(monitor: Any) -> suspects.Suspects:
    """Return the hosts as an engine sees them that has no peers."""
    return suspects.Suspects(monitor, mock.Mock(), mock.Mock(
        hearing=lambda host: (), missing=lambda host: ()), _OPEN)


@ddt.ddt
class SuspectsTest(testtools.TestCase):
    """A host is well even if an operator suspects it."""

    @ddt.data(
        ({}, True), ({'suspected': True, 'why': _SAID}, True),
        ({'suspected': True, 'why': _SILENT}, False),
        ({'suspected': True, 'why': _SAID + _SILENT}, False),
        ({'suspected': True, 'why': _SAID, 'silence': 2.0}, False),
        ({'silence': 0.8}, False), ({'heard': None}, False), ({'leaving': True}, False),
        ({'storage_age': 4.0}, False), ({'libvirt_age': 4.0}, False),
        ({'libvirt_age': None, 'storage_age': None}, True))
    @ddt.unpack
    def test_well_host_is_heard_and_healthy(self, values: dict[str, Any], well: bool) -> None:
        monitor: Any = mock.Mock()
        monitor.look.return_value = dataclasses.replace(_WELL, **values)
        self.assertEqual(well, _suspects(monitor).is_well('h1'))

    @ddt.data((None, 20.0, True, True), (None, 5.0, True, False), (None, 20.0, False, False),
              (40.0, 0.0, True, True))
    @ddt.unpack
    def test_host_without_a_heartbeat_reports_to_nova_alone(
            self, unheard: float | None, reported: float, up: bool, unplugged: bool) -> None:
        monitor: Any = mock.Mock()
        monitor.facts.return_value = gates.Facts('h1', unheard=unheard, reported=reported)
        self.assertEqual(unplugged, _suspects(monitor).unplugged('h1', {'up': up}))

    @ddt.data(({}, (), True), ({}, ('e2',), False), ({'heard': None}, (), False))
    @ddt.unpack
    def test_host_is_well_to_all_if_every_engine_hears_it(
            self, values: dict[str, Any], missing: tuple[str, ...], well: bool) -> None:
        monitor: Any = mock.Mock()
        monitor.look.return_value = dataclasses.replace(_WELL, **values)
        peers = mock.Mock(hearing=lambda host: ('e3',), missing=lambda host: missing)
        seen = suspects.Suspects(monitor, mock.Mock(), peers, _OPEN)
        self.assertTrue(seen.is_well('h1'))
        self.assertEqual(well, seen.well_to_all('h1'))

    @ddt.data((999.8, True), (999.9, True), (999.95, False), (1001.0, False))
    @ddt.unpack
    def test_latest_beat_counts_if_it_was_sent_after_a_time(self, at: float, after: bool) -> None:
        monitor: Any = mock.Mock()
        monitor.look.return_value = dataclasses.replace(_WELL, sent_after=999.9)
        self.assertEqual(after, _suspects(monitor).heard_after('h1', at))

    def test_healthy_hosts_are_listed_ten_times_a_second(self) -> None:
        monitor, clock = mock.Mock(), mock.Mock()
        seen = suspects.Suspects(monitor, clock, mock.Mock(), _OPEN)
        monitor.healthy.side_effect = [['h1'], ['h1', 'h2']]
        answers = []
        for clock.now.return_value in (1000.0, 1000.05, 1000.15):
            answers.append(seen.healthy())
        self.assertEqual([{'h1'}, {'h1'}, {'h1', 'h2'}], answers)

    @ddt.data(
        ({}, (), (), True), ({'suspected': False}, (), (), False),
        ({'silence': 0.1}, (), (), False), ({'leaving': True}, (), (), False),
        ({}, ('e2',), (), False), ({}, (), ('h2', 'h3'), False))
    @ddt.unpack
    def test_host_is_lost_if_nothing_but_it_has_failed(
            self, values: dict[str, Any], hearing: tuple[str, ...], silent: tuple[str, ...],
            lost: bool) -> None:
        monitor: Any = mock.Mock()
        monitor.look.return_value = dataclasses.replace(
            _WELL, **{'suspected': True, 'why': _SILENT, 'silence': 9.0, **values})
        # An operator's word and a long silence open the gates; here they do not.
        monitor.facts.side_effect = lambda host: gates.Facts(
            host, known=9, silent=frozenset({host, *silent}), word=True, silence=9.0,
            groups=(correlation.Group('zone z1', 1 + len(silent), 4),))
        peers = mock.Mock(holding=lambda host: hearing)
        seen = suspects.Suspects(monitor, mock.Mock(), peers, gates.Gates(
            (gates.Hearing(), gates.Correlated(0.5))))
        self.assertEqual(lost, seen.lost('h1'))

    def test_unknown_host_is_not_lost(self) -> None:
        monitor: Any = mock.Mock()
        monitor.look.return_value = None
        self.assertFalse(_suspects(monitor).lost('h1'))

    def test_unknown_host_is_not_well(self) -> None:
        monitor: Any = mock.Mock()
        monitor.look.return_value = None
        self.assertFalse(_suspects(monitor).is_well('h1'))


class ReadyTest(testtools.TestCase):
    """The wait for a host's report that a backup is ready."""

    def setUp(self) -> None:
        super().setUp()
        self.monitor: Any = mock.Mock()
        self.stopping = threading.Event()
        self.suspects = suspects.Suspects(self.monitor, clocks.Clock(self.stopping), mock.Mock(),
                                           _OPEN)

    def test_report_ends_the_wait(self) -> None:
        self.monitor.ready.side_effect = [False, False, True]
        self.assertTrue(self.suspects.await_ready('h2', ['r1'], 60.0))
        self.monitor.ready.assert_called_with('h2', ['r1'])
        self.assertEqual(3, self.monitor.ready.call_count)

    def test_wait_ends_without_a_report(self) -> None:
        self.monitor.ready.return_value = False
        self.assertFalse(self.suspects.await_ready('h2', ['r1'], 0.01))

    def test_stopping_engine_ends_the_wait(self) -> None:
        self.monitor.ready.return_value = False
        self.stopping.set()
        self.assertFalse(self.suspects.await_ready('h2', ['r1'], 60.0))
