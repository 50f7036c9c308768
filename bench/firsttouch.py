# SPDX-License-Identifier: Apache-2.0
"""First-touch latency, as in the paper's Figure 4.

An operation is the first one to its object in a fresh clone or overlay, at a random place in it:
what copy-on-write costs, it costs each time. One write before the first cell is not counted: for
an overlay it also makes the L2 table of the surrounding GiB, which 8,192 clusters share.

A cache of 32 MiB, which an overlay has and a plain disk with ``cache=writeback`` too, takes all of
that. So there are two more measurements: of 256 MiB, and of the first writes after all caches were
emptied.
"""

from collections.abc import Iterator, Sequence
import dataclasses
import pathlib
import random

from bench import environment
from bench import fio
from bench import images
from bench import plots
from bench import stats
from bench import trace
from bench import variants
from specreds_cinder import superposition as sp

VARIANTS = (variants.RBD, variants.WRITEBACK, variants.CLONE, variants.SUPER, variants.UNCACHED)
# What is measured of 256 MiB, and with cold caches.
_FEW = (variants.RBD, variants.WRITEBACK, variants.SUPER)
_FEW_ROUNDS = 3


@dataclasses.dataclass(frozen=True)
class Cell:
    """One measurement of a round.

    :param size: bytes of each write
    :param depth: writes in flight
    """

    size: int
    depth: int


_KIB = 1 << 10
SIZES = tuple(size * _KIB for size in (4, 8, 16, 32, 64))
DEPTHS = (1, 2, 4, 8, 16, 32)
# The share of the image's objects that each gets.
_WEIGHTS = {
    Cell(4 * _KIB, 1): 8, Cell(4 * _KIB, 2): 3, Cell(4 * _KIB, 4): 3, Cell(4 * _KIB, 8): 8,
    Cell(4 * _KIB, 16): 16, Cell(4 * _KIB, 32): 14, **{Cell(size, 1): 3 for size in SIZES[1:]}}
CELLS = tuple(_WEIGHTS)
# Clusters of an overlay that are written first by turns, 256 MiB of them, and writes in flight.
_CLUSTER = 64 * _KIB
_LARGE, _LARGE_DEPTH = 256 << 20, 16
# Writes with cold caches, each to an object of its own.
_COLD = 32
_OSDS = 3
_DROP_CACHES = pathlib.Path('/proc/sys/vm/drop_caches')
_NAMES = {variants.RBD: 'rbd', variants.WRITEBACK: 'writeback', variants.CLONE: 'clone',
          variants.SUPER: 'super', variants.UNCACHED: 'uncached'}
# Means of a round by variant, cell and round, in milliseconds.
Means = dict[str, dict[Cell, list[float]]]
Bins = dict[str, list[dict[int, int]]]


def run(env: environment.Environment, plain: sp.VolumeRef, base: sp.VolumeRef,
        size: int) -> dict[str, float]:
    """Measure, and return the figures by their keys.

    :param size: of both images, in bytes; all of their objects exist
    """
    means: Means = {variant: {cell: [] for cell in CELLS} for variant in VARIANTS}
    written: Bins = {variant: [] for variant in VARIANTS}
    read: Bins = {variant: [] for variant in VARIANTS}
    for number in range(env.rounds):
        # The order of the variants rotates from round to round.
        turn = number % len(VARIANTS)
        for variant in VARIANTS[turn:] + VARIANTS[:turn]:
            env.progress.step(f'first touch, round {number + 1} of {env.rounds}: {variant}')
            with variants.opened(env, variant, plain, base) as export:
                results = fio.run(list(_jobs(env, export.uri, size, number)), env.scratch)
            for cell, result in zip(CELLS, results[1:-1], strict=True):
                means[variant][cell].append(result.mean_ms())
            written[variant].append(results[1].bins('write'))
            read[variant].append(results[-1].bins('read'))
    if env.figures is not None:
        _draw(env, means, written, read)
    return dict(_figures(means)) | _few(env, plain, base, size)


def steps(env: environment.Environment) -> int:
    """Return the number of steps that it reports."""
    return env.rounds * len(VARIANTS) + 2 * _FEW_ROUNDS * len(_FEW)


def _few(env: environment.Environment, plain: sp.VolumeRef, base: sp.VolumeRef,
         size: int) -> dict[str, float]:
    """Measure 256 MiB, and the first writes with cold caches."""
    large: dict[str, list[float]] = {variant: [] for variant in _FEW}
    cold: dict[str, list[float]] = {variant: [] for variant in _FEW}
    for number in range(_FEW_ROUNDS):
        for variant in _FEW[number:] + _FEW[:number]:
            rng = random.Random(number)
            env.progress.step(f'first touch of 256 MiB, round {number + 1} of {_FEW_ROUNDS}: '
                              f'{variant}')
            clusters = rng.sample(range(size // _CLUSTER), _LARGE // _CLUSTER)
            operations = [trace.Operation(trace.WRITE, cluster * _CLUSTER, _CLUSTER)
                          for cluster in clusters]
            with variants.opened(env, variant, plain, base) as export:
                job = _replay(env, 'large', export.uri, operations, _LARGE_DEPTH)
                large[variant].append(fio.run([job], env.scratch)[0].mean_ms())
            env.progress.step(f'first touch with cold caches, round {number + 1} of '
                              f'{_FEW_ROUNDS}: {variant}')
            operations = [_operation(rng, trace.WRITE, place, SIZES[0])
                          for place in rng.sample(range(size // images.OBJECT), _COLD)]
            with variants.opened(env, variant, plain, base) as export:
                _empty_caches(env)
                job = _replay(env, 'cold', export.uri, operations, 1)
                cold[variant].append(fio.run([job], env.scratch)[0].mean_ms())
    return (_compared('disk.first_touch_256mib', large)
            | _compared('disk.first_touch_4k_qd1_cold', cold))


def _compared(key: str, means: dict[str, list[float]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for variant, values in means.items():
        figures[f'{key}.{_NAMES[variant]}_ms'] = stats.summary(values).median
    for reference in (variants.RBD, variants.WRITEBACK):
        figures |= stats.ratios(means[variants.SUPER], means[reference]).entries(
            f'{key}.super_over_{_NAMES[reference]}')
    return figures


def _empty_caches(env: environment.Environment) -> None:
    """Start all OSDs again, and forget what the kernel has read, where that is allowed."""
    for number in range(_OSDS):
        env.ceph.kill_daemon(f'osd.{number}')
        env.ceph.start_daemon(f'osd.{number}')
    env.ceph.wait_clean()
    try:
        _DROP_CACHES.write_text('3')
    except PermissionError:
        env.progress.say('this is not root: the caches of the kernel stay warm')


def _jobs(env: environment.Environment, uri: str, size: int, seed: int) -> Iterator[fio.Job]:
    """Return the jobs of each cell, on objects of its own; all variants of a round share them."""
    rng = random.Random(seed)
    objects = list(range(size // images.OBJECT))
    rng.shuffle(objects)
    untouched = iter(objects)
    first = [_operation(rng, trace.WRITE, next(untouched), SIZES[0])]
    yield _replay(env, 'first', uri, first, 1)
    for number, cell in enumerate(CELLS):
        count = (len(objects) - 1) * _WEIGHTS[cell] // sum(_WEIGHTS.values())
        operations = [_operation(rng, trace.WRITE, next(untouched), cell.size)
                      for _ in range(count)]
        yield _replay(env, f'cell{number}', uri, operations, cell.depth)
    operations = [_operation(rng, trace.READ, number, SIZES[0]) for number in objects]
    yield _replay(env, 'read', uri, operations, 1)


def _operation(rng: random.Random, kind: str, number: int, size: int) -> trace.Operation:
    place = rng.randrange(images.OBJECT // size) * size
    return trace.Operation(kind, number * images.OBJECT + place, size)


def _replay(env: environment.Environment, name: str, uri: str,
            operations: Sequence[trace.Operation], depth: int) -> fio.Job:
    path = env.scratch / f'{name}.iolog'
    path.write_text(trace.iolog(operations))
    return fio.replay(name, uri, path, depth)


def _figures(means: Means) -> Iterator[tuple[str, float]]:
    for cell in CELLS:
        key = f'disk.first_touch_{cell.size // _KIB}k_qd{cell.depth}'
        reference = means[variants.RBD][cell]
        yield f'{key}.rbd_ms', stats.summary(reference).median
        for variant in VARIANTS[1:]:
            name = _NAMES[variant]
            yield f'{key}.{name}_ms', stats.summary(means[variant][cell]).median
            yield from stats.ratios(means[variant][cell], reference).entries(
                f'{key}.{name}_over_rbd').items()
        yield from stats.ratios(means[variants.SUPER][cell], means[variants.WRITEBACK][cell]
                                ).entries(f'{key}.super_over_writeback').items()


def _draw(env: environment.Environment, means: Means, written: Bins, read: Bins) -> None:
    assert env.figures is not None
    note = (f'each write is the first to its 4 MiB object; medians of {env.rounds} interleaved '
            'rounds, whiskers: quartiles')
    with plots.drawing(env.figures / 'disk-first-touch-by-size.png',
                       'First-touch write latency by size, queue depth 1', note) as (plot,):
        plots.groups(plot, _series(means, {Cell(size, 1): size for size in SIZES}),
                     {size: f'{size // _KIB}' for size in SIZES})
        plots.label(plot, 'size of a write (KiB)', 'mean latency (ms, logarithmic)', log=True,
                    room=5)
    with plots.drawing(env.figures / 'disk-first-touch-by-depth.png',
                       'First-touch 4 KiB write latency by concurrency', note) as (plot,):
        plots.lines(plot, _series(means, {Cell(SIZES[0], depth): depth for depth in DEPTHS}),
                    {depth: str(depth) for depth in DEPTHS})
        plots.label(plot, 'writes in flight', 'mean latency (ms, logarithmic)', log=True)
    with plots.drawing(env.figures / 'disk-latency-cdf.png',
                       'Latency of first-touch 4 KiB operations, queue depth 1',
                       f'all operations of {env.rounds} rounds', panels=2) as panels:
        for plot, name, bins in zip(panels, ('write', 'read'), (written, read), strict=True):
            for variant in VARIANTS:
                merged = stats.merge_bins(bins[variant])
                latencies, shares = stats.cumulative(merged)
                plot.plot([latency / 1e6 for latency in latencies], shares,
                          color=variants.COLOURS[variant],
                          label=f'{variants.LABELS[variant]}, n={sum(merged.values())}')
            plot.set_xscale('log')
            plots.label(plot, f'{name} latency (ms, logarithmic)', 'share of operations')


def _series(means: Means, cells: dict[Cell, int]) -> list[plots.Series]:
    return [plots.Series(variants.LABELS[variant], variants.COLOURS[variant],
                         {x: stats.summary(means[variant][cell]) for cell, x in cells.items()})
            for variant in VARIANTS]
