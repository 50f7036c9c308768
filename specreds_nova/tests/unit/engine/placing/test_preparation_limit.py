# SPDX-License-Identifier: Apache-2.0
"""The limit on concurrent preparations."""

import threading
from unittest import mock

import testtools

from specreds_nova.engine.placing import preparation_limit

_EVER = 60.0


class TurnsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.taken: list[str] = []

    def _take(self, turns: preparation_limit.PreparationLimit, name: str) -> threading.Thread:
        def take() -> None:
            turns.take(name)
            self.taken.append(name)
        thread = threading.Thread(target=take, daemon=True)
        thread.start()
        return thread

    def test_returned_turn_goes_to_the_next_recovery(self) -> None:
        turns = preparation_limit.PreparationLimit(1, _EVER)
        turns.take('a')
        waiting = self._take(turns, 'b')
        waiting.join(0.05)
        self.assertEqual([], self.taken)
        turns.leave('a')
        waiting.join(_EVER)
        self.assertEqual(['b'], self.taken)

    def test_turn_is_returned_once(self) -> None:
        turns = preparation_limit.PreparationLimit(1, _EVER)
        turns.take('a')
        for _ in range(3):
            turns.leave('a')
            turns.leave('stranger')
        self._take(turns, 'b').join(_EVER)
        waiting = self._take(turns, 'c')
        waiting.join(0.05)
        self.assertEqual(['b'], self.taken)
        turns.leave('b')
        waiting.join(_EVER)
        self.assertEqual(['b', 'c'], self.taken)

    def test_things_have_queues_of_their_own(self) -> None:
        turns, done = preparation_limit.Turns(), threading.Event()

        def second() -> None:
            with turns.of('group', 'b'):
                self.taken.append('b')
        with turns.of('group', 'a'), turns.of('other', 'c'), turns.of(None, 'd'):
            waiting = threading.Thread(target=second, daemon=True)
            waiting.start()
            done.wait(0.05)
            self.assertEqual([], self.taken)
        waiting.join(_EVER)
        self.assertEqual(['b'], self.taken)
        self.assertEqual({}, turns._queues)

    def test_recoveries_wait_no_longer_as_soon_as_one_notices_that_no_place_is_freed(
            self) -> None:
        turns = preparation_limit.PreparationLimit(1, 0.01)
        turns.take('a')
        with mock.patch.object(turns, '_pause', side_effect=[_EVER, _EVER, 0.01]
                               ) as pause:
            waiting = []
            for count, name in enumerate('bcd', 1):
                waiting.append(self._take(turns, name))
                while pause.call_count < count:
                    waiting[-1].join(0.001)
            for thread in waiting:
                thread.join(_EVER)
        self.assertEqual({'b', 'c', 'd'}, set(self.taken))
        self.assertFalse(turns._waiting)

    def test_thousands_that_wait_look_less_often(self) -> None:
        turns = preparation_limit.PreparationLimit(1, 1.0)
        self.assertEqual(1.0, turns._pause())
        turns._waiting.update((str(number), mock.Mock()) for number in range(4000))
        self.assertEqual(40.0, turns._pause())

    def test_wait_for_a_turn_is_limited(self) -> None:
        turns = preparation_limit.PreparationLimit(1, 0.01)
        turns.take('a')
        turns.take('b')
        # This one has no turn to return.
        turns.leave('b')
        waiting = self._take(turns, 'c')
        waiting.join(_EVER)
        self.assertEqual(['c'], self.taken)
