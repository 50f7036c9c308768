# SPDX-License-Identifier: Apache-2.0
"""The command line of ``./run simulate``."""

import argparse
from collections.abc import Iterator
import contextlib
import itertools
import json
import multiprocessing
import os
import pathlib
import shlex
import sys
import time

from testing.simulation import mutations
from testing.simulation import play
from testing.simulation import schedule as schedules
from testing.simulation import shrink

_DESCRIPTION = """\
Simulate clouds in which hosts, links, engines, brokers and services fail as a seed says, and check
that no acknowledged write is lost, no server is seen twice, and all servers serve in the end.
"""
_EPILOG = """\
A seed that fails is reduced to the faults that it needs. ./run simulate --seed SEED --show prints
what happens in it.
"""
# Seeds that a process of its own plays at a time, and seconds between two lines of progress.
_CHUNK = 20
_PROGRESS = 10.0


def main() -> int:
    """Return the exit status: 1 if a seed fails or, with a mutation, none does."""
    args = _parser().parse_args()
    if os.environ.get('PYTHONHASHSEED') != '0':
        # The order of sets is part of what a seed determines.
        os.execve(sys.executable, [sys.executable, '-W', 'ignore', '-m', 'testing.simulation',
                                   *sys.argv[1:]], os.environ | {'PYTHONHASHSEED': '0'})
    if args.list:
        for mutation in mutations.MUTATIONS.values():
            print(f'{mutation.name:30} {mutation.seed:>6}  {mutation.words}'
                  + (f' ({",".join(mutation.mix)})' if mutation.mix else ''))
        return 0
    if args.seed is not None:
        return _one(args)
    if args.mutations:
        return _mutations(args)
    return _many(args)


def _one(args: argparse.Namespace) -> int:
    """Play one seed, and show it if it fails or that is asked for."""
    with _mutated(args.mutation):
        schedule = schedules.generate(args.seed, _mix(args))
        result = play.play(schedule, show=args.show and not args.shrink)
        if result.wrong and args.shrink:
            schedule, result = _shrunk(schedule, result)
        _show(schedule, result)
    return 1 if result.wrong else 0


def _many(args: argparse.Namespace) -> int:
    began = said = time.monotonic()
    played, failures, seconds = 0, [], 0.0
    seeds = range(args.first, args.first + args.seeds)
    for seed, kind, simulated in _results(seeds, args.jobs, args.mutation, _mix(args)):
        played, seconds = played + 1, seconds + simulated
        if kind:
            failures.append((seed, kind))
            print(f'seed {seed} fails: {kind}', flush=True)
            if len(failures) >= args.most or args.mutation:
                break
        now = time.monotonic()
        if now - said >= _PROGRESS:
            said = now
            print(f'{played} of {args.seeds} seeds, {played / (now - began):.1f} seeds/s, '
                  f'{len(failures)} failed', file=sys.stderr, flush=True)
    took = time.monotonic() - began
    for seed, _ in failures[:1]:
        with _mutated(args.mutation):
            schedule = schedules.generate(seed, _mix(args))
            _show(*_shrunk(schedule, play.play(schedule)))
        print(f'show all of it: ./run simulate --seed {seed} --show'
              + (f' --mutation {args.mutation}' if args.mutation else '')
              + (f' --mix {shlex.quote(args.mix)}' if args.mix is not None else ''))
    if args.json:
        args.json.write_text(json.dumps({
            'seeds': float(played), 'failed': float(len(failures)),
            'seeds_per_s': round(played / took, 2),
            'simulated_s_per_s': round(seconds / took, 1)}))
    print(f'{played} seeds in {took:.1f} s, {played / took:.1f} seeds/s, '
          f'{seconds / played:.0f} simulated seconds each: '
          f'{len(failures)} failed')
    return 1 if bool(failures) != bool(args.mutation) else 0


def _mutations(args: argparse.Namespace) -> int:
    """Find a seed for each mutation."""
    missed = 0
    for mutation in mutations.MUTATIONS.values():
        began = time.monotonic()
        first = itertools.chain((mutation.seed,), range(args.first, args.first + args.seeds))
        results = _results(first, args.jobs, mutation.name, mutation.mix)
        seed, wrong, played = next(((seed, kind, number) for number, (seed, kind, _) in
                                    enumerate(results, 1) if kind), (None, '', 0))
        missed += seed is None
        print(f'{mutation.name}: ' + ('not found' if seed is None else
                                      f'seed {seed}, {played} played: {wrong}')
              + f' ({time.monotonic() - began:.0f} s)', flush=True)
    return 1 if missed else 0


def _mix(args: argparse.Namespace) -> tuple[str, ...]:
    """Return the kinds of faults: as given, or as the mutation has them; none for all."""
    if args.mix is not None:
        return tuple(kind for kind in args.mix.split(',') if kind)
    return mutations.MUTATIONS[args.mutation].mix if args.mutation else ()


def _results(seeds: 'range | Iterator[int]', jobs: int, mutation: str | None,
             mix: tuple[str, ...]) -> Iterator[tuple[int, str, float]]:
    """Yield seed, kind of failure and simulated seconds of each seed."""
    work = ((seed, mutation, mix) for seed in seeds)
    if jobs == 1:
        yield from map(_play, work)
        return
    with multiprocessing.get_context('fork').Pool(jobs) as pool:
        yield from pool.imap_unordered(_play, work, _CHUNK)


def _play(work: tuple[int, str | None, tuple[str, ...]]) -> tuple[int, str, float]:
    seed, mutation, mix = work
    with _mutated(mutation):
        result = play.play(schedules.generate(seed, mix))
    return seed, result.wrong[0] if result.wrong else '', result.seconds


def _mutated(name: str | None) -> 'contextlib.AbstractContextManager[object]':
    return mutations.MUTATIONS[name].applied() if name else contextlib.nullcontext()


def _shrunk(schedule: schedules.Schedule, result: play.Result
            ) -> tuple[schedules.Schedule, play.Result]:
    """Return the smallest schedule that fails in the same way, and its result."""
    schedule = shrink.shrink(schedule, lambda smaller: play.play(smaller).kind == result.kind)
    return schedule, play.play(schedule, show=True)


def _show(schedule: schedules.Schedule, result: play.Result) -> None:
    print(f'seed {schedule.seed}: hosts {", ".join(schedule.hosts)}; engines '
          f'{", ".join(schedule.engines)}; {schedule.nodes} broker nodes')
    for name, (host, period, boot) in schedule.servers.items():
        print(f'  {name} on {host}: ' + (f'writes every {period:g} s' if period else 'idle')
              + (f', its backup is ready after {boot:g} s' if boot >= 0 else
                 ', its backup is never ready'))
    for engine, (rate, ahead) in schedule.clocks.items():
        print(f'  clock of {engine}: rate {rate:.3f}, ahead by {ahead:.1f} s')
    if schedule.second_opinion:
        print('  sentinels answer which servers run')
    if schedule.voices:
        print('  engines hear sentinels by datagrams')
    for host, zone in schedule.zones.items():
        print(f'  {host} is in availability zone {zone}')
    for host, rate in schedule.rates.items():
        print(f'  clock of {host}: rate {rate:.3f}')
    for fault in schedule.faults:
        print(f'  {fault}')
    for at, text in result.timeline:
        print(f'{at - 1000.0:8.2f}  {text}')
    print(f'outcomes: {result.outcomes}')
    for wrong in result.wrong:
        print(f'WRONG: {wrong}')


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog='./run simulate', description=_DESCRIPTION, epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--seeds', type=int, default=1000, metavar='N',
                        help='number of seeds (default: %(default)s)')
    parser.add_argument('--from', type=int, default=0, dest='first', metavar='SEED',
                        help='first seed (default: %(default)s)')
    parser.add_argument('--jobs', type=int, default=os.cpu_count() or 1, metavar='N',
                        help='processes (default: %(default)s, the number of processors)')
    parser.add_argument('--most', type=int, default=10, metavar='N',
                        help='end after this many failures (default: %(default)s)')
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE',
                        help='with --seeds: write the counts and rates to FILE')
    parser.add_argument('--seed', type=int, metavar='SEED', help='play this seed alone')
    parser.add_argument('--mix', metavar='KIND,…',
                        help='kinds of faults, each as likely as it is often among them, with a '
                             'colon and a target or without (lost:cinder; empty: a few of all '
                             'kinds; default: kinds of the mutation, or a few of all kinds)')
    parser.add_argument('--show', action='store_true',
                        help='with --seed: print what engines log')
    parser.add_argument('--shrink', action='store_true',
                        help='with --seed: reduce a schedule that fails')
    parser.add_argument('--mutation', choices=sorted(mutations.MUTATIONS), metavar='NAME',
                        help='take out a safety step: then a seed has to fail')
    parser.add_argument('--mutations', action='store_true',
                        help='find a seed for each mutation')
    parser.add_argument('--list', action='store_true',
                        help='list the mutations, each with a seed that finds it')
    return parser
