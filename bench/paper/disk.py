# SPDX-License-Identifier: Apache-2.0
"""Figures 4 and 5: the disk, with objects of 64 KiB as in the paper, and of 4 MiB as in Cinder.

With 64 KiB everything is measured here; with 4 MiB by ``bench disk``'s own parts
(:mod:`bench.firsttouch`, :mod:`bench.replay`), whose keys are in the JSON, too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import pathlib
import random

import rbd

from bench import environment
from bench import fio
from bench import firsttouch
from bench import images
from bench import replay
from bench import stats
from bench import trace
from bench import variants
from specreds_cinder import superposition as sp

VARIANTS = (variants.RBD, variants.SUPER, variants.CLONE)
NAMES = {variants.RBD: 'rbd', variants.SUPER: 'super', variants.CLONE: 'clone'}
# Its parts, beside the recordings.
FIRST_TOUCH, CINDER_FIRST_TOUCH, CINDER_REPLAY = 'first', 'cinder-first', 'cinder-replay'
_KIB = 1 << 10
_ORDER, OBJECT = 16, 64 * _KIB
_SIZE = 128 * images.MIB
_PLACE = 4 * _KIB
SIZES = (4, 8, 16, 32, 48, 64)
DEPTHS = (1, 2, 4, 8, 16, 32)
_PER_SIZE, _PER_DEPTH = 100, {2: 120, 4: 160, 8: 200, 16: 280, 32: 350}
PERCENTILES = (80.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_DEPTH = 16
_LARGEST = 2 * images.GIB
# Of the images of 4 MiB objects.
_TOUCHED = 1 * images.GIB
# The paper's names of the recordings in its artifact: application, WAL, how the primary ended.
RECORDINGS = {
    'p100m': (trace.RECORDING, 'P/100M-postgres'),
    's100m': ('pg-sf2-cwal100m-stop', 'S/100M-postgres'),
    'p500m': ('pg-sf32-cwal500m-panic', 'P/500M-postgres'),
    'p300m': ('mysql-sf32-cwal300m-panic', 'P/300M-mysql')}
_CELLS = {**{firsttouch.Cell(size * _KIB, 1): _PER_SIZE for size in SIZES},
          **{firsttouch.Cell(SIZES[0] * _KIB, depth): count
             for depth, count in _PER_DEPTH.items()}}
Means = dict[firsttouch.Cell, dict[str, list[float]]]


def recordings(directory: pathlib.Path | None, quick: bool) -> dict[str, replay.Recording]:
    """Return the recordings to replay, by their short names.

    :param directory: where the artifact's ``trace`` is; None for where ``bench disk`` looks
    :param quick: only of disks that do not take long to be filled
    :raises BadTrace: one is damaged
    """
    if directory is None:
        known = replay.find(None)
        return {} if known is None else {'p100m': known}
    by_name = {}
    for short, (name, _) in RECORDINGS.items():
        path, omap = directory / f'{name}.blktrace.fio', directory / f'{name}.omap'
        if path.exists() and omap.exists():
            text = omap.read_text()
            held = sum(length for _, length in trace.extents(text, str(omap)))
            if quick and held > _LARGEST:
                continue
            by_name[short] = replay.Recording(trace.load(path), trace.extents(text, str(omap)),
                                              trace.size(text))
    return by_name


def missing(figures: Mapping[str, object], recorded: Mapping[str, replay.Recording]
            ) -> list[str]:
    """Return the parts that are missing, in the order in which they are measured."""
    parts = {FIRST_TOUCH: 'paper.fig4.size_4k.rbd_ms',
             **{short: f'paper.fig5.{short}.rbd_s' for short in recorded},
             CINDER_FIRST_TOUCH: 'disk.first_touch_4k_qd1.rbd_ms'}
    if 'p100m' in recorded:
        parts[CINDER_REPLAY] = 'disk.replay_p100m.rbd_s'
    return [part for part, key in parts.items() if key not in figures]


def steps(env: environment.Environment, parts: Sequence[str]) -> int:
    """Return the number of steps that the measurements will report."""
    theirs = {CINDER_FIRST_TOUCH: 1 + firsttouch.steps(env), CINDER_REPLAY: replay.steps(env)}
    return sum(theirs.get(part, 1 + env.rounds * len(VARIANTS)) for part in parts)


def run(env: environment.Environment, recorded: Mapping[str, replay.Recording],
        parts: Sequence[str], keep: Callable[[dict[str, float]], None]) -> None:
    """Measure parts of Figures 4 and 5.

    :param parts: of those that :func:`missing` names
    :param keep: is given the figures of each as soon as they are known
    """
    env.progress.section('paper', steps(env, parts))
    for part in parts:
        if part == FIRST_TOUCH:
            env.progress.step(f'Figure 4: filling two images of {_SIZE // images.MIB} MiB')
            keep(_first_touch(env, *_pair(env, 'first', _SIZE, [(0, _SIZE)])))
        elif part == CINDER_FIRST_TOUCH:
            keep(_cinder_first_touch(env))
        elif part == CINDER_REPLAY:
            keep(replay.run(env, recorded['p100m']))
        else:
            env.progress.step('Figure 5: filling two images with what the disk of '
                              f'{RECORDINGS[part][1]} held')
            keep(_replay(env, part, recorded[part]))


def _cinder_first_touch(env: environment.Environment) -> dict[str, float]:
    env.progress.step('Figure 4: filling two images of 1 GiB, with objects of 4 MiB')
    plain = images.create(env.cluster, 'paper-touched-plain', _TOUCHED)
    base = images.create(env.cluster, 'paper-touched-base', _TOUCHED)
    for ref in (plain, base):
        images.fill(env.cluster, ref, [(0, _TOUCHED)])
    images.snapshot(env.cluster, base, variants.SNAPSHOT)
    return firsttouch.run(env, plain, base, _TOUCHED)


def percentile(bins: Mapping[int, int], percent: float) -> float:
    """Return the latency within which so many percent of the requests were answered, in ms.

    :param bins: how many took how many nanoseconds; not empty
    """
    latencies, shares = stats.cumulative(bins)
    return next((latency for latency, share in zip(latencies, shares, strict=True)
                 if 100 * share >= percent), latencies[-1]) / 1e6


def _pair(env: environment.Environment, name: str, size: int,
          extents: list[tuple[int, int]]) -> tuple[sp.VolumeRef, sp.VolumeRef]:
    """Make two images of 64 KiB objects with the same contents; the second has a snapshot."""
    refs = []
    for kind in ('plain', 'base'):
        ref = sp.VolumeRef('volumes', '', f'paper-{name}-{kind}')
        with env.cluster.ioctx(ref.pool) as io:
            rbd.RBD().create(io, ref.image, size, order=_ORDER, old_format=False,
                             features=rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_EXCLUSIVE_LOCK
                             | rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_FAST_DIFF
                             | rbd.RBD_FEATURE_DEEP_FLATTEN)
        images.fill(env.cluster, ref, extents)
        refs.append(ref)
    images.snapshot(env.cluster, refs[1], variants.SNAPSHOT)
    return refs[0], refs[1]


def _turns(env: environment.Environment, what: str) -> Iterator[str]:
    """Yield the kinds of disk of each round; each round begins with another kind."""
    for number in range(env.rounds):
        turn = number % len(VARIANTS)
        for variant in VARIANTS[turn:] + VARIANTS[:turn]:
            env.progress.step(f'{what}, round {number + 1} of {env.rounds}: {variant}')
            yield variant


def _first_touch(env: environment.Environment, plain: sp.VolumeRef, base: sp.VolumeRef
                 ) -> dict[str, float]:
    means: Means = {cell: {variant: [] for variant in VARIANTS} for cell in _CELLS}
    for number, variant in enumerate(_turns(env, 'Figure 4')):
        with variants.opened(env, variant, plain, base) as export:
            jobs = list(_jobs(env, export.uri, number // len(VARIANTS)))
            for cell, result in zip(_CELLS, fio.run(jobs, env.scratch)[1:], strict=True):
                means[cell][variant].append(result.mean_ms())
    figures: dict[str, float] = {}
    for cell, ours in means.items():
        for variant, values in ours.items():
            keys = ([f'size_{cell.size // _KIB}k'] if cell.depth == 1 else []) + (
                [f'depth_{cell.depth}'] if cell.size == SIZES[0] * _KIB else [])
            for key in keys:
                figures |= stats.summary(values).entries(
                    f'paper.fig4.{key}.{NAMES[variant]}_ms')
    return figures


def _jobs(env: environment.Environment, uri: str, seed: int) -> Iterator[fio.Job]:
    """Assign objects to each cell; all disks of a round get the same operations."""
    chance = random.Random(seed)
    objects = list(range(_SIZE // OBJECT))
    chance.shuffle(objects)
    untouched = iter(objects)
    # The first write makes the overlay's table, and does not count.
    for number, (cell, count) in enumerate([(firsttouch.Cell(_PLACE, 1), 1), *_CELLS.items()]):
        places = (OBJECT - cell.size) // _PLACE + 1
        operations = [trace.Operation(
            trace.WRITE, next(untouched) * OBJECT + chance.randrange(places) * _PLACE, cell.size)
            for _ in range(count)]
        path = env.scratch / f'paper{number}.iolog'
        path.write_text(trace.iolog(operations))
        yield fio.replay(f'paper{number}', uri, path, cell.depth)


def _replay(env: environment.Environment, short: str, recording: replay.Recording
            ) -> dict[str, float]:
    plain, base = _pair(env, short, recording.size, recording.extents)
    log = env.scratch / f'{short}.iolog'
    log.write_text(trace.iolog(recording.operations))
    seconds: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    bins: dict[tuple[str, str], list[dict[int, int]]] = {}
    for variant in _turns(env, f'Figure 5, {RECORDINGS[short][1]}'):
        with variants.opened(env, variant, plain, base) as export:
            result = fio.run([fio.replay('replay', export.uri, log, _DEPTH)], env.scratch)[0]
        seconds[variant].append(result.seconds)
        for kind in ('read', 'write'):
            bins.setdefault((kind, variant), []).append(result.bins(kind))
    figures: dict[str, float] = {}
    for variant, values in seconds.items():
        figures |= stats.summary(values).entries(f'paper.fig5.{short}.{NAMES[variant]}_s')
    if short == 'p100m':
        figures |= tails(bins)
    return figures


def tails(bins: Mapping[tuple[str, str], list[dict[int, int]]]) -> dict[str, float]:
    """Return the latencies of Figure 4 c and d.

    :param bins: of each round, by kind of operation and of disk
    """
    figures: dict[str, float] = {}
    for (kind, variant), ours in bins.items():
        merged = stats.merge_bins(ours)
        if merged:
            figures |= {f'paper.fig4.replay_{kind}.p{percent:g}.{NAMES[variant]}_ms':
                        percentile(merged, percent) for percent in PERCENTILES}
    return figures
