# SPDX-License-Identifier: Apache-2.0
"""Hosts about which nothing is done, and that this is not kept a secret."""

from collections.abc import Iterable

import testtools

from specreds_nova.engine import exception
from specreds_nova.engine import holding
from specreds_nova.tests.unit.engine import clock as clocks


class HoldingTest(testtools.TestCase):
    """One host, about which nothing is done for a while."""

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

    def test_what_is_over_at_once_is_not_written_down(self) -> None:
        self.keep(0.75, 'another engine was faster')
        self.assertEqual(['h1'], self.holding.names())
        self.holding.release('h1')
        self.assertEqual(([], []), (self.holding.names(), self.written))

    def test_what_lasts_is_written_down_seldom(self) -> None:
        for number in range(30):
            self.keep(1.0, f'{number} of 50 hosts are silent')
        self.assertEqual([['h1', f'{number} of 50 hosts are silent'] for number in (1, 11, 21)],
                         self.written)

    def test_database_that_is_away(self) -> None:
        self.away = True
        self.keep(3.0, 'no')
        self.assertEqual(['h1'], self.holding.names())
        self.away = False
        self.keep(0.5, 'no')
        self.assertEqual([['h1', 'no']], self.written)
