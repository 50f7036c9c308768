# SPDX-License-Identifier: Apache-2.0
"""How suspicious the silence of one host is: an adaptive phi-accrual detector.

phi is -log10 of the probability that a beat comes even later, if the gaps between beats are
normally distributed as those seen lately. phi grows with the silence without bound. The deadline,
at which phi reaches the threshold, is computed at each beat, so that a look compares two times.
"""

import dataclasses
import functools
import math
import statistics

# Beyond it, the tail of the distribution is not a distinct floating-point number.
_FAR = 30.0
# Seconds of patience that are negligible.
_NEGLIGIBLE = 1e-3
_LN10 = math.log(10.0)
_NORMAL = statistics.NormalDist()


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings of the detector's patience.

    :ivar threshold: phi from which on a host is suspected
    :ivar window: number of latest gaps that count, approximately
    :ivar floor: least deviation of the gaps, as a share of the interval
    :ivar clip: gaps count as this many intervals at most, so that a single pause changes little
    :ivar longest: seconds of silence after which any host is suspected
    :ivar reserve: factor by which a host that was wrongly suspected may be silent longer than its
        longest pause
    :ivar forgive: seconds after which half of that margin is forgotten
    """

    threshold: float = 8.0
    window: int = 100
    floor: float = 0.5
    clip: float = 4.0
    longest: float = 5.0
    reserve: float = 1.25
    forgive: float = 1800.0

    @functools.cached_property
    def sigmas(self) -> float:
        """Standard deviations after the mean at which phi reaches the threshold."""
        return -_NORMAL.inv_cdf(10.0 ** -self.threshold)

    @functools.cached_property
    def gain(self) -> float:
        """Weight of a single gap."""
        return 2.0 / (self.window + 1)


class Accrual:
    """The gaps between one host's beats. Every method takes constant time.

    Times are seconds of a clock of the caller's choice, which never goes backwards.

    :param now: when the first beat was heard
    :param interval: seconds between beats, as the host reports them
    :ivar last: when the latest beat was heard
    :ivar deadline: when the host is suspected, if no beat comes
    :ivar margin: extra seconds of patience after a wrong suspicion
    """

    __slots__ = ('_clip', '_floor', '_interval', '_longest', '_mean', '_settings', '_variance',
                 'deadline', 'last', 'margin')

    def __init__(self, settings: Settings, now: float, interval: float) -> None:
        self._settings = settings
        self.margin = 0.0
        self.begin(now, interval)

    def begin(self, now: float, interval: float) -> None:
        """Forget the gaps of a host that restarted, and keep its margin."""
        settings = self._settings
        self._interval = interval
        # What each beat of thousands of hosts needs: least deviation and longest gap that counts,
        # and the longest silence, as a host with a long interval cannot have sent a beat yet.
        self._floor = settings.floor * interval
        self._clip = settings.clip * interval
        self._longest = max(settings.longest, self._clip)
        self._mean = interval
        self._variance = 0.0
        self.last = now
        self._plan()

    def heard(self, now: float, interval: float) -> None:
        """Take a beat."""
        if interval != self._interval:
            self.begin(now, interval)
            return
        settings = self._settings
        gap = now - self.last
        if now >= self.deadline:
            self._lived(gap)
        elif self.margin:
            self._forgive(gap)
        difference = (gap if gap < self._clip else self._clip) - self._mean
        gain = settings.gain
        step = gain * difference
        self._mean += step
        self._variance = (1.0 - gain) * (self._variance + difference * step)
        self.last = now
        self._plan()

    def pretend(self, now: float) -> None:
        """Take the host as heard now, without learning from it."""
        self.last = now
        self._plan()

    def phi(self, now: float) -> float:
        """Return how suspicious the silence is: 0 or more, growing with the silence."""
        silence = now - self.last
        if silence <= 0.0:
            return 0.0
        phi = _improbability((silence - self.margin - self._mean) / self._deviation())
        # A host with very uneven beats must be suspected in the end, too.
        return max(phi, self._settings.threshold * silence / self._longest)

    def _lived(self, gap: float) -> None:
        """Extend the margin by the lateness of a host that was wrongly suspected."""
        # Patience has an upper bound, so a longer pause adds nothing.
        if gap <= self._longest:
            self.margin = max(self.margin, gap * self._settings.reserve - self._tolerance())

    def _forgive(self, passed: float) -> None:
        self.margin *= 0.5 ** (passed / self._settings.forgive)
        if self.margin < _NEGLIGIBLE:
            self.margin = 0.0

    def _plan(self) -> None:
        # Without further calls: an engine of 10,000 hosts plans 50,000 times per second.
        deviation, longest = math.sqrt(self._variance), self._longest
        if deviation < self._floor:
            deviation = self._floor
        patience = self._mean + self._settings.sigmas * deviation + self.margin
        self.deadline = self.last + (patience if patience < longest else longest)

    def _tolerance(self) -> float:
        return self._mean + self._settings.sigmas * self._deviation()

    def _deviation(self) -> float:
        return max(math.sqrt(self._variance), self._floor)


def _improbability(sigmas: float) -> float:
    """Return -log10 of the upper tail of the normal distribution."""
    if sigmas <= _FAR:
        return max(0.0, -math.log10(0.5 * math.erfc(sigmas / math.sqrt(2.0))))
    # Approximate from below, so that phi does not fall where the two formulas meet.
    square = sigmas * sigmas
    tail = math.log(1.0 - 1.0 / square) - math.log(sigmas * math.sqrt(2.0 * math.pi))
    return (0.5 * square - tail) / _LN10
