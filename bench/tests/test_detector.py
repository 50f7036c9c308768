# SPDX-License-Identifier: Apache-2.0
"""The simulated part of the detector's benchmark, which is cheap enough to be a test."""

import numpy
import testtools

from bench import detector


class SimulatedTest(testtools.TestCase):
    """Hosts with jitter, pauses and lost beats."""

    def test_beats_are_heard_in_order_and_after_they_were_due(self) -> None:
        for profile in (detector.EVEN, detector.LOADED, detector.OVERLOADED):
            arrivals = profile.arrivals(numpy.random.default_rng(1), 20_000)
            self.assertTrue(bool((numpy.diff(arrivals) >= 0).all()), profile.name)
            due = numpy.arange(arrivals.size) * detector.INTERVAL
            self.assertTrue(bool((arrivals >= due).all()), profile.name)
            self.assertGreater(arrivals.size, 19_000)

    def test_dead_hosts_are_suspected_within_a_second(self) -> None:
        times = detector.time_to_suspicion(detector.EVEN, 50)
        self.assertTrue(all(0.0 < seconds <= 1.0 for seconds in times), str(max(times)))

    def test_live_hosts_are_hardly_ever_suspected(self) -> None:
        self.assertLess(detector.wrong_suspicions(detector.EVEN, 1).adaptive, 5)
