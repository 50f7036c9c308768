# SPDX-License-Identifier: Apache-2.0
"""Measure how long a merge takes, and what it costs a writer."""

from collections.abc import Sequence
from concurrent import futures
import contextlib
import dataclasses
import time

from bench import environment
from bench import fio
from bench import images
from bench import plots
from bench import stats
from bench import variants
from bench import writer
from specreds_cinder import superposition as sp

_MIB = images.MIB
_BASE = 1024 * _MIB
# What the backup wrote before promotion; the writer's own part comes on top of it.
_WRITTEN = 128 * _MIB
_FILE = 64 * _MIB
_QUICK_SIZES = (16 * _MIB, 64 * _MIB, 256 * _MIB)
_FULL_SIZES = (*_QUICK_SIZES, 1024 * _MIB)
_WARM_UP = 1.5
_BEFORE = 4.0
_AFTER = 4.0
# The way back: bytes that the backup wrote, MiB per second that its guest writes from then on, and
# the merges beside a neighbour, with the seconds for which it is looked at.
_SMALL = 100 * _MIB
_RATES = (8, 50)
_MERGES = 10
_NEIGHBOUR_S = 6
_COLOURS = {'online': '#c44e52', 'offline': '#4c72b0'}


@dataclasses.dataclass(frozen=True)
class Course:
    """A writer over a merge.

    :param points: its writes per second over time, in seconds since the merge began
    :param seconds: how long the merge took
    """

    points: Sequence[writer.Point]
    seconds: float
    before: float
    during: float
    after: float


def run(env: environment.Environment) -> dict[str, float]:
    """Measure, and return the figures by their keys."""
    sizes = _QUICK_SIZES if env.quick else _FULL_SIZES
    # Few rounds do: the times hardly vary, and large merges take long.
    rounds = 1 if env.quick else 3
    env.progress.section('merge', 2 + env.rounds + rounds * (len(sizes) * 2 + 1) + len(_RATES))
    env.progress.step(f'filling an image of {_BASE // images.GIB} GiB')
    ref = images.create(env.cluster, 'merge', _BASE + max(sizes))
    images.fill(env.cluster, ref, [(0, _BASE)])
    courses = []
    for number in range(env.rounds):
        env.progress.step(f'online with a writer, round {number + 1} of {env.rounds}')
        courses.append(_course(env, ref))
    times: dict[str, dict[int, list[float]]] = {
        kind: {size: [] for size in sizes} for kind in ('online', 'offline')}
    for _ in range(rounds):
        for size in sizes:
            for kind, ours in times.items():
                env.progress.step(f'{kind}, {size // _MIB} MiB')
                ours[size].append(_time(env, ref, size, online=kind == 'online'))
    if env.figures is not None:
        _draw_course(env, courses)
        _draw_times(env, times, rounds)
    figures = stats.summary([course.during / course.before for course in courses]).entries(
        'merge.throughput_ratio')
    for name in ('before', 'during', 'after'):
        figures[f'merge.{name}_iops'] = stats.summary(
            [getattr(course, name) for course in courses]).median
    figures['merge.with_writer_s'] = stats.summary([course.seconds for course in courses]).median
    for kind, ours in times.items():
        for size, seconds in ours.items():
            figures[f'merge.{kind}.{size // _MIB}mib_s'] = stats.summary(seconds).median
    return figures | _ways_back(env, ref) | _neighbour(env)


def _ways_back(env: environment.Environment, ref: sp.VolumeRef) -> dict[str, float]:
    """Measure from the promotion to one version, under writers."""
    losses: list[float] = []
    suspended: list[float] = []
    figures: dict[str, float] = {}
    for _ in range(1 if env.quick else 3):
        env.progress.step('from the promotion to one version, a database')
        way = _way_back(env, ref)
        losses.append(way.loss_s)
        suspended.append(way.suspended_ms)
    for rate in _RATES:
        env.progress.step(f'from the promotion to one version, {rate} MiB/s')
        way = _way_back(env, ref, ('--bs=64k', '--iodepth=4', f'--rate={rate}m'))
        figures[f'merge.under_{rate}mib_per_s_s'] = way.seconds
        figures[f'merge.under_{rate}mib_per_s_suspended_ms'] = way.suspended_ms
    return figures | {'merge.loss_s': stats.summary(losses).median,
                      'merge.suspended_ms': max(suspended)}


@dataclasses.dataclass(frozen=True)
class Way:
    """The way from a promotion to one version.

    :param seconds: how long it took
    :param loss_s: seconds of a plain disk's throughput that the writer did not have meanwhile
    :param suspended_ms: how long the writer stood still
    """

    seconds: float
    loss_s: float
    suspended_ms: float


def _way_back(env: environment.Environment, ref: sp.VolumeRef,
              options: Sequence[str] | None = None) -> Way:
    with variants.superposed(env, ref) as record, \
            variants.overlay_export(env, record) as export:
        _prepare(env, export.uri, _SMALL)
        backup = sp.QmpBackup(env.cluster, str(export.monitor), [variants.PREFIX],
                              quiesce=lambda quiet: busy.quiesce(quiet))
        # The writer touches what the backup has written, and as much that it has not.
        busy = writer.Writer(export.uri, 0, 2 * _SMALL, env.scratch,
                             *(() if options is None else (options,)))
        writer.pause(_WARM_UP)
        env.protocol.collapse(record, backup=backup)
        promoted = time.time()
        env.protocol.merge(record, backup=backup)
        merged = time.time()
        ended = writer.pause(_AFTER)
        points = busy.end()
        plain = writer.rate(points, merged, ended)
        lost = 1 - writer.rate(points, promoted, merged) / plain if plain else 0.0
        return Way(merged - promoted, max(0.0, lost * (merged - promoted)),
                   busy.suspended_s * 1e3)


def _neighbour(env: environment.Environment) -> dict[str, float]:
    """Measure the latency of a neighbour on the same Ceph during ten merges."""
    env.progress.step(f'a neighbour beside {_MERGES} merges')
    other = images.create(env.cluster, 'neighbour', 256 * _MIB)
    refs = [images.create(env.cluster, f'merged-{number}', _BASE) for number in range(_MERGES)]
    with contextlib.ExitStack() as stack:
        uri = stack.enter_context(variants.plain_export(env, other)).uri
        pairs = []
        for ref in refs:
            record = stack.enter_context(variants.superposed(env, ref))
            export = stack.enter_context(variants.overlay_export(env, record))
            _prepare(env, export.uri, (_SMALL // 4) if env.quick else _SMALL)
            backup = sp.QmpBackup(env.cluster, str(export.monitor), [variants.PREFIX],
                                  quiesce=lambda _quiet: None)
            env.protocol.collapse(record, backup=backup)
            pairs.append((record, backup))
        before = _latency(env, uri)
        with futures.ThreadPoolExecutor(_MERGES) as executor:
            merges = [executor.submit(env.protocol.merge, record, backup)
                      for record, backup in pairs]
            during = _latency(env, uri)
            for merge in merges:
                merge.result()
    return {'merge.neighbour_p99_ratio': during / before}


def _latency(env: environment.Environment, uri: str) -> float:
    result, = fio.run([fio.Job('neighbour', uri, {
        'rw': 'randwrite', 'bs': '4k', 'iodepth': 1, 'size': 128 * _MIB, 'time_based': 1,
        'runtime': _NEIGHBOUR_S})], env.scratch)
    return stats.percentile(result.bins(), 99)


def _course(env: environment.Environment, ref: sp.VolumeRef) -> Course:
    with variants.superposed(env, ref) as record, \
            variants.overlay_export(env, record) as export:
        # The writer overwrites an existing file, so that its load is the same all the time.
        _prepare(env, export.uri, _WRITTEN + _FILE)
        backup = sp.QmpBackup(env.cluster, str(export.monitor), [variants.PREFIX],
                                   quiesce=lambda quiet: busy.quiesce(quiet))
        env.protocol.collapse(record, backup=backup)
        busy = writer.Writer(export.uri, _WRITTEN, _FILE, env.scratch)
        began = writer.pause(_WARM_UP)
        merging = writer.pause(_BEFORE)
        env.protocol.merge(record, backup=backup)
        merged = time.time()
        ended = writer.pause(_AFTER)
        points = busy.end()
        return Course([(at - merging, value) for at, value in points], merged - merging,
                      writer.rate(points, began, merging), writer.rate(points, merging, merged),
                      writer.rate(points, merged, ended))


def _prepare(env: environment.Environment, uri: str, size: int) -> None:
    fio.run([fio.Job('written', uri, {'rw': 'write', 'bs': '64k', 'iodepth': 8, 'size': size,
                                      'end_fsync': 1})], env.scratch)


def _time(env: environment.Environment, ref: sp.VolumeRef, size: int, online: bool) -> float:
    """Merge an overlay of ``size`` bytes without a rate limit and without a writer."""
    with variants.superposed(env, ref) as record:
        with variants.overlay_export(env, record) as export:
            _prepare(env, export.uri, size)
            backup = sp.QmpBackup(env.cluster, str(export.monitor), [variants.PREFIX],
                                       quiesce=lambda _quiet: None)
            env.protocol.collapse(record, backup=backup)
            if online:
                return _timed(env, record, backup)
        return _timed(env, record, None)


def _timed(env: environment.Environment, record: sp.Record, backup: sp.QmpBackup | None) -> float:
    began = time.monotonic()
    env.protocol.merge(record, backup=backup, rate=0)
    return time.monotonic() - began


def _draw_course(env: environment.Environment, courses: Sequence[Course]) -> None:
    assert env.figures is not None
    typical = sorted(courses, key=lambda course: course.during / course.before)[len(courses) // 2]
    with plots.drawing(
            env.figures / 'merge-writer.png', 'A writer before, during and after the merge',
            f'8 KiB write + fsync, {(_WRITTEN + _FILE) // _MIB} MiB to merge; '
            f'the run with the median ratio of {len(courses)}') as (plot,):
        plot.axvspan(0, typical.seconds, color='#dddddd', label='merge runs')
        plot.plot([at for at, _ in typical.points], [value for _, value in typical.points],
                  color=_COLOURS['online'], label='writer')
        for name, begin, end, value in (
                ('before', -_BEFORE, 0.0, typical.before),
                ('during', 0.0, typical.seconds, typical.during),
                ('after', typical.seconds, typical.seconds + _AFTER, typical.after)):
            plot.hlines(value, begin, end, color='black', linewidth=1)
            plot.annotate(f'{name}: {plots.number_text(value)}/s', ((begin + end) / 2, value),
                          ha='center', va='bottom', fontsize=8)
        plots.label(plot, 'time since the merge began (s)', 'writes, each with fsync, per second',
                    room=1.15)


def _draw_times(env: environment.Environment, times: dict[str, dict[int, list[float]]],
                rounds: int) -> None:
    assert env.figures is not None
    with plots.drawing(env.figures / 'merge-time.png', 'Duration of a merge by bytes written',
                       f'no rate limit, no writer; n={rounds} each') as (plot,):
        plots.groups(plot, [
            plots.Series(f'{kind} merge', _COLOURS[kind],
                         {float(size): stats.summary(seconds) for size, seconds in ours.items()})
            for kind, ours in times.items()],
            {float(size): f'{size // _MIB}' for size in times['online']})
        plots.label(plot, 'written to the overlay (MiB)', 'time (s)', room=1.15)
