# SPDX-License-Identifier: Apache-2.0
"""Run any number of races between a primary and its backup, and count their outcomes."""

import argparse
from collections.abc import Iterator
import contextlib
import pathlib
import random
import tempfile
import time

from cloud import ceph
from testing.race import outcomes
from testing.race import scenario
from testing.race import site as sites
from testing.race import weather

_ROUNDS = 50
_QUICK_ROUNDS = 10
_ERASURE = 'race-erasure'
_ERASURE_GROUPS = 8


class RaceLost(RuntimeError):
    """A round ended in a way that the protocol rules out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the soak."""
    group = parser.add_argument_group('soak')
    group.add_argument('--rounds', type=int, metavar='N',
                       help=f'how many races (default: {_ROUNDS}, with --quick {_QUICK_ROUNDS})')
    group.add_argument('--seed', type=int, default=1, metavar='S',
                       help='what the races are drawn from (default: %(default)s)')
    group.add_argument('--hostile', action='store_true',
                       help='also race on namespaces, clones and erasure-coded data pools, while '
                            'OSDs hang, die and are marked down, the monitor hangs, placement '
                            'groups are split and merged, and get other primary OSDs; some '
                            'promoted backups hang until they were merged, and wake')


def run(args: argparse.Namespace) -> dict[str, float]:
    """Race on the cluster of ``args.data``.

    :returns: counts by kind of primary and outcome, violations, and the window of the fence
    :raises RaceLost: a round violated the protocol; its story is printed
    """
    total = args.rounds or (_QUICK_ROUNDS if args.quick else _ROUNDS)
    own = ceph.Ceph(args.data)
    places = _hostile_places(own) if args.hostile else [sites.Place(ceph.VOLUMES)]
    results: list[outcomes.Result] = []
    seeds = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix='soak') as scratch, \
            sites.Site(own.conf, own.admin_conf, pathlib.Path(scratch), places) as site, \
            _weather(own, args):
        for number in range(total):
            site.turn = number
            kind, seed = outcomes.KINDS[number % len(outcomes.KINDS)], seeds.randrange(2**32)
            began = time.monotonic()
            result, story = scenario.play(site, kind, seed, hostile=args.hostile)
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


def _hostile_places(own: ceph.Ceph) -> list[sites.Place]:
    if _ERASURE not in own.pools():
        own.create_pool(_ERASURE, pg_num=_ERASURE_GROUPS, erasure=True)
        own.wait_clean()
    return [sites.Place(ceph.VOLUMES), sites.Place(ceph.VOLUMES, clone=True),
            sites.Place(ceph.VOLUMES, namespace='race'),
            sites.Place(ceph.VOLUMES, data_pool=_ERASURE),
            sites.Place(ceph.VOLUMES, data_pool=_ERASURE, clone=True)]


@contextlib.contextmanager
def _weather(own: ceph.Ceph, args: argparse.Namespace) -> Iterator[None]:
    if not args.hostile:
        yield
        return
    with weather.Weather(own, ceph.VOLUMES, args.seed) as accidents:
        yield
    for accident, times in accidents.happened.items():
        print(f'  {times} times: {accident.value}')


def _figures(results: list[outcomes.Result]) -> dict[str, float]:
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
