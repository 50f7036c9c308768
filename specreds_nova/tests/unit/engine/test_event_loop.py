# SPDX-License-Identifier: Apache-2.0
"""The loop that acts on the events of the detector."""

from collections.abc import Sequence
import queue
from unittest import mock

import testtools

from specreds_nova.engine import event_loop
from specreds_nova.engine import events
from specreds_nova.engine.recovery import dispatch


class EventLoopTest(testtools.TestCase):
    """A loop with events that wait."""

    def setUp(self) -> None:
        super().setUp()
        self.store = mock.Mock()

    def _act_on(self, news: list[object], silent: set[str]) -> list[list[str]]:
        """Return the hosts on which the dispatcher acts, by turn."""
        acted: list[list[str]] = []
        waiting: queue.Queue[object] = queue.Queue()
        for event in news:
            waiting.put(event)
        monitor, dispatcher = mock.Mock(), mock.Mock()
        monitor.all_suspected.return_value = []
        monitor.facts.return_value = mock.Mock(silent=frozenset(silent))
        monitor.look.side_effect = lambda name: mock.Mock(suspected=True)
        loop = event_loop.EventLoop(waiting, monitor, dispatcher, self.store,
                                    mock.Mock(now=lambda: 0.0))

        def suspect_all(suspicions: Sequence[dispatch.Suspicion]) -> list[list[str]]:
            acted.append([suspicion.name for suspicion in suspicions])
            loop.stop()
            return [[] for _ in suspicions]
        dispatcher.suspect_all.side_effect = suspect_all
        loop.run(lambda: False, lambda: None)
        return acted

    def test_hosts_that_fail_together_are_acted_on_together(self) -> None:
        self.assertEqual([['h1', 'h2']], self._act_on(['h1', 'h2', 'h1'], {'h1', 'h2'}))

    def test_suspicions_do_not_wait_for_hosts_that_appear(self) -> None:
        recorded: list[list[str]] = []
        self.store.record.side_effect = lambda kernels: recorded.append(list(kernels))
        appeared = [f'n{number}' for number in range(700)]
        news = [*(events.HostAppeared(name, 'k1') for name in appeared), 'h1']
        self.assertEqual([['h1']], self._act_on(news, set()))
        self.assertEqual([appeared[:500], appeared[500:]], recorded)
