# SPDX-License-Identifier: Apache-2.0
"""The progress of a thread."""

import threading

import testtools

from specreds_nova import progress

_TIMEOUT = 60.0


class ProgressTest(testtools.TestCase):
    """A thread that runs until it is to end."""

    def setUp(self) -> None:
        super().setUp()
        self.now = 1000.0
        self.over = threading.Event()
        self.addCleanup(self.over.set)
        self.thread = threading.Thread(target=self.over.wait, args=(_TIMEOUT,), name='played')
        self.progress = progress.Progress(self.thread, 10.0, lambda: self.now)

    def test_thread_that_has_not_begun_has_no_problem(self) -> None:
        self.progress.note()
        self.now += 11.0
        self.assertEqual([], self.progress.problems())

    def test_thread_without_progress_hangs(self) -> None:
        self.thread.start()
        self.progress.note()
        self.now += 10.0
        self.assertEqual([], self.progress.problems())
        self.now += 1.0
        self.assertEqual(['thread played has made no progress for 11 s'],
                         self.progress.problems())
        self.progress.note()
        self.assertEqual([], self.progress.problems())

    def test_thread_that_rests_does_not_hang(self) -> None:
        self.thread.start()
        self.progress.note()
        self.progress.rest()
        self.now += 1000.0
        self.assertEqual([], self.progress.problems())

    def test_thread_that_has_ended_is_a_problem(self) -> None:
        self.thread.start()
        self.over.set()
        self.thread.join(_TIMEOUT)
        self.assertEqual(['thread played has ended'], self.progress.problems())
