# SPDX-License-Identifier: Apache-2.0
"""The command line of ``./run bench paper``."""

import argparse
from collections.abc import Callable
import pathlib
import subprocess
import time
from typing import Any

import rados
import rbd

from bench import environment
from bench import progress
from bench import report
from bench.falsepositives import analysis
from bench.falsepositives import cli as falsepositives
from bench.falsepositives import model
from bench.falsepositives import picture
from bench.paper import accidents
from bench.paper import disk
from bench.paper import figures as drawings
from bench.paper import formula
from bench.paper import options
from bench.paper import page
from bench.paper import results

_QUICK_ROUNDS, _FULL_ROUNDS = 3, 9
_SAMPLE, _TIMEOUTS = 'paper', [1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 180.0]
# Seconds, where they were not measured: the paper's long recovery, and a suspicion.
_RECOVERY, _DETECT = 30.0, 0.8
Keep = Callable[[dict[str, Any]], None]


def run(args: argparse.Namespace, failures: tuple[type[Exception], ...]) -> int:
    """Run the command.

    :param failures: which are told, and do not keep the other parts from being measured
    :returns: the exit status: 1 if a part failed
    """
    failures = (*failures, OSError, subprocess.SubprocessError, rados.Error, rbd.Error)
    known = results.load(args.known)
    args.out.mkdir(parents=True, exist_ok=True)
    tell = progress.Progress([options.NAME])

    def keep(measured: dict[str, Any]) -> None:
        known.update(measured)
        report.write(args.out / 'paper.json', known)

    if not args.no_measure:
        known |= {key: value for key, value in environment.facts().items() if key not in known}
        for key in [key for key in known if key.startswith('paper.failed.')]:
            del known[key]
        for name, measure in (('disk', _disk), ('cloud', _cloud)):
            began = time.monotonic()
            try:
                if measure(args, known, tell, keep, failures):
                    keep({f'paper.cost.{name}_s': round(time.monotonic() - began, 1)})
            except failures as exc:
                tell.say(f'FAILED: {name}: {exc}')
                keep({f'paper.failed.{name}': str(exc)})
    keep({})
    print(write(known, args.out))
    tell.say(f'the report: {args.out / "paper.html"}')
    failed = [key for key in known if key.startswith('paper.failed.')]
    for key in failed:
        print(f'{key}: {known[key]}')
    return 1 if failed else 0


def write(known: dict[str, Any], out: pathlib.Path) -> str:
    """Draw the figures, write the report, and return the table of false positives.

    :param known: what has been measured
    """
    drawn = drawings.draw(known, out)
    trace = model.sample(_SAMPLE)
    recovery = _recovery(known)
    verdicts, best = falsepositives.evaluate(trace, recovery, _TIMEOUTS)
    table = falsepositives.table(trace, verdicts)
    drawn['falsepositives'] = out / 'falsepositives.png'
    picture.draw(drawn['falsepositives'], trace, recovery, best)
    known |= analysis.figures(trace, verdicts, best)
    report.write(out / 'paper.json', known)
    page.write(out / 'paper.html', known, drawn, table)
    return table


def _recovery(known: dict[str, Any]) -> analysis.Recovery:
    """Return the times of recoveries: measured end to end, or else the paper's."""
    detect = known.get('paper.accident.spec.detect_s', _DETECT)
    measured = formula.recoveries(known)
    if measured is None:
        return analysis.Recovery(_RECOVERY, _RECOVERY, detect)
    spec = known['paper.accident.spec.database_s']
    return analysis.Recovery(measured[0].rbd, max(0.0, spec - detect), detect)


def _disk(args: argparse.Namespace, known: dict[str, Any], tell: progress.Progress, keep: Keep,
          _failures: object) -> bool:
    """Measure what is missing of Figures 4 and 5; return whether anything was."""
    recorded = disk.recordings(args.traces, args.quick)
    if not recorded:
        tell.say('no trace of a recovery was found: Figure 5 is left out (see --traces)')
    parts = disk.missing(known, recorded)
    if not parts:
        return False
    rounds = _QUICK_ROUNDS if args.quick else _FULL_ROUNDS
    with environment.cluster(args.data, args.port, tell, args.keep) as own, \
            environment.environment(own, tell, args.quick, rounds, args.out) as env:
        disk.run(env, recorded, parts, keep)
    return True


def _cloud(args: argparse.Namespace, known: dict[str, Any], tell: progress.Progress, keep: Keep,
           failures: tuple[type[Exception], ...]) -> bool:
    """Measure the accidents that are missing; return whether any was."""
    names = accidents.missing(known)
    if not names:
        return False
    data = args.data.with_name(f'{args.data.name}-cloud')
    with environment.cloud(data, args.port, tell, args.keep, hosts=accidents.HOSTS,
                           engines=accidents.ENGINES) as cloud:
        accidents.run(cloud, tell, names, args.quick, keep, failures)
    return True
