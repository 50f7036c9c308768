# SPDX-License-Identifier: Apache-2.0
"""The threads of an engine."""

from typing import Any
from unittest import mock

import testtools

from specreds_nova.beats import rejections
from specreds_nova.engine import metrics
from specreds_nova.engine import service

_WATCHED = ('_threads', '_fibers', '_conductor', '_listener', '_receiver', '_votes', '_echo',
            '_answers', '_crashes')


class ThreadsTest(testtools.TestCase):
    """An engine with only the parts that its threads need."""

    def setUp(self) -> None:
        super().setUp()
        self.engine: Any = service.Engine.__new__(service.Engine)
        self.engine._stopping = mock.Mock()
        self.engine._metrics = metrics.Metrics()
        self.engine._monitor = mock.Mock()
        self.engine._rejections = rejections.Rejections()
        self.engine._overload = mock.Mock(**{'look.return_value': 3.5})
        self.engine._threads = mock.Mock()
        self.engine._options = mock.Mock(protect_by_default=True)
        for part in _WATCHED:
            setattr(self.engine, part, mock.Mock(**{'problems.return_value': []}))

    def test_nova_is_evidence_about_hosts_that_are_watched(self) -> None:
        down = {'state': 'down', 'status': 'enabled', 'updated_at': None}
        self.engine._clients, self.engine._janitor = mock.Mock(), mock.Mock()
        self.engine._clients.compute.aggregates.return_value = ()
        self.engine._decommissioned = mock.Mock()
        self.engine._clients.compute.services.return_value = {
            'h1': down, 'h2': {**down, 'state': 'up'}, 'never-heard': down}
        self.engine._monitor.names.return_value = ['h1', 'h2', 'h3']
        self.engine._ask_nova()
        self.assertEqual(['h1'], [call.args[0] for call in
                                  self.engine._monitor.note.call_args_list])
        self.assertEqual(['h2'], [call.args[0] for call in
                                  self.engine._monitor.withdraw.call_args_list])

    def test_cell_without_a_database_hides_no_evidence_about_other_hosts(self) -> None:
        down = {'state': 'down', 'status': 'enabled', 'updated_at': None}
        self.engine._clients, self.engine._janitor = mock.Mock(), mock.Mock()
        self.engine._clients.compute.aggregates.return_value = ()
        self.engine._decommissioned = mock.Mock()
        self.engine._clients.compute.services.return_value = {
            'away': {'host': 'away', 'status': 'UNKNOWN'}, 'h1': down}
        self.engine._monitor.names.return_value = ['away', 'h1']
        self.engine._ask_nova()
        self.assertEqual(['h1'], [call.args[0] for call in
                                  self.engine._monitor.note.call_args_list])
        [placed] = self.engine._monitor.place.call_args.args
        self.assertEqual(['h1'], list(placed))
        [listed] = self.engine._monitor.listed.call_args.args
        self.assertEqual(['away', 'h1'], list(listed))

    def test_unexpected_answer_of_nova_ends_no_thread(self) -> None:
        self.engine._clients, self.engine._decommissioned = mock.Mock(), mock.Mock()
        self.engine._clients.compute.services.return_value = {'h1': {}}
        self.engine._decommissioned.look.side_effect = KeyError('state')
        self.engine._ask_nova()
        self.engine._monitor.note.assert_not_called()

    def test_received_beats_are_counted(self) -> None:
        self.engine._stopping.is_set.side_effect = [False, False, True]
        self.engine._monitor.counted.side_effect = [5, 7]
        self.engine._monitor.dropped.side_effect = [0, 4]
        self.engine._rejections.note(rejections.ECHO, 'e1', 'forged')
        self.engine._tick()
        for line in ('specreds_heartbeats_total 12.0', 'specreds_dropped_heartbeats_total 4.0',
                     'specreds_overload_seconds 3.5'):
            self.assertIn(line, self.engine._metrics.text())
        self.assertIn('specreds_rejected_messages_total{reason="echo"} 1.0',
                      self.engine._metrics.text())

    def test_each_part_with_threads_is_watched(self) -> None:
        self.engine._stopping.is_set.return_value = False
        self.engine._monitor.trouble.return_value = None
        self.assertEqual([], self.engine.problems())
        for part in _WATCHED:
            getattr(self.engine, part).problems.return_value = [f'{part} hangs']
        expected = [f'{part} hangs' for part in _WATCHED]
        self.assertEqual((expected, expected), (self.engine.faults(), self.engine.problems()))

    def test_thread_that_ends_with_the_engine_is_no_fault(self) -> None:
        self.engine._stopping.is_set.return_value = True
        self.engine._votes.problems.return_value = ['thread specreds-votes has ended']
        self.assertEqual([], self.engine.faults())


class CoverageTest(testtools.TestCase):
    """What all servers would get, as an engine counts it."""

    def setUp(self) -> None:
        super().setUp()
        self.engine: Any = service.Engine.__new__(service.Engine)
        self.engine._metrics = metrics.Metrics()
        self.engine._store = mock.Mock(**{'active_states.return_value': {}})
        self.engine._coverage = mock.Mock(**{'sums.return_value': {
            'speculative': 7, 'evacuated': 2, 'failed': 0, 'none': 1, 'without_room': 3}})
        self.engine._stopping = mock.Mock(**{'is_set.side_effect': [False, True]})

    def counted(self) -> str:
        """Return the metrics after a look."""
        self.engine._cover()
        return str(self.engine._metrics.text())

    def test_servers_are_counted_by_what_they_would_get(self) -> None:
        text = self.counted()
        self.assertIn('specreds_servers{recovery="speculative"} 7.0', text)
        self.assertIn('specreds_servers_without_room 3.0', text)

    def test_servers_are_not_read_while_some_are_recovered(self) -> None:
        self.engine._store.active_states.return_value = {'racing': 1}
        self.counted()
        self.engine._coverage.sums.assert_not_called()

    def test_fault_is_no_fault_of_the_engine(self) -> None:
        self.engine._coverage.sums.side_effect = KeyError('id')
        self.assertIn('specreds_servers{recovery="speculative"} 0.0', self.counted())
