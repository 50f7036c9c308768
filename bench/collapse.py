# SPDX-License-Identifier: Apache-2.0
"""Measure how long collapse takes, by part: make durable, sweep, fence, sweep, commit."""

from concurrent import futures
import time

from bench import environment
from bench import fio
from bench import images
from bench import plots
from bench import primary
from bench import stats
from bench import variants
from specreds_cinder import superposition as sp

_QUICK = (1024, 6400, 25600)
_FULL = (1024, 3200, 6400, 12800, 25600)
_LARGEST = 25600
_WRITTEN = 16 << 20
_SERVERS = 60
# Servers of a host that is dead for sure, each with one volume.
_DEAD = 100
# A volume of 1 TiB, whose map says that all objects exist though none does: the client has as much
# to do.
_MAPPED = 1 << 18
_FULL_PASSES = 3
PARTS = ('durable', 'sweep 1', 'fence', 'sweep 2', 'commit', 'the rest')
Reports = dict[int, list[sp.CollapseReport]]


def run(env: environment.Environment) -> dict[str, float]:
    """Measure, and return the figures by their keys."""
    counts = _QUICK if env.quick else _FULL
    env.progress.section('collapse', 4 + 2 * env.rounds * len(counts))
    env.progress.step(f'making volumes of up to {_LARGEST:,} objects')
    refs = {count: images.populated(env.cluster, count) for count in counts}
    reports: Reports = {count: [] for count in counts}
    answered: Reports = {count: [] for count in counts}
    for number in range(env.rounds):
        for count in counts:
            for hangs, ours in ((True, reports), (False, answered)):
                env.progress.step(f'{count:,} objects, primary {"hangs" if hangs else "answers"}, '
                                  f'round {number + 1} of {env.rounds}')
                ours[count].append(_collapse(env, refs[count], hangs=hangs))
    if env.figures is not None:
        _draw(env, reports)
    figures = _figures(reports) | _answered(answered)
    figures |= _client(env, refs[_LARGEST]).entries('collapse.sweep_client_us')
    env.progress.step(f'sweeping {_SERVERS} servers at once')
    passes = _passes(env, refs[_LARGEST], 1 if env.quick else _FULL_PASSES)
    figures |= passes.entries('collapse.sixty_servers_pass_s')
    env.progress.step(f'sweeping a volume of {_MAPPED:,} objects')
    large = _client(env, images.mapped(env.cluster, _MAPPED))
    env.progress.step(f'sealing {_DEAD} servers of a dead host at once')
    return figures | large.entries('collapse.large_sweep_client_us') | _sealed(env)


def _passes(env: environment.Environment, ref: sp.VolumeRef, count: int) -> stats.Summary:
    """Return the seconds in which all volumes of the servers of a host are swept once.

    This machine has no room for the volumes of 60 servers. One volume, which is swept by all at
    the same time, costs client and OSDs as many stats.

    :raises RuntimeError: a sweep ended early, because the volume is dirty
    """
    record = env.protocol.super([ref], reason='benchmark')
    times = []
    with futures.ThreadPoolExecutor(_SERVERS) as executor:
        for _ in range(count):
            began = time.monotonic()
            reports = list(executor.map(env.protocol.check, [record] * _SERVERS))
            times.append(time.monotonic() - began)
            if not all(report.clean for report in reports):
                raise RuntimeError(f'a sweep of {ref}, which no client writes to, ended early')
    env.protocol.abort(record)
    return stats.summary(times)


def _sealed(env: environment.Environment) -> dict[str, float]:
    """Return how long it takes to shut a dead host out of its servers' volumes, and to decide.

    :raises RuntimeError: a backup was not promoted
    """
    refs = [images.create(env.cluster, f'dead-{number}', images.GIB) for number in range(_DEAD)]
    for number, ref in enumerate(refs, 1):
        images.own(env.cluster, ref, number)
    events: list[sp.trace.Event] = []
    with futures.ThreadPoolExecutor(_DEAD) as executor, sp.trace.observe(events.append):
        began, cpu = time.monotonic(), time.process_time()
        made = list(executor.map(lambda ref: env.protocol.super([ref], dead=True), refs))
        superposed, cpu = time.monotonic(), time.process_time() - cpu
        outcomes = {report.outcome for report in executor.map(env.protocol.collapse, made)}
        decided = time.monotonic()
    if outcomes != {'promoted'} or not all(record.volumes[0].handed for record in made):
        raise RuntimeError(f'volumes of a dead host were not sealed, or ended {outcomes}')
    spans = [event.at for event in events if event.name in ('fence', 'seal')
             and event.kind == 'span' and event.at <= superposed]
    for record in made:
        env.protocol.merge(record, rate=0)
        images.remove(env.cluster, record.volumes[0].ref)
    return {'collapse.dead_sealed_s': max(spans) - min(spans),
            'collapse.dead_super_s': superposed - began,
            'collapse.dead_super_client_ms': cpu / _DEAD * 1e3,
            'collapse.dead_decided_s': decided - superposed}


def _client(env: environment.Environment, ref: sp.VolumeRef) -> stats.Summary:
    """Return the processor time of this process for each object of a sweep, in microseconds.

    :raises RuntimeError: a sweep ended early, because the volume is dirty
    """
    record = env.protocol.super([ref], reason='benchmark')
    times = []
    for _ in range(env.rounds):
        began = time.process_time()
        report = env.protocol.check(record)
        times.append((time.process_time() - began) / report.objects * 1e6)
        if not report.clean:
            raise RuntimeError(f'a sweep of {ref}, which no client writes to, ended early')
    env.protocol.abort(record)
    return stats.summary(times)


def _collapse(env: environment.Environment, ref: sp.VolumeRef, *, hangs: bool
              ) -> sp.CollapseReport:
    """Promote a backup that has just written, against a primary that is idle; then merge it.

    :param hangs: the primary hangs, and does not hand over its lock
    :raises RuntimeError: it was not promoted
    """
    with primary.attached(env.cluster, [ref], hangs=hangs):
        record = env.protocol.super([ref], reason='benchmark')
        with variants.overlay_export(env, record) as export:
            fio.run([fio.Job('written', export.uri, {
                'rw': 'randwrite', 'bs': '8k', 'iodepth': 4, 'io_size': _WRITTEN,
                'size': 4 * _WRITTEN})], env.scratch)
            report = env.protocol.collapse(record, backup=sp.QmpBackup(
                env.cluster, str(export.monitor), [variants.PREFIX]))
    if report.outcome != 'promoted':
        raise RuntimeError(f'collapse of {ref}, whose primary is idle, ended {report.outcome}: '
                           f'{(report.sweep2 or report.sweep1).first}')
    env.protocol.merge(record, rate=0)
    return report


def _parts(report: sp.CollapseReport) -> tuple[float, ...]:
    assert report.sweep2 is not None
    known = (report.durable_s, report.sweep1.seconds, report.fence_s, report.sweep2.seconds,
             report.commit_s)
    return *known, report.total_s - sum(known)


def _figures(reports: Reports) -> dict[str, float]:
    largest = reports[_LARGEST]
    sweeps = [sweep.objects / sweep.seconds for report in largest
              for sweep in (report.sweep1, report.sweep2) if sweep is not None]
    figures = stats.summary(sweeps).entries('collapse.sweep_objects_per_s')
    figures |= stats.summary([report.total_s for report in largest]).entries('collapse.total_s')
    figures |= stats.summary([report.window_s * 1e3 for ours in reports.values()
                              for report in ours]).entries('collapse.window_ms')
    return figures | _by_objects('collapse', reports)


def _answered(reports: Reports) -> dict[str, float]:
    """Return the figures of the collapses whose primary has handed over its lock."""
    figures = stats.summary([report.total_s - report.durable_s for ours in reports.values()
                             for report in ours]).entries('collapse.answered_s')
    return figures | _by_objects('collapse.answered', reports)


def _by_objects(key: str, reports: Reports) -> dict[str, float]:
    """Return the median duration of each part, by the number of objects."""
    figures = {}
    for count, ours in reports.items():
        name = f'{key}.by_objects.{count}'
        figures[f'{name}.total_s'] = stats.summary([report.total_s for report in ours]).median
        for part, seconds in zip(PARTS, zip(*map(_parts, ours), strict=True), strict=True):
            figures[f'{name}.{part.replace(" ", "_")}_s'] = stats.summary(seconds).median
    return figures


def _draw(env: environment.Environment, reports: Reports) -> None:
    assert env.figures is not None
    with plots.drawing(
            env.figures / 'collapse.png', 'Duration of collapse, by part',
            f'primary that hangs, backup with {_WRITTEN >> 20} MiB just written; of {env.rounds} '
            'collapses each, the one with the median duration') as (plot,):
        columns = [_parts(sorted(ours, key=lambda report: report.total_s)[len(ours) // 2])
                   for ours in reports.values()]
        plots.stacked(plot, {part: [column[index] for column in columns]
                             for index, part in enumerate(PARTS)},
                      [f'{count:,}' for count in reports], 's')
        plots.label(plot, 'objects that exist in the volume', 'time (s)', room=1.25)
