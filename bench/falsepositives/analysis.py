# SPDX-License-Identifier: Apache-2.0
"""Evaluate ways of recovery on a trace: their false positives and their unavailability.

For one server on each host, by silence of length d (infinite for a host that is dead), with R for
the seconds that a recovery takes:

*a timeout T*
    d ≤ T: d. Otherwise the server is fenced and recovered: T + R; a false positive if the host
    would have answered again.
*speculation*, with S for the seconds until a suspicion and R' for those until the backup is ready
    d ≤ S: d. d ≤ S + R': the backup was started in vain, and the primary lives: d, and the
    disturbance D that this is to it. Otherwise the backup is promoted: S + R'; a false positive if
    the host would have answered again, and no more than that.
*the Oracle*, who knows at once for how long a host will not answer
    min(d, R).
"""

import bisect
from collections.abc import Sequence
import dataclasses

from bench.falsepositives import trace as traces


@dataclasses.dataclass(frozen=True)
class Recovery:
    """Durations in seconds.

    :ivar detect: until speculation suspects a host
    :ivar plain: from the decision until a server serves again, on its own disk (R)
    :ivar speculative: the same on a superposed disk (R')
    :ivar disturbance: seconds of service that a backup in vain costs its primary
    """

    plain: float
    speculative: float
    detect: float
    disturbance: float = 0.0


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The result of a way of recovery.

    :ivar suspicions: hosts that it suspected
    :ivar acted: recoveries that it decided for
    :ivar false: suspicions of hosts that would have answered again
    :ivar vain: backups that were started and dropped again
    :ivar unavailable: seconds that nobody was served, in all
    :ivar backup_seconds: for which there were two guests of one server
    """

    name: str
    suspicions: int
    acted: int
    false: int
    vain: int
    unavailable: float
    backup_seconds: float = 0.0

    @property
    def false_rate(self) -> float | None:
        """Return the share of false positives; None without recoveries."""
        return self.false / self.acted if self.acted else None


def timeout(trace: traces.Trace, seconds: float, recovery: Recovery) -> Verdict:
    """Evaluate recovery after a timeout.

    :param seconds: the timeout
    """
    waited = bisect.bisect_right(trace.returned, seconds)
    false = len(trace.returned) - waited
    late = false + trace.dead
    return Verdict(f'timeout {seconds:g} s', late, late, false, 0,
                   trace.waited[waited] + late * (seconds + recovery.plain))


def speculation(trace: traces.Trace, recovery: Recovery) -> Verdict:
    """Evaluate speculative recovery."""
    ready = recovery.detect + recovery.speculative
    unnoticed = bisect.bisect_right(trace.returned, recovery.detect)
    lived = bisect.bisect_right(trace.returned, ready)
    vain, false = lived - unnoticed, len(trace.returned) - lived
    late = false + trace.dead
    return Verdict(
        'speculation', vain + late, late, false, vain,
        trace.waited[lived] + vain * recovery.disturbance + late * ready,
        trace.waited[lived] - trace.waited[unnoticed] - vain * recovery.detect
        + late * recovery.speculative)


def oracle(trace: traces.Trace, recovery: Recovery) -> Verdict:
    """Evaluate recovery by an oracle, which knows each failure at once."""
    waited = bisect.bisect_right(trace.returned, recovery.plain)
    false = len(trace.returned) - waited
    acted = false + trace.dead
    return Verdict('Oracle', acted, acted, false, 0,
                   trace.waited[waited] + acted * recovery.plain)


def best_timeout(trace: traces.Trace, recovery: Recovery) -> float:
    """Return the timeout with the least unavailability in hindsight.

    It is 0 or the length of a silence that ended: between two of these, waiting longer makes
    nothing better.
    """
    return min((0.0, *trace.returned),
               key=lambda seconds: timeout(trace, seconds, recovery).unavailable)


def figures(trace: traces.Trace, verdicts: Sequence[Verdict], best: float) -> dict[str, float]:
    """Return all figures for the JSON."""
    values: dict[str, float] = {
        'falsepositives.silences': len(trace.silences),
        'falsepositives.dead': trace.dead,
        'falsepositives.best_timeout_s': best}
    for verdict in verdicts:
        key = 'falsepositives.' + verdict.name.removesuffix(' s').replace(' ', '_').lower()
        values |= {f'{key}.suspicions': verdict.suspicions, f'{key}.recoveries': verdict.acted,
                   f'{key}.false': verdict.false, f'{key}.unavailable_s': verdict.unavailable}
        if verdict.false_rate is not None:
            values[f'{key}.false_rate'] = verdict.false_rate
        if verdict.name == 'speculation':
            values |= {f'{key}.backups_in_vain': verdict.vain,
                       f'{key}.backup_seconds': verdict.backup_seconds}
        if trace.host_years:
            values[f'{key}.unavailable_minutes_per_host_year'] = (
                verdict.unavailable / 60 / trace.host_years)
    return values
