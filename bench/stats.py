# SPDX-License-Identifier: Apache-2.0
"""Medians, their spread, and distributions."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Summary:
    """The median of several measurements, and how far they spread.

    :param low: first quartile
    :param high: third quartile
    :param n: how many there were
    """

    median: float
    low: float
    high: float
    n: int

    def entries(self, key: str) -> dict[str, float]:
        """Name the figures as they stand in the JSON: the median by ``key`` itself."""
        return {key: self.median, f'{key}.low': self.low, f'{key}.high': self.high,
                f'{key}.n': self.n}


def summary(values: Sequence[float]) -> Summary:
    """Summarise measurements.

    :raises ValueError: there are none
    """
    if not values:
        raise ValueError('there is nothing to summarise')
    if len(values) == 1:
        return Summary(values[0], values[0], values[0], 1)
    low, _, high = statistics.quantiles(values, n=4, method='inclusive')
    return Summary(statistics.median(values), low, high, len(values))


def ratios(values: Sequence[float], references: Sequence[float]) -> Summary:
    """Summarise value ÷ reference of each pair: both were measured in the same round.

    Noise that lasts longer than a round is in both of a pair and cancels out, which it would not
    in the ratio of two medians.

    :raises ValueError: there are no pairs, or not as many references as values
    """
    return summary([value / reference for value, reference
                    in zip(values, references, strict=True)])


def merge_bins(histograms: Iterable[Mapping[int, int]]) -> dict[int, int]:
    """Add up histograms (count by latency)."""
    merged: dict[int, int] = {}
    for histogram in histograms:
        for latency, count in histogram.items():
            merged[latency] = merged.get(latency, 0) + count
    return merged


def percentile(histogram: Mapping[int, int], percent: float) -> int:
    """Return the latency that a share of a histogram does not exceed."""
    latencies, shares = cumulative(histogram)
    return next(latency for latency, share in zip(latencies, shares, strict=True)
                if share >= percent / 100)


def cumulative(histogram: Mapping[int, int]) -> tuple[list[int], list[float]]:
    """Turn a histogram into a cumulative distribution: latencies and shares up to each."""
    total = sum(histogram.values())
    latencies, shares, seen = [], [], 0
    for latency in sorted(histogram):
        seen += histogram[latency]
        latencies.append(latency)
        shares.append(seen / total)
    return latencies, shares
