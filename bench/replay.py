# SPDX-License-Identifier: Apache-2.0
"""A recovery, replayed as fast as the disk allows, as in the paper's Figure 5."""

import dataclasses
import pathlib

from bench import environment
from bench import fio
from bench import images
from bench import plots
from bench import stats
from bench import trace
from bench import variants

VARIANTS = (variants.RBD, variants.CLONE, variants.SUPER, variants.PROMOTED)
_DEPTH = 16


@dataclasses.dataclass(frozen=True)
class Recording:
    """A recovery that was recorded.

    :param operations: what the database did
    :param extents: which parts of the disk held data: offset and length in bytes
    :param size: of the disk, in bytes
    """

    operations: list[trace.Operation]
    extents: list[tuple[int, int]]
    size: int


def find(directory: pathlib.Path | None) -> Recording | None:
    """Return the recording if there is one.

    :param directory: where it should be; None for a directory ``traces`` beside the checkout
    :returns: None if it is not there
    :raises BadTrace: it is damaged, or one of its two files is missing
    """
    if directory is None:
        beside = sorted(pathlib.Path(__file__).absolute().parents[2].glob(
            f'*/traces/{trace.RECORDING}.blktrace.fio'))
        if not beside:
            return None
        directory = beside[0].parent
    path = directory / f'{trace.RECORDING}.blktrace.fio'
    map_path = directory / f'{trace.RECORDING}.omap'
    for file in (path, map_path):
        if not file.exists():
            raise trace.BadTrace(f'there is no {file}')
    omap = map_path.read_text()
    return Recording(trace.load(path), trace.extents(omap, str(map_path)), trace.size(omap))


def run(env: environment.Environment, recording: Recording) -> dict[str, float]:
    """Measure, and return the figures by their keys."""
    env.progress.step('replay: filling the images with what the disk held')
    plain = images.create(env.cluster, 'replay-plain', recording.size)
    base = images.create(env.cluster, 'replay-base', recording.size)
    for ref in (plain, base):
        images.fill(env.cluster, ref, recording.extents)
    images.snapshot(env.cluster, base, variants.SNAPSHOT)
    log = env.scratch / 'recovery.iolog'
    log.write_text(trace.iolog(recording.operations))
    seconds: dict[str, list[float]] = {variant: [] for variant in VARIANTS}
    for number in range(env.rounds):
        turn = number % len(VARIANTS)
        for variant in VARIANTS[turn:] + VARIANTS[:turn]:
            env.progress.step(f'replay, round {number + 1} of {env.rounds}: {variant}')
            with variants.opened(env, variant, plain, base) as export:
                result = fio.run([fio.replay('replay', export.uri, log, _DEPTH)], env.scratch)[0]
            seconds[variant].append(result.seconds)
    if env.figures is not None:
        _draw(env, seconds)
    return _figures(seconds)


def steps(env: environment.Environment) -> int:
    """Return the number of steps that it reports."""
    return 1 + env.rounds * len(VARIANTS)


def _figures(seconds: dict[str, list[float]]) -> dict[str, float]:
    names = {variants.CLONE: 'clone', variants.SUPER: 'speculative',
             variants.PROMOTED: 'promoted'}
    figures = {'disk.replay_p100m.rbd_s': stats.summary(seconds[variants.RBD]).median}
    for variant, name in names.items():
        figures[f'disk.replay_p100m.{name}_s'] = stats.summary(seconds[variant]).median
        figures |= stats.ratios(seconds[variant], seconds[variants.RBD]).entries(
            f'disk.replay_p100m.{name}_over_rbd')
    return figures


def _draw(env: environment.Environment, seconds: dict[str, list[float]]) -> None:
    assert env.figures is not None
    with plots.drawing(
            env.figures / 'disk-replay.png',
            'Replay of a PostgreSQL recovery (scale 2, 100 MB of WAL)',
            f'as fast as possible, {_DEPTH} requests in flight; medians of {env.rounds} '
            'interleaved rounds, whiskers: quartiles') as (plot,):
        plots.bars(plot, [plots.Series(variants.LABELS[variant], variants.COLOURS[variant],
                                       {0: stats.summary(values)})
                          for variant, values in seconds.items()])
        plots.label(plot, '', 'replay time (s)')
