# SPDX-License-Identifier: Apache-2.0
"""The threads of an engine."""

from collections.abc import Iterable
import queue
from typing import Any
from unittest import mock

import testtools

from specreds_nova.engine import events
from specreds_nova.engine import metrics
from specreds_nova.engine import service


class ThreadsTest(testtools.TestCase):
    """An engine with only the parts that its threads need."""

    def setUp(self) -> None:
        super().setUp()
        self.engine: Any = service.Engine.__new__(service.Engine)
        self.engine._stopping = mock.Mock()
        self.engine._metrics = metrics.Metrics()
        self.engine._monitor = mock.Mock()
        self.engine._threads = mock.Mock()

    def _act_on(self, news: list[object], silent: set[str]) -> list[list[str]]:
        """Return the hosts on which the dispatcher acts, by turn."""
        acted: list[list[str]] = []
        self.engine._watcher = mock.Mock()
        self.engine._watcher.news = queue.Queue()
        for event in news:
            self.engine._watcher.news.put(event)
        self.engine._clock = mock.Mock(now=lambda: 0.0)
        self.engine._stopping.is_set.return_value = False
        self.engine._dispatcher = mock.Mock()
        self.engine._monitor.all_suspected.return_value = []
        self.engine._monitor.facts.return_value = mock.Mock(silent=frozenset(silent))

        def act(names: Iterable[str], held: object) -> None:
            del held
            acted.append(list(names))
            self.engine._watcher.news.put(service._STOP)
        self.engine._act = act
        self.engine._dispatch()
        return acted

    def test_hosts_that_fail_together_are_acted_on_together(self) -> None:
        self.assertEqual([['h1', 'h2']], self._act_on(['h1', 'h2', 'h1'], {'h1', 'h2'}))

    def test_suspicions_do_not_wait_for_hosts_that_appear(self) -> None:
        recorded: list[list[str]] = []
        self.engine._store = mock.Mock()
        self.engine._store.record.side_effect = lambda kernels: recorded.append(list(kernels))
        appeared = [f'n{number}' for number in range(700)]
        news = [*(events.HostAppeared(name, 'k1') for name in appeared), 'h1']
        self.assertEqual([['h1']], self._act_on(news, set()))
        self.assertEqual([appeared[:500], appeared[500:]], recorded)

    def test_nova_is_evidence_about_hosts_that_are_watched(self) -> None:
        down = {'state': 'down', 'status': 'enabled', 'updated_at': None}
        self.engine._clients, self.engine._janitor = mock.Mock(), mock.Mock()
        self.engine._decommissioned = mock.Mock()
        self.engine._clients.compute.services.return_value = {
            'h1': down, 'h2': {**down, 'state': 'up'}, 'never-heard': down}
        self.engine._monitor.names.return_value = ['h1', 'h2', 'h3']
        self.engine._ask_nova()
        self.assertEqual(['h1'], [call.args[0] for call in
                                  self.engine._monitor.note.call_args_list])
        self.assertEqual(['h2'], [call.args[0] for call in
                                  self.engine._monitor.withdraw.call_args_list])

    def test_received_beats_are_counted(self) -> None:
        self.engine._stopping.is_set.side_effect = [False, False, True]
        self.engine._monitor.counted.side_effect = [5, 7]
        self.engine._tick()
        self.assertIn('specreds_heartbeats_total 12.0', self.engine._metrics.text())
