# SPDX-License-Identifier: Apache-2.0
"""The other engines that have fallen silent."""

import testtools

from specreds_nova.engine.detection import colleagues
from specreds_nova.tests.unit.engine import clock as clocks

_INTERVAL = 0.1


class ColleaguesTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.clock = clocks.Clock()
        self.trouble: str | None = None
        self.colleagues = colleagues.Colleagues(self.clock, _INTERVAL, lambda: self.trouble)

    def _hear(self, seconds: float, every: float = _INTERVAL) -> None:
        for _ in range(round(seconds / every)):
            self.clock.time += every
            self.colleagues.heard('e2')

    def test_engine_that_echoes_is_not_silent(self) -> None:
        self._hear(5.0)
        self.assertEqual(frozenset(), self.colleagues.silent())

    def test_engine_without_an_echo_for_the_patience_is_silent(self) -> None:
        self._hear(5.0)
        self.clock.time += colleagues.PATIENCE - 0.01
        self.assertEqual(frozenset(), self.colleagues.silent())
        self.clock.time += 0.02
        self.assertEqual({'e2'}, self.colleagues.silent())
        self.colleagues.heard('e2')
        self.assertEqual(frozenset(), self.colleagues.silent())

    def test_engine_with_long_pauses_has_longer(self) -> None:
        for _ in range(5):
            self._hear(1.0)
            self.clock.time += 1.5
            self.colleagues.heard('e2')
        self.clock.time += 1.0
        self.assertEqual(frozenset(), self.colleagues.silent())

    def test_engine_that_hears_nothing_itself_takes_none_for_dead(self) -> None:
        self._hear(5.0)
        self.clock.time += 10.0
        self.trouble = 'its own echo is late'
        self.assertEqual(frozenset(), self.colleagues.silent())

    def test_no_engine_is_silent_without_echoes(self) -> None:
        deaf = colleagues.Colleagues(self.clock, 0.0, lambda: None)
        deaf.heard('e2')
        self.clock.time += 10.0
        self.assertEqual(frozenset(), deaf.silent())
