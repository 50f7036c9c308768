# SPDX-License-Identifier: Apache-2.0
"""The statistics of the benchmarks."""

import statistics

import hypothesis
from hypothesis import strategies
import testtools

from bench import stats

_POSITIVE = strategies.floats(1e-3, 1e6)
_HISTOGRAM = strategies.dictionaries(strategies.integers(1, 10**9), strategies.integers(1, 1000))


class SummaryTest(testtools.TestCase):
    """Medians and their spread."""

    def test_summary_of_five(self) -> None:
        self.assertEqual(stats.Summary(3, 2, 4, 5), stats.summary([5, 1, 4, 2, 3]))

    def test_summary_of_one(self) -> None:
        self.assertEqual(stats.Summary(7, 7, 7, 1), stats.summary([7]))

    def test_summary_of_none(self) -> None:
        self.assertRaises(ValueError, stats.summary, [])

    @hypothesis.given(strategies.lists(_POSITIVE, min_size=1))
    def test_median_lies_within_the_spread(self, values: list[float]) -> None:
        summary = stats.summary(values)
        self.assertEqual(statistics.median(values), summary.median)
        self.assertTrue(
            min(values) <= summary.low <= summary.median <= summary.high <= max(values), summary)

    def test_entries(self) -> None:
        self.assertEqual({'a.b': 3, 'a.b.low': 2, 'a.b.high': 4, 'a.b.n': 5},
                         stats.Summary(3, 2, 4, 5).entries('a.b'))


class RatiosTest(testtools.TestCase):
    """Ratios of pairs."""

    def test_noise_common_to_a_pair_cancels_out(self) -> None:
        self.assertEqual(stats.Summary(2, 2, 2, 3), stats.ratios([2, 20, 200], [1, 10, 100]))

    def test_ratio_needs_pairs(self) -> None:
        self.assertRaises(ValueError, stats.ratios, [1, 2], [1])


class HistogramTest(testtools.TestCase):
    """Distributions."""

    @hypothesis.given(strategies.lists(_HISTOGRAM))
    def test_merging_loses_nothing(self, histograms: list[dict[int, int]]) -> None:
        merged = stats.merge_bins(histograms)
        self.assertEqual(sum(sum(histogram.values()) for histogram in histograms),
                         sum(merged.values()))
        for latency, count in merged.items():
            self.assertEqual(count, sum(histogram.get(latency, 0) for histogram in histograms))

    @hypothesis.given(_HISTOGRAM.filter(bool))
    def test_cumulative_rises_to_one(self, histogram: dict[int, int]) -> None:
        latencies, shares = stats.cumulative(histogram)
        self.assertEqual(sorted(histogram), latencies)
        self.assertEqual(sorted(shares), shares)
        self.assertAlmostEqual(1.0, shares[-1])

    def test_cumulative(self) -> None:
        self.assertEqual(([1, 5], [0.25, 1.0]), stats.cumulative({5: 3, 1: 1}))
