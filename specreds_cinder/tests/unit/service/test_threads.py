# SPDX-License-Identifier: Apache-2.0
"""Bounded numbers of threads: their limits, and their order."""

import threading

import fixtures
import testtools

from specreds_cinder.service import threads
from specreds_cinder.tests.unit.service import base


class Gauge:
    """Counts calls at work, each of which waits until enough of them are."""

    def __init__(self, meeting: int) -> None:
        self._meeting = meeting
        self._changed = threading.Condition()
        self.at_work: list[int] = []
        self.most = 0
        self.items: list[int] = []

    def work(self, item: int) -> None:
        """Wait for the others, unless so many calls have met once."""
        with self._changed:
            self.items.append(item)
            self.at_work.append(item)
            self.most = max(self.most, len(self.at_work))
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: self.most >= self._meeting, base.SECONDS)
            self.at_work.remove(item)


class ThreadsTest(testtools.TestCase):

    def test_functions_are_called_a_few_at_a_time(self) -> None:
        gauge, bounded = Gauge(3), threads.Threads(3)
        ended = threading.Semaphore(0)

        def call(item: int) -> None:
            gauge.work(item)
            ended.release()
        for item in range(10):
            bounded.run(lambda item=item: call(item))  # type: ignore[misc]
        for _ in range(10):
            self.assertTrue(ended.acquire(timeout=base.SECONDS))
        self.assertEqual((3, list(range(10))), (gauge.most, sorted(gauge.items)))

    def test_functions_are_called_in_order(self) -> None:
        ended, order = threading.Event(), list[int]()
        single = threads.Threads(1)
        go = threading.Event()
        single.run(lambda: self.assertTrue(go.wait(base.SECONDS)))
        for item in range(5):
            single.run(lambda item=item: order.append(item))  # type: ignore[misc]
        single.run(ended.set)
        go.set()
        self.assertTrue(ended.wait(base.SECONDS))
        self.assertEqual(list(range(5)), order)

    def test_function_that_fails_ends_no_thread(self) -> None:
        self.useFixture(fixtures.FakeLogger())
        single, ended = threads.Threads(1), threading.Event()
        single.run(lambda: self.fail('a bug'))
        single.run(ended.set)
        self.assertTrue(ended.wait(base.SECONDS))


class EachTest(testtools.TestCase):

    def test_several_items_are_worked_on_at_a_time(self) -> None:
        gauge = Gauge(4)
        threads.each(range(20), gauge.work, 4, lambda: False)
        self.assertEqual((4, list(range(20)), []),
                         (gauge.most, sorted(gauge.items), gauge.at_work))

    def test_one_item_at_a_time_is_worked_on_while_others_are_busy(self) -> None:
        gauge = Gauge(1)
        threads.each(range(20), gauge.work, 4, lambda: True)
        self.assertEqual((1, list(range(20))), (gauge.most, gauge.items))

    def test_all_threads_go_on_when_others_are_busy_no_more(self) -> None:
        gauge = Gauge(1)
        meeting = Gauge(4)

        def work(item: int) -> None:
            if item < 5:
                gauge.work(item)
            else:
                meeting.work(item)
        threads.each(range(20), work, 4, lambda: len(gauge.items) < 5)
        self.assertEqual((1, list(range(5))), (gauge.most, gauge.items))
        self.assertEqual((4, list(range(5, 20))), (meeting.most, sorted(meeting.items)))

    def test_failure_of_one_item_leaves_the_others_alone(self) -> None:
        self.useFixture(fixtures.FakeLogger())
        done = []

        def work(item: int) -> None:
            if item == 1:
                raise ValueError
            done.append(item)
        threads.each(range(4), work, 2, lambda: False)
        self.assertEqual([0, 2, 3], sorted(done))

    def test_nothing_is_done_without_items(self) -> None:
        threads.each([], self.fail, 0, lambda: True)
