# SPDX-License-Identifier: Apache-2.0
"""The detector of one host: properties that hold for any history of heartbeats."""

import dataclasses
import math

import hypothesis
from hypothesis import strategies as st
import testtools

from specreds_nova.engine.suspicion import accrual

_INTERVAL = 0.2
_SETTINGS = accrual.Settings()

_gaps = st.lists(st.floats(0.0, 20.0), max_size=60)
_seconds = st.floats(0.0, 1e6)


def _after(gaps: list[float], settings: accrual.Settings = _SETTINGS) -> accrual.Accrual:
    """Return the detector of a host that has sent heartbeats with some gaps, the first at 0."""
    detector, now = accrual.Accrual(settings, 0.0, _INTERVAL), 0.0
    for gap in gaps:
        now += gap
        detector.heard(now, _INTERVAL)
    return detector


class PropertiesTest(testtools.TestCase):
    """Properties for any history of heartbeats."""

    @hypothesis.given(_gaps, _seconds, _seconds)
    def test_phi_grows_with_silence(self, gaps: list[float], first: float, other: float) -> None:
        detector = _after(gaps)
        earlier, later = sorted((first, other))
        self.assertLessEqual(detector.phi(detector.last + earlier),
                             detector.phi(detector.last + later))

    @hypothesis.given(_gaps)
    def test_phi_is_zero_at_a_beat(self, gaps: list[float]) -> None:
        detector = _after(gaps)
        self.assertEqual(0.0, detector.phi(detector.last))

    @hypothesis.given(_gaps)
    def test_lasting_silence_is_suspected(self, gaps: list[float]) -> None:
        detector = _after(gaps)
        self.assertLessEqual(detector.deadline, detector.last + _SETTINGS.longest)
        self.assertGreaterEqual(detector.phi(detector.last + _SETTINGS.longest + 1e-6),
                                _SETTINGS.threshold)

    @hypothesis.given(_gaps, st.floats(0.001, 6.0))
    def test_phi_reaches_the_threshold_at_the_deadline(self, gaps: list[float],
                                                       silence: float) -> None:
        detector = _after(gaps)
        now = detector.last + silence
        hypothesis.assume(abs(now - detector.deadline) > 1e-6)
        self.assertEqual(now >= detector.deadline, detector.phi(now) >= _SETTINGS.threshold)

    @hypothesis.given(st.lists(st.floats(0.0, 2 * _INTERVAL), max_size=400))
    def test_host_is_trusted_while_every_second_beat_arrives(self, gaps: list[float]) -> None:
        detector, now = accrual.Accrual(_SETTINGS, 0.0, _INTERVAL), 0.0
        for gap in gaps:
            now += gap
            self.assertLess(now, detector.deadline)
            detector.heard(now, _INTERVAL)

    @hypothesis.given(st.floats(0.01, 10.0), st.floats(0.01, 10.0))
    def test_deadline_scales_with_the_interval(self, first: float, other: float) -> None:
        patient = dataclasses.replace(_SETTINGS, longest=1000.0)
        tolerances = [accrual.Accrual(patient, 0.0, interval).deadline / interval
                      for interval in (first, other)]
        self.assertAlmostEqual(tolerances[0], tolerances[1])


class HistoryTest(testtools.TestCase):
    """The effects of a host's history."""

    def patience(self, gaps: list[float]) -> float:
        detector = _after(gaps)
        return detector.deadline - detector.last

    def test_deadline_of_even_beats(self) -> None:
        patience = self.patience([_INTERVAL] * 200)
        self.assertTrue(2 * _INTERVAL < patience < 0.8, patience)

    def test_uneven_beats_extend_the_deadline(self) -> None:
        self.assertLess(self.patience([_INTERVAL] * 200), self.patience([0.02, 0.5] * 100))

    def test_single_pause_changes_little(self) -> None:
        calm = self.patience([_INTERVAL] * 200)
        self.assertLess(self.patience([_INTERVAL] * 200 + [0.7] + [_INTERVAL] * 5), 1.25 * calm)

    def test_even_beats_shorten_the_deadline_again(self) -> None:
        calm = self.patience([_INTERVAL] * 200)
        self.assertAlmostEqual(calm, self.patience([0.02, 0.5] * 100 + [_INTERVAL] * 2000),
                               places=2)

    def test_wrong_suspicion_extends_the_deadline(self) -> None:
        late = 1.5
        detector = _after([_INTERVAL] * 200 + [late])
        self.assertGreater(detector.deadline, detector.last + late)
        # Another host was silent for longer than any suspicion takes.
        away = _after([_INTERVAL] * 200 + [3600.0])
        self.assertLess(away.deadline, away.last + late)

    def test_wrong_suspicion_is_forgotten(self) -> None:
        detector = _after([_INTERVAL] * 200 + [1.5])
        margin, now = detector.margin, detector.last
        for _ in range(math.ceil(_SETTINGS.forgive / _INTERVAL)):
            now += _INTERVAL
            detector.heard(now, _INTERVAL)
        self.assertAlmostEqual(margin / 2, detector.margin, places=3)
        for _ in range(20 * math.ceil(_SETTINGS.forgive / _INTERVAL)):
            now += _INTERVAL
            detector.heard(now, _INTERVAL)
        self.assertEqual(0.0, detector.margin)

    def test_another_interval_resets_the_history(self) -> None:
        detector = _after([0.02, 0.5] * 100)
        detector.heard(detector.last + 1.0, 1.0)
        fresh = accrual.Accrual(_SETTINGS, detector.last, 1.0)
        self.assertEqual(fresh.deadline, detector.deadline)
