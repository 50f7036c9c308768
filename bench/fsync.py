# SPDX-License-Identifier: Apache-2.0
"""8 KiB write and fsync, again and again, in the order in which a backup lives.

The writer works on a file of 64 MiB in a fresh overlay while it is speculative; then the overlay
is made durable, as collapse does it, and the writer continues in its file; at last it writes all
over the disk, where each write is the first one to its cluster and also writes an L2 entry and
reference counts.
"""

import random
import time

from bench import environment
from bench import exports
from bench import fio
from bench import plots
from bench import stats
from bench import variants
from specreds_cinder import superposition as sp

VARIANTS = (variants.RBD, variants.WRITEBACK, variants.SUPER)
_FILE = 64 << 20
_SECONDS = 2.5

SPECULATIVE = 'speculative'
PROMOTED = 'promoted'
PROMOTED_FIRST = 'promoted_first_touch'
_LABELS = {
    variants.RBD: (variants.LABELS[variants.RBD], variants.COLOURS[variants.RBD]),
    variants.WRITEBACK: (variants.LABELS[variants.WRITEBACK],
                         variants.COLOURS[variants.WRITEBACK]),
    SPECULATIVE: ('super, speculative', variants.COLOURS[variants.SUPER]),
    PROMOTED: ('super, promoted: its file', variants.COLOURS[variants.PROMOTED]),
    PROMOTED_FIRST: ('super, promoted: first touch', variants.COLOURS[variants.UNCACHED]),
}
Iops = dict[str, list[float]]


def run(env: environment.Environment, plain: sp.VolumeRef, base: sp.VolumeRef,
        size: int) -> dict[str, float]:
    """Measure, and return the figures by their keys.

    :param size: of both images, in bytes
    """
    iops: Iops = {name: [] for name in _LABELS}
    # What writing all over the disk is compared with.
    wide: list[float] = []
    barriers: list[float] = []
    for number in range(env.rounds):
        turn = number % len(VARIANTS)
        for variant in VARIANTS[turn:] + VARIANTS[:turn]:
            env.progress.step(f'write + fsync, round {number + 1} of {env.rounds}: {variant}')
            if variant == variants.SUPER:
                barriers.append(_superposed(env, base, size, iops))
                continue
            with variants.opened(env, variant, plain, base) as export:
                iops[variant].append(_write(env, export, _FILE))
                if variant == variants.RBD:
                    wide.append(_write(env, export, size))
    if env.figures is not None:
        _draw(env, iops)
    return _figures(iops, wide, barriers)


def steps(env: environment.Environment) -> int:
    """Return the number of steps that it reports."""
    return env.rounds * len(VARIANTS)


def _superposed(env: environment.Environment, base: sp.VolumeRef, size: int,
                iops: Iops) -> float:
    """Measure the three phases, and return the seconds taken to make the overlay durable."""
    with variants.superposed(env, base) as record, \
            variants.overlay_export(env, record) as export:
        iops[SPECULATIVE].append(_write(env, export, _FILE))
        backup = sp.QmpBackup(env.cluster, str(export.monitor), [variants.PREFIX])
        began = time.monotonic()
        backup.make_durable(record)
        barrier = time.monotonic() - began
        fio.run([fio.Job('file', export.uri, {'rw': 'write', 'bs': '64k', 'iodepth': 8,
                                              'size': _FILE, 'end_fsync': 1})], env.scratch)
        iops[PROMOTED].append(_write(env, export, _FILE))
        iops[PROMOTED_FIRST].append(_write(env, export, size))
        return barrier


def _write(env: environment.Environment, export: exports.Export, size: int) -> float:
    """Write to random places of the first ``size`` bytes, and return the writes per second."""
    job = fio.Job('fsync', export.uri, {
        'rw': 'randwrite', 'bs': '8k', 'fsync': 1, 'size': size, 'time_based': 1,
        'runtime': f'{_SECONDS:g}', 'randseed': random.randrange(1 << 31)})
    return fio.run([job], env.scratch)[0].iops()


def _figures(iops: Iops, wide: list[float], barriers: list[float]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, values in iops.items():
        figures[f'disk.fsync_8k.{name.replace("-", "_")}_iops'] = stats.summary(values).median
        if name != variants.RBD:
            reference = wide if name == PROMOTED_FIRST else iops[variants.RBD]
            figures |= stats.ratios(values, reference).entries(
                f'disk.fsync_8k.{name.replace("-", "_")}_over_rbd')
    return figures | stats.summary(barriers).entries('disk.make_durable_s')


def _draw(env: environment.Environment, iops: Iops) -> None:
    assert env.figures is not None
    with plots.drawing(
            env.figures / 'disk-write-fsync.png', '8 KiB write + fsync, one at a time',
            f'random places; medians of {env.rounds} interleaved rounds of {_SECONDS:g} s, '
            'whiskers: quartiles') as (plot,):
        plots.bars(plot, [plots.Series(label, colour, {0: stats.summary(iops[name])})
                          for name, (label, colour) in _LABELS.items()])
        plots.label(plot, '', 'writes, each with its fsync, per second')
