# SPDX-License-Identifier: Apache-2.0
"""Figures 6 and 7: the paper's scenarios as accidents on a cloud, end to end.

A PostgreSQL and a small server run on a host. *spec*: it dies, and the engine recovers them;
*suspicion*: it only stands still, and is suspected; *reds5*, *reds60*: it dies, and they are
evacuated after a timeout; *oracle*: at once; *clone*: at once, too, and on RBD clones of their
volumes, which is what SpecREDS would have without ``super``. After *spec*, *oracle* and *clone*
the database works as fast as it can, while in *spec* its volume is merged.
"""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import dataclasses
import pathlib
import sys
import tempfile
import time
from typing import Any

from bench import progress
from bench.paper import stage as stages
from cloud import cloud as openstack_cloud
from cloud.demo import outcome
from cloud.demo import scenarios
from cloud.demo import screen as screens

HOSTS, ENGINES = 3, 1
# Seconds that a database is used before an accident.
_BEFORE = 8.0


@dataclasses.dataclass(frozen=True)
class Accident:
    """An accident.

    :ivar run: gives what came of it
    :ivar engines: whether they run
    :ivar prepared: the database has accounts, and its volume is a plain disk
    :ivar after: the database works as fast as it can afterwards
    """

    run: Callable[[stages.Stage], outcome.Outcome]
    engines: bool = False
    prepared: bool = True
    after: bool = False
    clone: bool = False


# With the engines first, so that they are stopped once.
ACCIDENTS: Mapping[str, Accident] = {
    'spec': Accident(lambda stage: scenarios.speculative(stage, _BEFORE), engines=True,
                     after=True),
    'suspicion': Accident(lambda stage: scenarios.suspicion(stage, _BEFORE), engines=True,
                          prepared=False),
    'oracle': Accident(lambda stage: scenarios.timed(stage, _BEFORE, 0.0), after=True),
    'clone': Accident(lambda stage: scenarios.timed(stage, _BEFORE, 0.0), after=True, clone=True),
    'reds5': Accident(lambda stage: scenarios.timed(stage, _BEFORE, 5.0)),
    'reds60': Accident(lambda stage: scenarios.timed(stage, _BEFORE, 60.0)),
}
_QUICK_ROWS, _FULL_ROWS = 30_000, 200_000
_QUICK_AFTER, _FULL_AFTER = 30.0, 120.0


def run(cloud: openstack_cloud.Cloud, tell: progress.Progress, names: Sequence[str], quick: bool,
        keep: Callable[[dict[str, Any]], None], failures: tuple[type[Exception], ...]) -> None:
    """Run accidents.

    :param names: of :data:`ACCIDENTS`
    :param quick: smaller databases, which are watched for a shorter time
    :param keep: is given the figures of each as soon as they are known
    :param failures: after which the next one is tried
    """
    tell.section('paper', len(names))
    with tempfile.TemporaryDirectory(prefix='specreds-bench-') as scratch, contextlib.closing(
            stages.Stage(cloud, pathlib.Path(scratch), screens.Screen(sys.stderr))) as stage:
        stage.trusted()
        engines = True
        for name in (name for name in ACCIDENTS if name in names):
            tell.step(f'Figures 6 and 7: {name}')
            began = time.monotonic()
            accident = ACCIDENTS[name]
            try:
                if accident.engines != engines:
                    stage.engines(accident.engines)
                    engines = accident.engines
                stage.rows = ((_QUICK_ROWS if quick else _FULL_ROWS)
                              if accident.prepared else 0)
                stage.after = (_QUICK_AFTER if quick else _FULL_AFTER) if accident.after else 0.0
                stage.clone = accident.clone
                measured = facts(name, accident.run(stage), stage.course)
            except failures as exc:
                measured = {f'paper.failed.{name}': str(exc)}
            for words in measured.values():
                if isinstance(words, str):
                    tell.say(f'WRONG: {name}: {words}')
            keep({**measured, f'paper.cost.{name}_s': round(time.monotonic() - began, 1)})


def missing(figures: Mapping[str, Any]) -> list[str]:
    """Return the accidents with missing figures."""
    return [name for name, accident in ACCIDENTS.items()
            if f'paper.accident.{name}.database_s' not in figures
            or (accident.after and f'paper.accident.{name}.per_second' not in figures)]


def facts(name: str, result: outcome.Outcome, course: stages.Course | None = None
          ) -> dict[str, Any]:
    """Return the figures of an accident, for the JSON.

    An accident that went wrong has no figures; its entry says what went wrong.

    :param course: what the database got done afterwards
    """
    if result.wrong:
        return {f'paper.failed.{name}': '; '.join(result.wrong)}
    key = f'paper.accident.{name}'
    measured: dict[str, Any] = {f'{key}.database_s': result.unavailable_s,
                                f'{key}.lost': result.lost}
    if result.web_s is not None:
        measured[f'{key}.web_s'] = result.web_s
    if result.overhead_s:
        measured[f'{key}.overhead_s'] = result.overhead_s
    measured |= {f'{key}.{phase.name}_s': phase.seconds for phase in result.phases}
    if course is not None:
        rates = course.per_second()
        measured[f'{key}.per_second'] = rates
        measured[f'{key}.throughput'] = sum(rates) / max(len(rates), 1)
        for step in result.steps:
            if step.name == 'merge' and step.ended is not None:
                measured[f'{key}.merge'] = [round(step.began - course.began, 2),
                                            round(step.ended - course.began, 2)]
    return measured
