# SPDX-License-Identifier: Apache-2.0
"""Sample traces of a model, with the sources and the assumptions of the model.

A host is silent for three kinds of reasons, each at random moments and independently of others:

*deaths*
    1 per year. J. Dean told in 2008 of 1,000 machines that fail in the first year of a cluster of
    some thousands, and of 20 racks of 40 to 80 machines that vanish (quoted, for instance, in
    clubcloudcomputing.com/2008/07/hardware-can-fail-you-know-things-can-break). That a whole rack
    dies at once is left out: no silence is correlated with another one.
*pauses*
    as in ``bench failover``'s simulated hosts (:mod:`bench.detector`): pauses of 50 ms or more,
    Pareto with α = 1.5, so many per day. An assumption. Only pauses of a second or more are
    written down.
*maintenance*
    Once in 18 months a host's guests stand still for about 30 s, and come back with their memory:
    what Azure says of its own (MicrosoftDocs/azure-docs,
    articles/virtual-machines/maintenance-and-updates.md). Between 20 and 40 s here.

The samples differ in the number of pauses. *even* and *loaded* have as many as the simulated hosts
of these names. *paper* has so many that nine of ten hosts that are silent for 10 s return. That is
the highest share that the paper reports (section 5.5; its traces are not public).
"""

from collections.abc import Callable
import math
import random

from bench.falsepositives import trace as traces

_DEATHS = 1.0
_MAINTENANCE, _STANDSTILL = 1 / 1.5, (20.0, 40.0)
_ALPHA, _SHORTEST, _WRITTEN = 1.5, 0.05, 1.0
_DAY, _YEAR = 86400.0, 365.25
_PAPER_RATE, _PAPER_TIMEOUT = 0.9, 10.0


def _calibrated() -> float:
    """Return the pauses per day that reproduce the paper's share of false positives."""
    false = _DEATHS * _PAPER_RATE / (1 - _PAPER_RATE) - _MAINTENANCE
    return float(false * (_PAPER_TIMEOUT / _SHORTEST) ** _ALPHA / _YEAR)


# Pauses of 50 ms or more, per host and day.
SAMPLES = {'even': 20.0, 'paper': _calibrated(), 'loaded': 200.0}


def sample(name: str, hosts: int = 1000, days: float = 365.0, seed: int = 1) -> traces.Trace:
    """Make a sample: the same one for the same parameters.

    :param name: one of :data:`SAMPLES`
    """
    chance = random.Random(f'{name} {seed}')
    silences = []
    pauses = SAMPLES[name] * (_SHORTEST / _WRITTEN) ** _ALPHA * _YEAR
    kinds: tuple[tuple[float, Callable[[], float]], ...] = (
        (_DEATHS, lambda: math.inf),
        (pauses, lambda: _WRITTEN * chance.paretovariate(_ALPHA)),
        (_MAINTENANCE, lambda: chance.uniform(*_STANDSTILL)))
    for number in range(hosts):
        for rate, length in kinds:
            silences += [traces.Silence(f'h{number}', round(began, 3), round(length(), 3))
                         for began in _moments(chance, rate, days)]
    silences.sort(key=lambda silence: (silence.began, silence.host))
    return traces.Trace(f'sample {name}', tuple(silences), hosts, days)


def _moments(chance: random.Random, rate: float, days: float) -> list[float]:
    """Return random moments, in seconds.

    :param rate: how many there are per year
    """
    moments = []
    at = chance.expovariate(rate / (_YEAR * _DAY))
    while at < days * _DAY:
        moments.append(at)
        at += chance.expovariate(rate / (_YEAR * _DAY))
    return moments
