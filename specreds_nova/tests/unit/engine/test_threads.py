# SPDX-License-Identifier: Apache-2.0
"""Threads that fail."""

import threading

import fixtures
import testtools

from specreds_nova.engine import exception
from specreds_nova.engine import threads

_PATIENCE = 60.0


class ThreadsTest(testtools.TestCase):
    """A thread that fails a number of times."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MonkeyPatch('specreds_nova.engine.threads._AGAIN', 0.0))
        self.stopping, self.given_up = threading.Event(), threading.Event()
        self.threads = threads.Threads(self.stopping, self.given_up.set)
        self.well = threading.Event()
        self.addCleanup(self.stopping.set)
        self.times = 0
        self.failures = 0

    def _work(self) -> None:
        self.times += 1
        if self.times <= self.failures:
            raise ValueError('played')
        self.well.set()
        self.stopping.wait(_PATIENCE)

    def test_failed_thread_is_started_again(self) -> None:
        self.failures = 3
        self.threads.begin('played', self._work)
        self.assertTrue(self.well.wait(_PATIENCE))
        self.assertEqual((4, []), (self.times, self.threads.problems()))
        self.assertFalse(self.given_up.is_set())
        self.stopping.set()
        self.threads.join(_PATIENCE)

    def test_look_that_a_service_does_not_answer_is_repeated(self) -> None:
        def look() -> None:
            self.times += 1
            if self.times == 1:
                raise exception.Unreachable('played')
            self.well.set()
        self.threads.every(0.0, 'played', look)
        self.assertTrue(self.well.wait(_PATIENCE))
        self.assertEqual([], self.threads.problems())

    def test_hanging_thread_is_a_problem(self) -> None:
        self.threads.begin('played', self._work, patience=0.0)
        self.assertTrue(self.well.wait(_PATIENCE))
        self.assertIn('thread played has made no progress', str(self.threads.problems()))

    def test_progress_ends_the_problem(self) -> None:
        self.threads.begin('played', self._work, patience=_PATIENCE)
        at = self.threads._progress['played']._at
        assert at is not None
        self.threads._progress['played']._at = at - 2 * _PATIENCE
        self.assertIn('no progress for 120 s', str(self.threads.problems()))
        self.threads.progress('played')
        self.assertEqual([], self.threads.problems())

    def test_process_ends_after_too_many_failures(self) -> None:
        self.failures = 100
        self.threads.begin('played', self._work)
        self.assertTrue(self.given_up.wait(_PATIENCE))
        self.threads.join(_PATIENCE)
        self.assertEqual(5, self.times)
        self.assertEqual(['thread played has ended', 'thread played has failed: played'],
                         self.threads.problems())
        self.stopping.set()
        self.assertEqual([], self.threads.problems())
