# SPDX-License-Identifier: Apache-2.0
"""Hosts that are held back, and the record of the reasons."""

from collections.abc import Iterable

import fixtures
import testtools

from specreds_nova.engine import exception
from specreds_nova.engine.suspicion import holding
from specreds_nova.tests.unit.engine import clock as clocks


class HoldingTest(testtools.TestCase):
    """One host that is held back for a while."""

    def setUp(self) -> None:
        super().setUp()
        self.clock = clocks.Clock()
        self.written: list[list[str]] = []
        self.away = False
        self.holding = holding.Holding(self.clock, self._write)

    def _write(self, name: str, reasons: Iterable[str]) -> None:
        if self.away:
            raise exception.Unreachable('no')
        self.written.append([name, *reasons])

    def keep(self, seconds: float, *reasons: str) -> None:
        """Hold a host back for a while."""
        until = self.clock.now() + seconds
        while self.clock.now() < until:
            self.holding.keep('h1', list(reasons))
            self.clock.sleep(0.25)

    def test_short_hold_is_not_recorded(self) -> None:
        self.keep(0.75, 'another engine was faster')
        self.assertEqual(['h1'], self.holding.names())
        self.holding.release('h1')
        self.assertEqual(([], []), (self.holding.names(), self.written))

    def test_lasting_hold_is_recorded_now_and_then(self) -> None:
        for number in range(30):
            self.keep(1.0, f'{number} of 50 hosts are silent')
        self.assertEqual([['h1', f'{number} of 50 hosts are silent'] for number in (1, 11, 21)],
                         self.written)

    def test_many_hosts_are_held_back_at_little_cost(self) -> None:
        names = [f'h{number}' for number in range(1000)]
        log = self.useFixture(fixtures.FakeLogger())
        for _ in range(4):
            self.holding.keep_all({name: ['too many'] for name in names})
            self.clock.sleep(0.5)
        self.assertEqual(names, self.holding.names())
        self.assertLess(len(self.written), 100)
        self.assertEqual(len({*map(tuple, self.written)}), len(self.written))
        self.assertLess(len(log.output.splitlines()), 30)
        self.assertIn('980 other hosts', log.output)

    def test_hold_is_recorded_after_an_outage_of_the_database(self) -> None:
        self.away = True
        self.keep(3.0, 'no')
        self.assertEqual(['h1'], self.holding.names())
        self.away = False
        self.keep(0.5, 'no')
        self.assertEqual([['h1', 'no']], self.written)
