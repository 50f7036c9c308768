# SPDX-License-Identifier: Apache-2.0
"""Measure for how long a server is not served when its host dies, and what else can go wrong.

The accidents are as in the demo, on a cloud with three hosts and two engines:

*failover*
    the host of an ordinary Debian with PostgreSQL is killed. So is the host of a small guest with
    PostgreSQL, whose owner has set a condition of readiness. The engine recovers both. In turn,
    with no engine, both are evacuated at once (the Oracle), and both are recovered by the fastest
    sound start, as if the death were known as a fact at once. Besides, the host of a small server
    is, which is up seconds after its start; it is recovered by the engine, and once evacuated
    after 60 s.
*false_suspicion*
    the host is cut off from the control plane, once with its guests frozen for a while, and once
    with running guests and a paced client of the database.
*faults*
    recoveries in the middle of which the engine, or what it needs, is killed; see
    :mod:`bench.faults`.
*detector*, *scale*
    what simulated hosts show; see :mod:`bench.detector`.

With a peer, Masakari recovers the same database on the same cloud instead, by its defaults,
without its wait, and by handing the host to the engine; see :mod:`cloud.demo.peers`.
"""

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import operator
import pathlib
import sys
import tempfile

from bench import detector
from bench import faults
from bench import progress
from bench import stats
from cloud import cloud as openstack_cloud
from cloud.demo import outcome
from cloud.demo import peers
from cloud.demo import scenarios
from cloud.demo import screen as screens
from cloud.demo import stage as stages

HOSTS, ENGINES = 3, 2
# Further prefixes of its keys.
MORE = ('false_suspicion', 'faults', 'detector', 'scale')
# Headings of the times without service that are shown part by part, by the prefixes of their keys.
COLUMNS = {'failover.ordinary.': 'SpecREDS, Debian',
           'failover.ordinary_oracle.': 'Oracle, Debian',
           'failover.ordinary_fastest.': 'fastest start, Debian',
           'failover.': 'SpecREDS, database', 'failover.oracle.': 'Oracle, database',
           'failover.fastest.': 'fastest start, database',
           'failover.short.': 'SpecREDS, small server',
           **{f'failover.{key}.': name for key, (name, _) in peers.ACCIDENTS.items()},
           f'failover.{peers.HANDED_OVER}.': 'SpecREDS, by Masakari'}
_QUICK_ROUNDS, _FULL_ROUNDS = 2, 5
# Seconds that a database is used before its host dies, and before it is only suspected.
_BEFORE, _PACED_BEFORE = 10.0, 15.0
# Seconds that a small server is pinged before its host dies.
_SHORT_BEFORE = 10.0
_TIMEOUT = 60.0


def run(cloud: openstack_cloud.Cloud, tell: progress.Progress, quick: bool) -> dict[str, float]:
    """Measure on a cloud with compute hosts and engines, and return the figures by their keys.

    :param quick: kill fewer hosts; inject all faults
    """
    rounds = _QUICK_ROUNDS if quick else _FULL_ROUNDS
    with staged(cloud) as stage:
        tell.section('failover', 7 * rounds + 5)
        measured = _deaths(stage, tell, rounds) | _suspicions(stage, tell) | _faults(stage, tell)
        # The engines of the cloud must not hear the thousand simulated hosts.
        stage.engines(False)
        return measured | detector.run(tell, cloud.rabbit_url, quick)


def run_faults(cloud: openstack_cloud.Cloud, tell: progress.Progress) -> dict[str, float]:
    """Inject all faults on a cloud with compute hosts and engines, and measure nothing else."""
    with staged(cloud) as stage:
        tell.section('faults', 2)
        return _faults(stage, tell)


def run_peer(cloud: openstack_cloud.Cloud, tell: progress.Progress) -> dict[str, float]:
    """Measure Masakari on a cloud with compute hosts and engines, and the engine beside it."""
    with staged(cloud) as stage:
        tell.section('failover', 2 + len(peers.ACCIDENTS))
        tell.step('a death, and the engine')
        outcomes = [right(tell, scenarios.speculative(stage, _BEFORE))]
        tell.step('a death that Masakari hands to the engine')
        outcomes.append(right(tell, peers.handed_over(stage, _BEFORE)))
        stage.engines(False)
        for key, (name, _) in reversed(peers.ACCIDENTS.items()):
            tell.step(f'a death, and {name}')
            outcomes.append(right(tell, peers.accident(stage, _BEFORE, key)))
        return peer_figures(outcomes)


@contextlib.contextmanager
def staged(cloud: openstack_cloud.Cloud) -> Iterator[stages.Stage]:
    """Yield the stage of a cloud whose hosts are all trusted."""
    with tempfile.TemporaryDirectory(prefix='specreds-bench-') as scratch, contextlib.closing(
            stages.Stage(cloud, pathlib.Path(scratch), screens.Screen(sys.stderr))) as stage:
        stage.trusted()
        yield stage


def peer_figures(outcomes: Sequence[outcome.Outcome]) -> dict[str, float]:
    """Return the figures of deaths that a peer recovers, and ratios to the engine's.

    :param outcomes: the engine's first
    """
    spec, *others = outcomes
    measured = {'failover.spec_s': spec.unavailable_s,
                'failover.lost': float(sum(death.lost for death in outcomes)),
                **{f'failover.{phase.name}_s': phase.seconds for phase in spec.phases}}
    for death in others:
        measured[f'failover.{death.key}_s'] = death.unavailable_s
        measured[f'failover.{death.key}_over_spec'] = death.unavailable_s / spec.unavailable_s
        measured |= {f'failover.{death.key}.{phase.name}_s': phase.seconds
                     for phase in death.phases}
    return measured


def _deaths(stage: stages.Stage, tell: progress.Progress, rounds: int) -> dict[str, float]:
    ordinary, small, short = Deaths(), Deaths(), list[outcome.Outcome]()
    kinds = {'a Debian': (ordinary, stages.ORDINARY), 'a database': (small, stages.SMALL)}
    for number in range(rounds):
        for name, (deaths, database) in kinds.items():
            tell.step(f'a death of {name}, and the engine, round {number + 1} of {rounds}')
            deaths.spec.append(right(tell, scenarios.speculative(
                stage, _BEFORE, database=database)))
        tell.step(f'a death of a small server, and the engine, round {number + 1} of {rounds}')
        short.append(right(tell, scenarios.short(stage, _SHORT_BEFORE)))
        stage.engines(False)
        for name, (deaths, database) in kinds.items():
            tell.step(f'a death of {name}, and the Oracle, round {number + 1} of {rounds}')
            deaths.oracle.append(right(tell, scenarios.timed(
                stage, _BEFORE, 0.0, database=database)))
            tell.step(f'a death of {name}, and the fastest start, round {number + 1} of {rounds}')
            deaths.fastest.append(right(tell, scenarios.fastest(
                stage, _BEFORE, database=database)))
        if number + 1 == rounds:
            tell.step(f'a death of a small server, and a timeout of {_TIMEOUT:g} s')
            reds = right(tell, scenarios.short(stage, _SHORT_BEFORE, _TIMEOUT))
        stage.engines(True)
    return ordinary_figures(ordinary) | figures(small, short, reds)


def _suspicions(stage: stages.Stage, tell: progress.Progress) -> dict[str, float]:
    tell.step('a host that is only suspected, and whose guests hang a while')
    hung = right(tell, scenarios.suspicion(stage, _BEFORE))
    tell.step('a host that is only suspected, and a paced client')
    paced = right(tell, scenarios.suspicion(stage, _PACED_BEFORE, hang=False))
    return {'false_suspicion.errors': float(len(hung.errors) + len(paced.errors)),
            'false_suspicion.lost': float(hung.lost + paced.lost),
            'false_suspicion.longest_answer_s': hung.unavailable_s,
            'false_suspicion.throughput_ratio': throughput(paced, _PACED_BEFORE)}


def _faults(stage: stages.Stage, tell: progress.Progress) -> dict[str, float]:
    tell.step('what recovers servers is killed, again and again')
    tally = faults.run(stage)
    for words in tally.wrong:
        tell.say(f'WRONG: {words}')
    tell.step('broker, database and Ceph are away for a while, and nothing dies')
    return {'faults.correct_ratio': tally.right / tally.count, 'faults.count': tally.count,
            'faults.longest_s': tally.longest_s, **faults.peace(stage)}


@dataclasses.dataclass(frozen=True)
class Deaths:
    """Deaths of the same kind of server, one of each list in each round.

    :ivar spec: recovered by the engine
    :ivar oracle: evacuated at once
    :ivar fastest: recovered by the fastest sound start
    """

    spec: list[outcome.Outcome] = dataclasses.field(default_factory=list)
    oracle: list[outcome.Outcome] = dataclasses.field(default_factory=list)
    fastest: list[outcome.Outcome] = dataclasses.field(default_factory=list)

    def figures(self, own: str, prefix: str) -> dict[str, float]:
        """Return times without service, the longest waits of users, ratios and lost transactions.

        :param own: beginning of the keys of the engine's times, and of the ratios
        :param prefix: beginning of the other keys
        """
        others = {'oracle': self.oracle, 'fastest': self.fastest}
        measured = {f'{prefix}lost': float(sum(
            death.lost for death in (*self.spec, *self.oracle, *self.fastest)))}
        for word, of in (('', operator.attrgetter('unavailable_s')),
                         ('blocking_', operator.attrgetter('blocking_s'))):
            times = [of(death) for death in self.spec]
            measured |= stats.summary(times).entries(f'{own}_{word}s')
            for name, deaths in others.items():
                theirs = [of(death) for death in deaths]
                measured |= stats.summary(theirs).entries(f'{prefix}{name}_{word}s')
                measured |= stats.ratios(times, theirs).entries(f'{own}_{word}over_{name}')
        for name, deaths in others.items():
            measured |= medians(f'{prefix}{name}.', deaths)
        return measured


def ordinary_figures(deaths: Deaths) -> dict[str, float]:
    """Return the figures of deaths of an ordinary Debian for the JSON."""
    decided = [death.frame_to_open_s for death in deaths.spec]
    early = [seconds for seconds in decided if seconds is not None]
    measured = deaths.figures('failover.ordinary', 'failover.ordinary_')
    measured['failover.ordinary_early_share'] = len(early) / len(decided)
    measured |= stats.summary([death.overhead_s for death in deaths.spec]).entries(
        'failover.ordinary_overhead_s')
    if early:
        measured |= stats.summary(early).entries('failover.frame_to_open_s')
    for moment in outcome.MOMENTS:
        seconds = [death.moments[moment] for death in deaths.spec if moment in death.moments]
        if seconds:
            measured[f'failover.ordinary_{moment}_s'] = stats.summary(seconds).median
    return measured | medians('failover.ordinary.', deaths.spec)


def figures(deaths: Deaths, short: Sequence[outcome.Outcome], reds: outcome.Outcome
            ) -> dict[str, float]:
    """Return the figures of deaths for the JSON.

    :param short: a small server, recovered by the engine
    :param reds: a small server, evacuated after a timeout of 60 s
    """
    times = [death.unavailable_s for death in short]
    measured = deaths.figures('failover.spec', 'failover.')
    for key, values in (('short_s', times), ('reds60_s', [reds.unavailable_s]),
                        ('overhead_s', [death.overhead_s for death in (*deaths.spec, *short)]),
                        ('reds60_over_spec', [reds.unavailable_s / value for value in times])):
        measured |= stats.summary(values).entries(f'failover.{key}')
    return measured | medians('failover.', deaths.spec) | medians('failover.short.', short)


def medians(prefix: str, deaths: Sequence[outcome.Outcome]) -> dict[str, float]:
    """Return the median seconds of each phase, by keys with a prefix; 0 for a death without it."""
    return {f'{prefix}{name}_s': stats.summary(
        [sum(phase.seconds for phase in death.phases if phase.name == name)
         for death in deaths]).median
        for name in outcome.PHASES
        if any(phase.name == name for death in deaths for phase in death.phases)}


def throughput(result: outcome.Outcome, before: float) -> float:
    """Return transactions per second while there was a backup ÷ before.

    :param before: for so many seconds before the accident
    :raises RuntimeError: there was no backup
    """
    if not result.steps or result.settled is None:
        raise RuntimeError('there was no backup')
    began = result.steps[0].began
    return (outcome.rate(result.done, began, result.settled)
            / outcome.rate(result.done, result.event - before, result.event))


def right(tell: progress.Progress, result: outcome.Outcome) -> outcome.Outcome:
    """Raise unless a figure belongs to a recovery that went right.

    :raises RuntimeError: it went wrong
    """
    tell.say(f'{result.name}: {result.unavailable_s:.2f} s, of it '
             + ', '.join(f'{phase.name} {phase.seconds:.2f} s' for phase in result.phases))
    if result.wrong:
        raise RuntimeError(f'{result.name}: {"; ".join(result.wrong)}')
    return result
