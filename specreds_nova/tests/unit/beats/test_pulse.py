# SPDX-License-Identifier: Apache-2.0
"""A pulse whose beats fail."""

import sys
import threading
import time

import testtools

from specreds_nova.beats import pulse

_TIMEOUT = 60.0


class _Failing(pulse.Pulse):
    """Fails a number of times.

    :ivar times: beats that have begun
    """

    def __init__(self, failures: int) -> None:
        super().__init__('played', 0.001)
        self.failures = failures
        self.times = 0
        self.begun, self.well = threading.Event(), threading.Event()
        self.ended = threading.Event()

    def beat(self) -> None:
        """Fail, at first."""
        self.times += 1
        self.begun.set()
        if self.times <= self.failures:
            raise ValueError('played')
        self.well.set()

    def end(self) -> None:
        """Note the end."""
        self.ended.set()


class PulseTest(testtools.TestCase):
    """A pulse in a thread of its own."""

    def start(self, failures: int) -> _Failing:
        """Start a pulse."""
        made = _Failing(failures)
        self.assertEqual([], made.problems())
        made.start()
        self.addCleanup(made.stop, _TIMEOUT)
        return made

    def test_failed_beat_is_followed_by_others(self) -> None:
        made = self.start(3)
        self.assertTrue(made.well.wait(_TIMEOUT))
        self.assertEqual([], made.problems())
        made.stop(_TIMEOUT)
        self.assertTrue(made.ended.is_set())
        self.assertEqual([], made.problems())

    def test_pulse_without_a_beat_that_succeeds_is_a_problem(self) -> None:
        made = self.start(10 ** 9)
        self.assertTrue(made.begun.wait(_TIMEOUT))
        made._progress._monotonic = lambda: time.monotonic() + 601.0
        self.assertIn('thread played has made no progress', str(made.problems()))

    def test_thread_that_has_ended_is_a_problem(self) -> None:
        made = _Failing(0)
        made.beat = lambda: sys.exit(0)  # type: ignore[method-assign]
        made.start()
        made._thread.join(_TIMEOUT)
        self.assertEqual(['thread played has ended'], made.problems())
