# SPDX-License-Identifier: Apache-2.0
"""The paper's figures, with its axes and series, drawn from the JSON."""

from collections.abc import Callable, Mapping, Sequence
import functools
import pathlib
from typing import Any

from matplotlib import axes

from bench import plots
from bench import stats
from bench.paper import disk
from bench.paper import formula

Figures = Mapping[str, Any]
_LABELS = {'rbd': 'rbd', 'super': 'super', 'clone': 'rbd-clone'}
_COLOURS = {'rbd': '#55a868', 'super': '#4c72b0', 'clone': '#c44e52'}
_SYSTEMS = {formula.REDS: '#55a868', formula.CLONE: '#c44e52', formula.SPEC: '#4c72b0',
            formula.ORACLE: '#dd8452', formula.MASAKARI_AT_ONCE: '#c7b8de',
            formula.MASAKARI: '#8172b3'}
_AFTER = {'oracle': ('REDS (rbd)', '#55a868'), 'spec': ('SpecREDS (super, merged meanwhile)',
                                                        '#4c72b0'),
          'clone': ('SpecREDS (rbd-clone)', '#c44e52')}
_WIDTH = 0.2


def draw(figures: Figures, directory: pathlib.Path) -> dict[str, pathlib.Path]:
    """Draw what has been measured; return the files by the names of the figures."""
    made = {}
    for name, painter in DRAWN.items():
        path = directory / f'{name}.png'
        if painter(figures, path):
            made[name] = path
    return made


def _points(figures: Figures, keys: Mapping[float, str]) -> dict[float, stats.Summary] | None:
    """Return the figure for each place on the x axis, or None if one is missing."""
    if any(key not in figures for key in keys.values()):
        return None
    return {x: stats.Summary(figures[key], figures.get(f'{key}.low', figures[key]),
                             figures.get(f'{key}.high', figures[key]),
                             int(figures.get(f'{key}.n', 1)))
            for x, key in keys.items()}


def _series(figures: Figures, keys: Mapping[str, Mapping[float, str]]) -> list[plots.Series]:
    """Return the series that are complete.

    :param keys: of each place on the x axis, by the kind of disk
    """
    return [plots.Series(_LABELS[kind], _COLOURS[kind], points) for kind, ours in keys.items()
            if ours and (points := _points(figures, ours)) is not None]


def _keys(key: str, names: Mapping[float, str]) -> dict[str, dict[float, str]]:
    """Return the keys by the kind of disk.

    :param key: with places for what is on the x axis, and for the kind
    """
    return {kind: {x: key.format(text, kind) for x, text in names.items()} for kind in _LABELS}


def _first_touch(figures: Figures, path: pathlib.Path, objects: str, size: str, depth: str
                 ) -> bool:
    """Draw Figure 4 a and b.

    :param objects: the size of the objects
    :param size: the key of what depends on the size of a write, and `depth` of what depends on
        their number, with places for that and for the kind of disk
    """
    # bench disk has no writes of 48 KiB.
    sizes: dict[float, str] = {kib: str(kib) for kib in disk.SIZES
                               if size.format(kib, 'rbd') in figures}
    depths: dict[float, str] = {count: str(count) for count in disk.DEPTHS}
    shown = [(series, names, label) for series, names, label in (
        (_series(figures, _keys(size, sizes)), sizes, 'write size (KiB)'),
        (_series(figures, _keys(depth, depths)), depths, 'concurrent writes of 4 KiB')) if series]
    if not shown:
        return False
    with plots.drawing(path, f'Figure 4 a, b: the first write to each object, {objects}',
                       'medians of interleaved rounds, bands: quartiles',
                       panels=len(shown)) as drawn:
        for plot, (series, names, label) in zip(drawn, shown, strict=True):
            plots.lines(plot, series, names)
            plots.label(plot, label, 'mean latency (ms, logarithmic)', log=True)
    return True


def _tails(figures: Figures, path: pathlib.Path) -> bool:
    """Draw Figure 4 c and d."""
    names: dict[float, str] = {percent: f'{percent:g}' for percent in disk.PERCENTILES}
    shown = {kind: series for kind in ('read', 'write') if (series := _series(
        figures, _keys(f'paper.fig4.replay_{kind}.p{{}}.{{}}_ms', names)))}
    if not shown:
        return False
    with plots.drawing(path, 'Figure 4 c, d: latency while a recovery is replayed',
                       'P/100M-postgres, objects of 64 KiB, as fast as possible',
                       panels=len(shown)) as drawn:
        for plot, (kind, series) in zip(drawn, shown.items(), strict=True):
            plots.lines(plot, series, names)
            plots.label(plot, f'percentile, {kind}s', 'latency (ms, logarithmic)', log=True)
    return True


def _recovery(figures: Figures, path: pathlib.Path) -> bool:
    """Draw Figure 5."""
    names: dict[float, str] = {}
    keys_by_kind: dict[str, dict[float, str]] = {kind: {} for kind in _LABELS}
    for short, (_, title) in disk.RECORDINGS.items():
        if f'paper.fig5.{short}.rbd_s' in figures:
            for kind, keys in keys_by_kind.items():
                keys[len(names)] = f'paper.fig5.{short}.{kind}_s'
            names[len(names)] = f'{title}\nobjects of 64 KiB'
    if 'disk.replay_p100m.rbd_s' in figures:
        for kind, name in (('rbd', 'rbd'), ('super', 'speculative'), ('clone', 'clone')):
            keys_by_kind[kind][len(names)] = f'disk.replay_p100m.{name}_s'
        names[len(names)] = 'P/100M-postgres\nobjects of 4 MiB'
    series = _series(figures, keys_by_kind)
    if not names or not series:
        return False
    with plots.drawing(path, 'Figure 5: recovery by trace',
                       'replayed as fast as possible; medians of interleaved rounds, whiskers: '
                       'quartiles') as (plot,):
        plots.groups(plot, series, names)
        plots.label(plot, '', 'recovery (s)', room=1.15)
    return True


def _bars(plot: axes.Axes, bars: Mapping[str, Sequence[float | None]], title: str,
          groups: Sequence[str] = formula.GROUPS) -> float:
    """Draw one group of bars for each of the paper's cases; return the greatest height."""
    for number, (series, values) in enumerate(bars.items()):
        for place, value in enumerate(values):
            if value is None:
                continue
            at = place + (number - (len(bars) - 1) / 2) * _WIDTH
            plot.bar(at, value, _WIDTH * 0.95, color=_SYSTEMS[series])
            plot.annotate(plots.number_text(value), (at, value), ha='center', va='bottom',
                          fontsize=7, xytext=(0, 2), textcoords='offset points')
        plot.bar(0, 0, 0, color=_SYSTEMS[series], label=series)
    plot.set_xticks(range(len(groups)), [name.replace(', ', '\n', 1) for name in groups],
                    fontsize=8)
    plot.set_title(title, fontsize=10)
    return max((value for values in bars.values() for value in values if value), default=0.0)


def _end_to_end(figures: Figures, path: pathlib.Path) -> bool:
    """Draw Figure 6."""
    panels: list[tuple[str, Mapping[str, Sequence[float | None]]]] = []
    if measured := formula.measured(figures):
        panels.append(('measured', measured))
    if recoveries := formula.recoveries(figures):
        panels.append(("the paper's formula, recoveries measured end to end",
                       formula.bars(*recoveries)))
    if replayed := formula.replayed(figures):
        panels.append(("the paper's formula, recoveries replayed as in Figure 5",
                       formula.bars(*replayed)))
    if not panels:
        return False
    with plots.drawing(path, 'Figure 6: end to end',
                       'timeout and recovery; long: PostgreSQL, short: a small server; (IV): the '
                       'host only stands still', panels=len(panels)) as drawn:
        highest = 0.0
        for plot, (title, bars) in zip(drawn, panels, strict=True):
            highest = max(highest, _bars(plot, bars, title))
        for plot in drawn:
            plot.set_ylim(0, highest)
            plots.label(plot, 'timeout and recovery', 'nobody is served (s)', room=1.2)
    return True


def _beside_peers(figures: Figures, path: pathlib.Path) -> bool:
    """Draw the same death, recovered by this project and by Masakari."""
    bars = formula.beside_peers(figures)
    if not bars:
        return False
    with plots.drawing(path, 'A peer: Masakari on the same cloud',
                       'notified at the moment of the death; long: PostgreSQL, short: a small '
                       'server') as (plot,):
        highest = _bars(plot, bars, 'measured', formula.BOTH)
        plot.set_ylim(0, highest)
        plots.label(plot, 'recovery', 'nobody is served (s)', room=1.2)
    return True


def _throughput(figures: Figures, path: pathlib.Path) -> bool:
    """Draw Figure 7."""
    shown = {name: rates for name in _AFTER
             if (rates := figures.get(f'paper.accident.{name}.per_second'))}
    if not shown:
        return False
    with plots.drawing(path, 'Figure 7: throughput after failover',
                       'PostgreSQL, a load like TPC-B by 4 terminals, as fast as it can') as (
                           plot,):
        for name, rates in shown.items():
            label, colour = _AFTER[name]
            plot.plot([second + 0.5 for second in range(len(rates))], rates, color=colour,
                      label=f'{label}, mean {plots.number_text(sum(rates) / len(rates))}/s')
        if merge := figures.get('paper.accident.spec.merge'):
            plot.axvspan(max(0.0, merge[0]), min(merge[1], max(map(len, shown.values()))),
                         color='#4c72b0', alpha=0.12, label='SpecREDS: the merge')
        plots.label(plot, 'time after recovery (s)', 'transactions per second', room=1.2)
    return True


DRAWN: Mapping[str, Callable[[Figures, pathlib.Path], bool]] = {
    'figure-4-64kib': functools.partial(
        _first_touch, objects='64 KiB', size='paper.fig4.size_{}k.{}_ms',
        depth='paper.fig4.depth_{}.{}_ms'),
    'figure-4-4mib': functools.partial(
        _first_touch, objects='4 MiB', size='disk.first_touch_{}k_qd1.{}_ms',
        depth='disk.first_touch_4k_qd{}.{}_ms'),
    'figure-4-percentiles': _tails, 'figure-5': _recovery, 'figure-6': _end_to_end,
    'peers': _beside_peers, 'figure-7': _throughput}
