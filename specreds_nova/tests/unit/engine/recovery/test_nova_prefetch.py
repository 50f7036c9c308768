# SPDX-License-Identifier: Apache-2.0
"""Nova's answers about a doubted host are prefetched, and never older than its silence."""

import threading

from specreds_nova.engine import exception
from specreds_nova.engine.recovery import nova_prefetch
from specreds_nova.tests.unit.engine.recovery import base

_PATIENCE = 60.0


class AheadTest(base.RecoveryTest):
    """One call to Nova serves all callers."""

    def setUp(self) -> None:
        super().setUp()
        self.ahead = nova_prefetch.NovaPrefetch(self.compute, self.clock)
        self.addCleanup(self.ahead.close)
        self.compute.service.side_effect = lambda host: {'enabled': True, 'of': host}
        self.compute.servers.side_effect = lambda host: [base.make_server('a', host=host)]

    def _calls(self) -> int:
        self.assertEqual(self.compute.servers.call_count, self.compute.service.call_count)
        return int(self.compute.servers.call_count)

    def _call_both(self, host: str, since: float) -> None:
        self.ahead.begin(host, since)
        self.assertEqual({'enabled': True, 'of': host}, self.ahead.service(host, since))
        self.assertEqual([host], [server.host for server in self.ahead.servers(host, since)])

    def test_prefetched_answer_is_used(self) -> None:
        since = self.clock.now()
        self.clock.sleep(0.4)
        self.ahead.doubt('h1')
        self.clock.sleep(0.4)
        self._call_both('h1', since)
        self.assertEqual(1, self._calls())

    def test_answer_before_the_last_beat_is_not_used(self) -> None:
        self.ahead.doubt('h1')
        self.clock.sleep(0.4)
        self._call_both('h1', self.clock.now())
        self.assertEqual(2, self._calls())

    def test_old_answer_is_not_used(self) -> None:
        since = self.clock.now()
        self.ahead.doubt('h1')
        self.clock.sleep(2.1)
        self._call_both('h1', since)
        self.assertEqual(2, self._calls())

    def test_answer_is_fetched_without_a_doubt(self) -> None:
        self._call_both('h1', self.clock.now())
        self._call_both('h2', self.clock.now())
        self.assertEqual(2, self._calls())

    def test_failed_call_is_repeated(self) -> None:
        self.compute.servers.side_effect = exception.Unreachable('away')
        self.ahead.doubt('h1')
        since = self.clock.now()
        self.assertRaises(exception.Unreachable, self.ahead.servers, 'h1', since)
        self.compute.servers.side_effect = lambda host: [base.make_server('a', host=host)]
        self._call_both('h1', since)

    def test_prefetches_are_limited(self) -> None:
        answer = threading.Event()
        self.addCleanup(answer.set)
        hosts: list[str] = []

        def servers(host: str) -> list[object]:
            hosts.append(host)
            self.assertTrue(answer.wait(_PATIENCE))
            return []

        self.compute.servers.side_effect = servers
        for number in range(100):
            self.ahead.doubt(f'h{number}')
        answer.set()
        for number in range(4):
            self.assertEqual([], self.ahead.servers(f'h{number}', 0.0))
        self.assertEqual([f'h{number}' for number in range(4)], sorted(hosts))
