# SPDX-License-Identifier: Apache-2.0
"""The loop that acts on the events of the detector."""

from collections.abc import Sequence
import queue
from unittest import mock

import testtools

from specreds_nova.engine import event_loop
from specreds_nova.engine import model
from specreds_nova.engine.recovery import dispatch
from specreds_nova.engine.suspicion import watcher


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

    def test_suspected_host_is_acted_on_although_no_news_came(self) -> None:
        now, acted = [0.0], []
        monitor, dispatcher = mock.Mock(), mock.Mock()
        monitor.all_suspected.side_effect = [[], ['h1', 'h2']]
        monitor.facts.return_value = mock.Mock(silent=frozenset())
        monitor.look.side_effect = lambda name: mock.Mock(suspected=True)
        self.store.notable_hosts.return_value = [model.Host('h2', state=model.SUSPECTED)]
        waiting = queue.Queue[object]()
        loop = event_loop.EventLoop(waiting, monitor, dispatcher, self.store,
                                    mock.Mock(now=lambda: now[0]))

        def suspect_all(suspicions: Sequence[dispatch.Suspicion]) -> list[list[str]]:
            acted.append([suspicion.name for suspicion in suspicions])
            loop.stop()
            return [[] for _ in suspicions]

        def progress() -> None:
            now[0] += 3.0
            waiting.put(watcher.HostAppeared('n1', 'k1'))
        dispatcher.suspect_all.side_effect = suspect_all
        loop.run(lambda: False, progress)
        self.assertEqual([['h1']], acted)

    def test_services_are_not_asked_about_thousands_of_silent_hosts(self) -> None:
        names, turns = [f'h{number}' for number in range(1000)], iter([False, False, True])
        monitor, dispatcher = mock.Mock(), mock.Mock()
        monitor.all_suspected.return_value = names
        monitor.facts.side_effect = lambda name: mock.Mock(silent=frozenset(names))
        monitor.look.side_effect = lambda name: mock.Mock(suspected=True)
        dispatcher.shut.return_value = ['1000 of 1000 hosts are silent']
        self.store.notable_hosts.return_value = []
        event_loop.EventLoop(queue.Queue(), monitor, dispatcher, self.store,
                             mock.Mock(now=lambda: 0.0)).run(lambda: next(turns), lambda: None)
        dispatcher.suspect_all.assert_not_called()
        self.assertGreaterEqual(dispatcher.shut.call_count, 1000)

    def test_suspicions_do_not_wait_for_hosts_that_appear(self) -> None:
        recorded: list[list[str]] = []
        self.store.record.side_effect = lambda kernels: recorded.append(list(kernels))
        appeared = [f'n{number}' for number in range(700)]
        news = [*(watcher.HostAppeared(name, 'k1') for name in appeared), 'h1']
        self.assertEqual([['h1']], self._act_on(news, set()))
        self.assertEqual([appeared[:500], appeared[500:]], recorded)
