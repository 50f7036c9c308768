# SPDX-License-Identifier: Apache-2.0
"""Measure how long super takes, by size, existing objects, placement groups and volumes."""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import dataclasses
import random
import time

from bench import deadosd
from bench import environment
from bench import images
from bench import plots
from bench import primary
from bench import stats
from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.evidence import cut as cuts
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states

_GIB = images.GIB
_SIZES = (1 * _GIB, 10 * _GIB, 100 * _GIB, 1024 * _GIB, 4096 * _GIB)
_OBJECTS = (1024, 6400, 25600)
_GROUPS = (8, 32, 128, 256)
_MANY_GROUPS = 4096
_VOLUMES = 60
_DEATHS = 3
_COLOUR = '#c44e52'
# A superposition takes a tenth of a second, so more rounds than elsewhere fit.
_MORE_ROUNDS = 2
Times = dict[int, list[float]]


def run(env: environment.Environment) -> dict[str, float]:
    """Measure, and return the figures by their keys."""
    env.progress.section('super', 5)
    rounds = env.rounds * _MORE_ROUNDS
    env.progress.step(f'by size, {rounds} rounds')
    by_size = _by_size(env, rounds)
    env.progress.step(f'by existing objects, {rounds} rounds')
    by_objects = _by_objects(env, rounds)
    env.progress.step(f'by placement groups, {rounds} rounds')
    by_groups, cut = _by_groups(env, rounds)
    env.progress.step(f'{_VOLUMES} volumes at once, {env.rounds} rounds')
    many = _many(env)
    deaths = 1 if env.quick else _DEATHS
    env.progress.step(f'an OSD is dead, {deaths} rounds')
    dead_osd = deadosd.run(env, deaths)
    if env.figures is not None:
        _draw(env, by_size, by_objects, by_groups, rounds)
    figures = stats.ratios(by_size[_SIZES[-1]], by_size[_SIZES[0]]).entries(
        'super.4tib_over_1gib')
    figures |= stats.summary([seconds * 1e3 for seconds in by_groups[32]]).entries(
        'super.latency_ms')
    figures |= stats.summary(many).entries('super.sixty_volumes_s')
    figures |= cut | dead_osd
    figures |= _record(env.rounds).entries('super.record_4096_pgs_ms')
    figures |= _medians(by_size, lambda size: f'super.by_size.{size // _GIB}gib_ms')
    figures |= _medians(by_objects, lambda objects: f'super.by_objects.{objects}_ms')
    return figures | _medians(by_groups, lambda groups: f'super.by_pgs.{groups}_ms')


def _record(rounds: int) -> stats.Summary:
    """Return the processor time to write and to read a record's stored form, in milliseconds."""
    volume = records.Volume(
        pool='volumes', namespace='', image='volume', image_id='1', pool_id=1, data_pool_id=1,
        data_pool='volumes', data_prefix='rbd_data.1', size_bytes=100 * _GIB, object_size=4 << 20,
        features=61, overlay='volume.super', clients=('192.0.2.1:0/1',))
    versions = random.Random(1).choices(range(1 << 22), k=_MANY_GROUPS)
    now = records.now()
    record = records.Record(
        id=records.new_id(), state=states.SUPERPOSED, volumes=(volume,), created_at=now,
        updated_at=now, reason='benchmark', server_id=None,
        cuts={1: records.Cut(_MANY_GROUPS, '', tuple(versions))})
    times = []
    for _ in range(rounds):
        began = time.process_time()
        records.Record.load(record.dump(), 1)
        times.append((time.process_time() - began) * 1e3)
    return stats.summary(times)


def _medians(times: Times, key: Callable[[int], str]) -> dict[str, float]:
    return {key(x): stats.summary(seconds).median * 1e3 for x, seconds in times.items()}


def _timed(protocol: sp.Protocol, refs: Sequence[sp.VolumeRef]) -> tuple[float, sp.Record]:
    began = time.monotonic()
    record = protocol.super(refs, reason='benchmark')
    return time.monotonic() - began, record


def _by_size(env: environment.Environment, rounds: int) -> Times:
    """Superpose thin volumes that a primary has open, new ones in each round.

    They stay superposed: removing the overlay of a volume of 4 TiB takes seconds.
    """
    times: Times = {size: [] for size in _SIZES}
    for number in range(rounds):
        refs = {size: images.create(env.cluster, f'size-{size // _GIB}-{number}', size)
                for size in _SIZES}
        with primary.attached(env.cluster, list(refs.values())):
            for size in _SIZES[number % len(_SIZES):] + _SIZES[:number % len(_SIZES)]:
                times[size].append(_timed(env.protocol, [refs[size]])[0])
    return times


def _by_objects(env: environment.Environment, rounds: int) -> Times:
    refs = {objects: images.populated(env.cluster, objects) for objects in _OBJECTS}
    with primary.attached(env.cluster, list(refs.values())):
        return _rounds({objects: (env.protocol, ref) for objects, ref in refs.items()}, rounds)


class _Divided(sp.Cluster):
    """A connection to which every pool has many placement groups, whatever it has.

    A cut writes one marker for each of them, all at once. In a pool of fewer groups, several of
    the markers are in one group: client and OSDs have as many writes to do as in a large pool.
    """

    def pools(self) -> dict[int, ceph.Pool]:
        """Return the pools by id, each with many placement groups."""
        return {pool_id: dataclasses.replace(pool, pg_num=_MANY_GROUPS)
                for pool_id, pool in super().pools().items()}


def _cut(cluster: sp.Cluster, pool: str, rounds: int) -> dict[str, float]:
    """Return how long a cut takes, and the processor time of the process that takes it.

    As in ``super``, a cut is repeated until every placement group has answered.

    :raises RuntimeError: a placement group does not answer
    """
    with cluster.ioctx(pool) as io:
        pool_id = io.get_pool_id()
    seconds, busy = [], []
    # The first one finds the names of the markers, which the process keeps.
    for number in range(rounds + 1):
        began, used = time.monotonic(), time.process_time()
        while not cuts.answered_by_all(taken := cuts.take(cluster, pool_id, '')):
            if time.monotonic() - began > cluster.timeout:
                raise RuntimeError(f'a placement group of pool {pool} does not answer')
        if number:
            seconds.append(time.monotonic() - began)
            busy.append(time.process_time() - used)
    key = f'super.cut_{taken.pg_num}_pgs'
    return (stats.summary(seconds).entries(f'{key}_s')
            | stats.summary(busy).entries(f'{key}_client_s'))


def _by_groups(env: environment.Environment, rounds: int) -> tuple[Times, dict[str, float]]:
    """Superpose a volume of 100 GiB in each of several pools, and cut the largest pool.

    :returns: the times of super by placement groups, and the figures of cuts
    """
    pools = {groups: f'pgs-{groups}' for groups in _GROUPS}
    for groups, pool in pools.items():
        env.ceph.create_pool(pool, pg_num=groups)
    env.ceph.wait_clean()
    try:
        # Only a connection made after the pools may use them.
        with environment.connected(env.ceph) as cluster, contextlib.ExitStack() as stack:
            protocol = sp.Protocol(cluster)
            refs = {groups: images.create(cluster, 'volume', 100 * _GIB, pool)
                    for groups, pool in pools.items()}
            for ref in refs.values():
                stack.enter_context(primary.attached(cluster, [ref]))
            times = _rounds({groups: (protocol, ref) for groups, ref in refs.items()}, rounds)
            largest = pools[_GROUPS[-1]]
            figures = _cut(cluster, largest, rounds)
            with environment.connected(env.ceph, _Divided) as divided:
                return times, figures | _cut(divided, largest, rounds)
    finally:
        for pool in pools.values():
            env.ceph.delete_pool(pool)


def _rounds(volumes: Mapping[int, tuple[sp.Protocol, sp.VolumeRef]], rounds: int) -> Times:
    times: Times = {x: [] for x in volumes}
    for _ in range(rounds):
        for x, (protocol, ref) in volumes.items():
            seconds, record = _timed(protocol, [ref])
            times[x].append(seconds)
            protocol.abort(record)
    return times


def _many(env: environment.Environment) -> list[float]:
    """Superpose 60 volumes of 10 GiB in one set."""
    refs = [images.create(env.cluster, f'many-{number}', 10 * _GIB)
            for number in range(_VOLUMES)]
    times = []
    with primary.attached(env.cluster, refs):
        for _ in range(env.rounds):
            seconds, record = _timed(env.protocol, refs)
            times.append(seconds)
            env.protocol.abort(record)
    return times


def _draw(env: environment.Environment, by_size: Times, by_objects: Times, by_groups: Times,
          rounds: int) -> None:
    assert env.figures is not None
    plotted: tuple[tuple[Times, str, Callable[[int], str]], ...] = (
        (by_size, 'size of the (thin) volume',
         lambda size: f'{size // _GIB} GiB' if size < 1024 * _GIB else f'{size >> 40} TiB'),
        (by_objects, 'objects that exist in a volume of 100 GiB', lambda x: f'{x:,}'),
        (by_groups, 'placement groups of the pool', str))
    with plots.drawing(env.figures / 'super.png', 'Latency of super',
                       f'volumes that a primary has open; medians of {rounds} interleaved '
                       'rounds, whiskers: quartiles', panels=3) as panels:
        for plot, (times, name, text) in zip(panels, plotted, strict=True):
            points = {float(x): stats.summary([second * 1e3 for second in seconds])
                      for x, seconds in times.items()}
            plots.groups(plot, [plots.Series('super', _COLOUR, points)],
                         {float(x): text(x) for x in times})
            plots.label(plot, name, 'latency (ms)')
