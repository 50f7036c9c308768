# SPDX-License-Identifier: Apache-2.0
"""How well a service was there: outages, throughput, and how long each answer took."""

import collections
import dataclasses
from typing import Any

# Answers further apart than this are an outage.
OUTAGE_S = 0.3


@dataclasses.dataclass(frozen=True)
class Outage:
    """A time without answers.

    :param began: the last answer before, seconds since the epoch
    :param ended: the first one after
    :param errors: what went wrong meanwhile, first and last
    """

    began: float
    ended: float
    errors: tuple[str, ...]


class Record:
    """What is added up while a client runs.

    :param outage_s: seconds between answers that count as an outage
    """

    def __init__(self, outage_s: float = OUTAGE_S) -> None:
        self._outage_s = outage_s
        self._last: float | None = None
        self._errors: list[str] = []
        self._seconds: collections.Counter[int] = collections.Counter()
        self._latencies: list[float] = []
        self.outages: list[Outage] = []

    def answered(self, at: float, took: float) -> Outage | None:
        """Note an answer; give the outage that it ended, if there was one.

        :param at: seconds since the epoch
        :param took: seconds
        """
        outage = None
        if self._last is not None and at - self._last > self._outage_s:
            ends = tuple(dict.fromkeys((*self._errors[:1], *self._errors[-1:])))
            outage = Outage(self._last, at, ends)
            self.outages.append(outage)
        self._last = at
        self._errors.clear()
        self._seconds[int(at)] += 1
        self._latencies.append(took)
        return outage

    def failed(self, error: str) -> None:
        """Note that an attempt failed."""
        # Of however many, the first one and the last one are told.
        self._errors[1:] = [error]

    def summary(self) -> dict[str, Any]:
        """Return all figures: milliseconds for latencies, seconds for the rest."""
        seconds = range(min(self._seconds, default=0), max(self._seconds, default=-1) + 1)
        ordered = sorted(self._latencies)
        return {
            'answers': len(ordered),
            'last_answer': self._last,
            'unanswered_since': self._errors[-1:],
            'outages': [{'began': outage.began, 'ended': outage.ended,
                         'seconds': round(outage.ended - outage.began, 4),
                         'errors': outage.errors} for outage in self.outages],
            'per_second': {str(second): self._seconds[second] for second in seconds},
            'latency_ms': {f'p{percent}': round(
                ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] * 1e3, 2)
                for percent in (50, 95, 99)} if ordered else {},
        }
