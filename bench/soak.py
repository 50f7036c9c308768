# SPDX-License-Identifier: Apache-2.0
"""Run any number of races between a primary and its backup, and count their outcomes."""

import argparse
import collections
from collections.abc import Callable, Iterator
import contextlib
import functools
import pathlib
import random
import tempfile
import time

from bench import options
from cloud import ceph
from testing.race import crew as crews
from testing.race import hosts
from testing.race import outcomes
from testing.race import scenario
from testing.race import site as sites
from testing.race import weather

_ERASURE = 'race-erasure'
_ERASURE_GROUPS = 8
_HOSTILE_MONITORS = 3
# One more than a placement group has, so that data can move.
_HOSTILE_OSDS = 4


def monitors(args: argparse.Namespace) -> int:
    """Return how many monitors the cluster of a benchmark has."""
    return _HOSTILE_MONITORS if getattr(args, 'hostile', False) else 1


def osds(args: argparse.Namespace) -> int | None:
    """Return how many OSDs the cluster of a benchmark has; None for the usual number."""
    return _HOSTILE_OSDS if getattr(args, 'hostile', False) else None


@contextlib.contextmanager
def network(args: argparse.Namespace) -> Iterator[hosts.Network | None]:
    """Yield the network on which primaries and backups have hosts of their own, if they do."""
    if not getattr(args, 'hostile', False):
        yield None
        return
    with hosts.Network(args.port) as own:
        yield own


class RaceLost(RuntimeError):
    """A round ended in a way that the protocol rules out."""


def run(args: argparse.Namespace, network: hosts.Network | None = None) -> dict[str, float]:
    """Race on the cluster of ``args.data``.

    :param network: as :func:`network` yields it

    :returns: counts by kind of primary and outcome, violations, and the window of the fence
    :raises RaceLost: a round violated the protocol; its story is printed, and its journals are
        beside the logs of the cluster
    :raises RoundHangs: a round did not end
    """
    total = args.rounds or (options.QUICK_RACES if args.quick else options.RACES)
    own = ceph.Ceph(args.data)
    places = _hostile_places(own) if args.hostile else [sites.Place(ceph.VOLUMES)]
    results: list[outcomes.Result] = []
    began = time.monotonic()
    with _told(results), tempfile.TemporaryDirectory(prefix='soak') as scratch:
        connect = functools.partial(sites.Site, own.conf, own.admin_conf, pathlib.Path(scratch),
                                    places, kept=own.files.log, network=network)
        # The first one creates what all of them use.
        with connect() as site, _weather(own, site, args) as check:
            for played in crews.Crew(connect, functools.partial(_play, hostile=args.hostile)).run(
                    _tasks(total, args.seed), args.jobs):
                check()
                results.append(played.result)
                print(f'  race {played.task.number + 1}, {len(results)} of {total}: '
                      f'{played.result.kind}, {played.result.outcome}, {played.seconds:.1f} s',
                      flush=True)
                if played.result.violations:
                    print('\n'.join(played.story), flush=True)
    seconds = time.monotonic() - began
    figures = _figures(results) | {'soak.rounds_per_minute': total / seconds * 60}
    if figures['soak.violations']:
        raise RaceLost(f'{figures["soak.violations"]:.0f} of {total} races were lost: see above')
    return figures


@contextlib.contextmanager
def _told(results: list[outcomes.Result]) -> Iterator[None]:
    """Print the outcomes in the end, also after an interruption."""
    try:
        yield
    finally:
        print(outcomes.table(results))
        for attack, times in sorted(collections.Counter(
                attack for result in results for attack in result.attacks).items()):
            print(f'  {times} times: {attack}')


def _tasks(total: int, seed: int) -> list[crews.Task]:
    seeds = random.Random(seed)
    return [crews.Task(number, outcomes.KINDS[number % len(outcomes.KINDS)],
                       seeds.randrange(2**32)) for number in range(total)]


def _play(site: sites.Site, task: crews.Task, story: list[str], *,
          hostile: bool) -> outcomes.Result:
    # Each kind of primary has each kind of volume.
    site.turn = task.number + task.number // len(outcomes.KINDS)
    return scenario.play(site, task.kind, task.seed, story, hostile=hostile)


def _hostile_places(own: ceph.Ceph) -> list[sites.Place]:
    if _ERASURE not in own.pools():
        own.create_pool(_ERASURE, pg_num=_ERASURE_GROUPS, erasure=True)
        own.wait_clean()
    return [sites.Place(ceph.VOLUMES), sites.Place(ceph.VOLUMES, clone=True),
            sites.Place(ceph.VOLUMES, namespace='race'),
            sites.Place(ceph.VOLUMES, data_pool=_ERASURE),
            sites.Place(ceph.VOLUMES, data_pool=_ERASURE, clone=True)]


@contextlib.contextmanager
def _weather(own: ceph.Ceph, site: sites.Site, args: argparse.Namespace
             ) -> Iterator[Callable[[], None]]:
    """Let accidents happen, and yield what raises an error if they have ended."""
    if not args.hostile:
        yield lambda: None
        return
    accidents = weather.Weather(own, site.command, ceph.VOLUMES, args.seed)
    try:
        with accidents:
            yield accidents.check
    finally:
        for accident, times in accidents.happened.items():
            print(f'  {times} times: {accident.value}')


def _figures(results: list[outcomes.Result]) -> dict[str, float]:
    figures: dict[str, float] = {
        'soak.rounds': len(results),
        'soak.violations': sum(bool(result.violations) for result in results),
        'soak.exposed': sum(bool(result.exposed) for result in results),
    }
    for kind in outcomes.KINDS:
        for outcome in outcomes.OUTCOMES:
            figures[f'soak.{kind}.{outcome}'] = outcomes.count(results, kind, outcome)
    window = outcomes.window_ms(results)
    if window is not None:
        figures['soak.window_ms'] = window
    return figures
