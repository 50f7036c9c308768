# SPDX-License-Identifier: Apache-2.0
"""Fibers: what waits does not keep others from running, and all share a thread."""

import queue
import sys
import threading
from typing import Any
from unittest import mock

import testtools

from specreds_nova.engine import exception
from specreds_nova.engine import fibers as all_fibers

_TIMEOUT = 20.0
_MANY = 500
_RANKS = all_fibers.LAST, all_fibers.SECOND, all_fibers.FIRST


class FibersTest(testtools.TestCase):
    """Functions sleep, call and wait at the same time, in one thread."""

    def setUp(self) -> None:
        super().setUp()
        self.fibers = all_fibers.Fibers(2)
        self.fibers.start()
        self.addCleanup(self.fibers.close)
        self.results: queue.Queue[Any] = queue.Queue()

    def _result(self) -> Any:
        return self.results.get(timeout=_TIMEOUT)

    def _spawn(self, function: Any, *arguments: Any) -> None:
        """Run a function as a fiber, and keep its result or its error."""
        def run() -> None:
            try:
                self.results.put(function(*arguments))
            except exception.Interrupted as exc:
                self.results.put(exc)
        self.fibers.spawn(run)

    def test_sleeping_fibers_share_a_thread(self) -> None:
        def sleep() -> threading.Thread:
            self.fibers.sleep(0.01)
            return threading.current_thread()
        for _ in range(_MANY):
            self._spawn(sleep)
        self.assertEqual(1, len({self._result() for _ in range(_MANY)}))

    def test_thread_that_answers_has_no_problem(self) -> None:
        self.assertEqual([], self.fibers.problems())
        # The fiber runs after what the look at the problems has posted.
        self._spawn(lambda: 'answered')
        self.assertEqual('answered', self._result())
        with mock.patch.object(self.fibers._progress, '_monotonic', return_value=float('inf')):
            self.assertEqual([], self.fibers.problems())

    def test_hanging_thread_is_a_problem(self) -> None:
        goes_on = threading.Event()
        self.addCleanup(goes_on.set)
        self._spawn(goes_on.wait, _TIMEOUT)
        self.assertEqual([], self.fibers.problems())
        at = self.fibers._progress._at
        assert at is not None
        self.fibers._progress._at = at - 11.0
        self.assertIn('thread recoveries has made no progress', str(self.fibers.problems()))
        goes_on.set()
        self.assertTrue(self._result())
        self._spawn(lambda: 'answered')
        self.assertEqual('answered', self._result())
        self.assertEqual([], self.fibers.problems())

    def test_thread_that_has_ended_is_a_problem(self) -> None:
        self.fibers._ready.put(lambda: sys.exit(0))
        self.fibers._thread.join(_TIMEOUT)
        self.assertEqual(['thread recoveries has ended'], self.fibers.problems())

    def test_call_blocks_no_other_fiber(self) -> None:
        answer = threading.Event()
        self._spawn(self.fibers.call, answer.wait, _TIMEOUT)
        self._spawn(lambda: 'other')
        self.assertEqual('other', self._result())
        answer.set()
        self.assertTrue(self._result())

    def _ranked(self, count: int, ranks: tuple[int, ...] = _RANKS) -> list[int]:
        """Return the ranks of calls in the order in which they are made, while one is waited for.

        :param count: calls of each rank
        :param ranks: in the order in which their calls are requested
        """
        fibers = all_fibers.Fibers(1)
        fibers.start()
        self.addCleanup(fibers.close)
        begun, goes_on = threading.Event(), threading.Event()

        def first() -> None:
            begun.set()
            goes_on.wait(_TIMEOUT)
        fibers.spawn(fibers.call, first)
        self.assertTrue(begun.wait(_TIMEOUT))

        def ranked(rank: int) -> None:
            fibers.rank(rank)
            # What it does at the same time has the same rank.
            fibers.together([lambda: fibers.call(self.results.put, rank)] * count)
        for rank in ranks:
            fibers.spawn(ranked, rank)
        requested = threading.Event()
        fibers.spawn(fibers.spawn, requested.set)
        self.assertTrue(requested.wait(_TIMEOUT))
        goes_on.set()
        return [self._result() for _ in range(count * len(ranks))]

    def test_calls_of_the_highest_rank_come_first(self) -> None:
        self.assertEqual([0, 0, 1, 1, 2, 2], self._ranked(2))

    def test_lower_ranks_take_turns(self) -> None:
        order = self._ranked(40)
        # The first call of all is one of every eight.
        for rank, places in ((all_fibers.SECOND, [6, 22, 38]), (all_fibers.LAST, [14, 30])):
            self.assertEqual(places, [
                place for place, other in enumerate(order[:40]) if other == rank])

    def test_turn_of_a_rank_without_calls_is_that_of_the_other_one(self) -> None:
        for rank in (all_fibers.SECOND, all_fibers.LAST):
            order = self._ranked(20, (rank, all_fibers.FIRST))
            self.assertEqual([6, 14], [
                place for place, other in enumerate(order[:20]) if other == rank])

    def test_calls_that_have_not_begun_are_cancelled(self) -> None:
        answer = threading.Event()
        self.addCleanup(answer.set)
        for _ in range(5):
            self._spawn(self.fibers.call, answer.wait, _TIMEOUT)
        self._spawn(lambda: 'all have asked')
        self.assertEqual('all have asked', self._result())
        self.fibers.close()
        for _ in range(3):
            self.assertIsInstance(self._result(), exception.Interrupted)

    def test_database_answers_while_all_services_hang(self) -> None:
        answer = threading.Event()
        for _ in range(self.fibers.callers + 1):
            self._spawn(self.fibers.call, answer.wait, _TIMEOUT)
        self._spawn(self.fibers.keep, lambda: 'recorded')
        self.assertEqual('recorded', self._result())
        answer.set()

    def test_call_of_a_thread_stays_in_the_thread(self) -> None:
        self.assertIs(threading.current_thread(), self.fibers.call(threading.current_thread))

    def test_error_of_a_call_reaches_its_fiber(self) -> None:
        def call() -> object:
            try:
                return self.fibers.call(int, 'x')
            except ValueError as exc:
                return exc
        self._spawn(call)
        self.assertIsInstance(self._result(), ValueError)

    def _gathered(self, make: Any, *calls: int) -> list[Any]:
        """Return the answers of calls, of which all but the first wait for the first."""
        gathered: all_fibers.Gathered[int, int] = all_fibers.Gathered(self.fibers, make)

        def call(number: int) -> Any:
            try:
                return number, gathered.call(number)
            except ValueError as exc:
                return number, str(exc)
        for number in calls:
            self._spawn(call, number)
        return sorted(self._result() for _ in calls)

    def test_calls_that_wait_are_made_together(self) -> None:
        made: list[list[int]] = []
        goes_on = threading.Event()

        def make(numbers: list[int]) -> list[int | Exception]:
            made.append(numbers)
            if len(made) == 1:
                # The fibers have asked for everything when they run this.
                self.fibers.spawn(goes_on.set)
                goes_on.wait(_TIMEOUT)
            return [ValueError('odd') if number % 2 else number for number in numbers]
        self.assertEqual([(1, 'odd'), (2, 2), (3, 'odd')], self._gathered(make, 1, 2, 3))
        self.assertEqual([1, 2, 3], sorted(number for numbers in made for number in numbers))
        self.assertLess(len(made), 3)

    def test_error_of_calls_that_are_made_together_reaches_each(self) -> None:
        def make(numbers: list[int]) -> list[int | Exception]:
            raise ValueError('away')
        self.assertEqual([(1, 'away'), (2, 'away')], self._gathered(make, 1, 2))

    def test_gathered_call_of_a_thread_is_made_at_once(self) -> None:
        gathered: all_fibers.Gathered[str, int] = all_fibers.Gathered(
            self.fibers, lambda words: [int(word) for word in words])
        self.assertEqual(7, gathered.call('7'))

    def test_functions_run_together(self) -> None:
        first = all_fibers.Event(self.fibers)

        def waits() -> str:
            return f'waited {first.wait(_TIMEOUT)}'

        def sets() -> str:
            first.set()
            return 'set'
        self._spawn(self.fibers.together, [waits, sets])
        self.assertEqual(['waited True', 'set'], self._result())

    def test_error_is_raised_after_all_have_ended(self) -> None:
        ended: list[str] = []

        def fails() -> None:
            raise exception.Interrupted

        def ends() -> None:
            self.fibers.sleep(0.01)
            ended.append('other')
        self._spawn(self.fibers.together, [fails, ends])
        self.assertIsInstance(self._result(), exception.Interrupted)
        self.assertEqual(['other'], ended)

    def test_event_that_is_not_set_in_time(self) -> None:
        event = all_fibers.Event(self.fibers)
        self._spawn(event.wait, 0.01)
        self.assertFalse(self._result())
        event.set()
        self._spawn(event.wait, _TIMEOUT)
        self.assertTrue(self._result())

    def test_stop_ends_sleeps(self) -> None:
        self._spawn(self.fibers.sleep, 1e6)
        self.fibers.stop()
        self.assertIsNone(self._result())
        self._spawn(self.fibers.sleep, 1e6)
        self.assertIsNone(self._result())

    def test_calls_are_interrupted_once_closed(self) -> None:
        def call() -> int:
            self.results.put('begun')
            self.fibers.sleep(1e6)
            return self.fibers.call(int)
        self._spawn(call)
        self.assertEqual('begun', self._result())
        self.fibers.close()
        self.assertIsInstance(self._result(), exception.Interrupted)
