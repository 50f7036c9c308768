# SPDX-License-Identifier: Apache-2.0
"""The limit on concurrent preparations."""

import threading

import testtools

from specreds_nova.engine.recovery import preparation_limit

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

    def test_wait_for_a_turn_is_limited(self) -> None:
        turns = preparation_limit.PreparationLimit(1, 0.01)
        turns.take('a')
        turns.take('b')
        # This one has no turn to return.
        turns.leave('b')
        waiting = self._take(turns, 'c')
        waiting.join(_EVER)
        self.assertEqual(['c'], self.taken)
