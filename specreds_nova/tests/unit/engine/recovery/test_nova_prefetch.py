# SPDX-License-Identifier: Apache-2.0
"""What Nova says of a host is asked for early, but is never older than the host's silence."""

import threading
from unittest import mock

from specreds_nova.engine import exception
from specreds_nova.engine.recovery import nova_prefetch
from specreds_nova.tests.unit.engine.recovery import base

_PATIENCE = 60.0


class AheadTest(base.RecoveryTest):
    """One question for all that ask for the same."""

    def setUp(self) -> None:
        super().setUp()
        self.ahead = nova_prefetch.NovaPrefetch(self.compute, self.clock)
        self.addCleanup(self.ahead.close)
        self.compute.service.side_effect = lambda host: {'enabled': True, 'of': host}
        self.compute.servers.side_effect = lambda host: [base.make_server('a', host=host)]

    def _asked(self) -> int:
        self.assertEqual(self.compute.servers.call_count, self.compute.service.call_count)
        return int(self.compute.servers.call_count)

    def _both(self, host: str, since: float) -> None:
        self.ahead.begin(host, since)
        self.assertEqual({'enabled': True, 'of': host}, self.ahead.service(host, since))
        self.assertEqual([host], [one.host for one in self.ahead.servers(host, since)])

    def test_what_was_asked_in_doubt_is_good(self) -> None:
        since = self.clock.now()
        self.clock.sleep(0.4)
        self.ahead.doubt('h1')
        self.clock.sleep(0.4)
        self._both('h1', since)
        self.assertEqual(1, self._asked())

    def test_a_host_that_has_spoken_since(self) -> None:
        self.ahead.doubt('h1')
        self.clock.sleep(0.4)
        self._both('h1', self.clock.now())
        self.assertEqual(2, self._asked())

    def test_what_is_too_old(self) -> None:
        since = self.clock.now()
        self.ahead.doubt('h1')
        self.clock.sleep(2.1)
        self._both('h1', since)
        self.assertEqual(2, self._asked())

    def test_nobody_was_in_doubt(self) -> None:
        self._both('h1', self.clock.now())
        self._both('h2', self.clock.now())
        self.assertEqual(2, self._asked())

    def test_an_answer_that_failed_is_asked_for_again(self) -> None:
        self.compute.servers.side_effect = exception.Unreachable('away')
        self.ahead.doubt('h1')
        since = self.clock.now()
        self.assertRaises(exception.Unreachable, self.ahead.servers, 'h1', since)
        self.compute.servers.side_effect = lambda host: [base.make_server('a', host=host)]
        self._both('h1', since)

    def test_many_hosts_in_doubt(self) -> None:
        answer = threading.Event()
        self.addCleanup(answer.set)
        asked: list[str] = []

        def servers(host: str) -> list[object]:
            asked.append(host)
            self.assertTrue(answer.wait(_PATIENCE))
            return []

        self.compute.servers.side_effect = servers
        for number in range(100):
            self.ahead.doubt(f'h{number}')
        answer.set()
        for number in range(4):
            self.assertEqual([], self.ahead.servers(f'h{number}', 0.0))
        self.assertEqual([f'h{number}' for number in range(4)], sorted(asked))

    def test_now(self) -> None:
        now = nova_prefetch.DirectQueries(
            mock.Mock(service=self.compute.service, servers=self.compute.servers))
        now.begin('h1', 0.0)
        self.assertEqual(0, self._asked())
        self.assertEqual('h1', now.service('h1', 0.0)['of'])
        self.assertEqual(['h1'], [one.host for one in now.servers('h1', 0.0)])
