# SPDX-License-Identifier: Apache-2.0
"""Run any number of races between a primary and its backup, and count their outcomes."""

import argparse
import pathlib
import random
import tempfile
import time

from cloud import ceph
from testing.race import outcomes
from testing.race import round as rounds
from testing.race import scenario
from testing.race import site as sites

_ROUNDS = 50
_QUICK_ROUNDS = 10


class RaceLost(RuntimeError):
    """A round ended in a way that the protocol rules out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the soak."""
    group = parser.add_argument_group('soak')
    group.add_argument('--rounds', type=int, metavar='N',
                       help=f'how many races (default: {_ROUNDS}, with --quick {_QUICK_ROUNDS})')
    group.add_argument('--seed', type=int, default=1, metavar='S',
                       help='what the races are drawn from (default: %(default)s)')


def run(args: argparse.Namespace) -> dict[str, float]:
    """Race on the cluster of ``args.data``.

    :returns: counts by kind of primary and outcome, violations, and the window of the fence
    :raises RaceLost: a round violated the protocol; its story is printed
    """
    total = args.rounds or (_QUICK_ROUNDS if args.quick else _ROUNDS)
    own = ceph.Ceph(args.data)
    results: list[rounds.Result] = []
    seeds = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix='soak') as scratch, \
            sites.Site(own.conf, own.admin_conf, pathlib.Path(scratch)) as site:
        for number in range(total):
            kind, seed = outcomes.KINDS[number % len(outcomes.KINDS)], seeds.randrange(2**32)
            began = time.monotonic()
            result, story = scenario.play(site, kind, seed)
            results.append(result)
            print(f'  race {number + 1} of {total}: {result.kind}, {result.outcome}, '
                  f'{time.monotonic() - began:.1f} s', flush=True)
            if result.violations:
                print('\n'.join(story), flush=True)
    print(outcomes.table(results))
    figures = _figures(results)
    if figures['soak.violations']:
        raise RaceLost(f'{figures["soak.violations"]:.0f} of {total} races were lost: see above')
    return figures


def _figures(results: list[rounds.Result]) -> dict[str, float]:
    figures: dict[str, float] = {
        'soak.rounds': len(results),
        'soak.violations': sum(bool(result.violations) for result in results),
    }
    for kind in outcomes.KINDS:
        for outcome in outcomes.OUTCOMES:
            figures[f'soak.{kind}.{outcome}'] = outcomes.count(results, kind, outcome)
    window = outcomes.window_ms(results)
    if window is not None:
        figures['soak.window_ms'] = window
    return figures
