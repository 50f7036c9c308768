# SPDX-License-Identifier: Apache-2.0
import threading
from unittest import mock

import testtools

from specreds_nova.engine import fibers

_TIMEOUT = 30.0


class CallersTest(testtools.TestCase):
    """The machine may not allow as many threads as an engine would start."""

    def setUp(self) -> None:
        super().setUp()
        self.callers = fibers.Callers(2, 'call')
        self.addCleanup(self.callers.close)
        self.made: list[int] = []

    def submit(self, number: int) -> threading.Event:
        """Have a number noted, and return the event that ends the call."""
        ended = threading.Event()
        self.callers.submit(
            fibers.Call(lambda: self.made.append(number), ended.set), fibers.FIRST)
        return ended

    def no_thread(self) -> 'mock._patch[mock.Mock]':
        """Let no thread be started."""
        return mock.patch.object(threading.Thread, 'start', side_effect=RuntimeError)

    def test_call_for_which_no_thread_can_be_started_is_not_made_later(self) -> None:
        with self.no_thread():
            self.assertRaises(RuntimeError, self.submit, 1)
        self.assertTrue(self.submit(2).wait(_TIMEOUT))
        self.assertEqual([2], self.made)

    def test_thread_that_has_been_started_makes_the_call_instead(self) -> None:
        goes_on = threading.Event()
        busy = threading.Event()

        def wait() -> None:
            busy.set()
            goes_on.wait(_TIMEOUT)
        self.callers.submit(fibers.Call(wait, lambda: None), fibers.FIRST)
        self.assertTrue(busy.wait(_TIMEOUT))
        with self.no_thread():
            ended = self.submit(1)
        goes_on.set()
        self.assertTrue(ended.wait(_TIMEOUT))
        self.assertEqual([1], self.made)
