# SPDX-License-Identifier: Apache-2.0
"""Draw figures with title, axes with units, legend, number of rounds and medians."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import dataclasses
import pathlib
import textwrap

import matplotlib
from matplotlib import axes
from matplotlib import figure
from matplotlib import pyplot

from bench import stats

matplotlib.use('Agg')

_SIZE = (8.0, 5.0)
_DPI = 130
_GREY = '#555555'
_LABEL_WIDTH = 18


@dataclasses.dataclass(frozen=True)
class Series:
    """One line, or one group of bars: a summary for each place on the x axis."""

    label: str
    colour: str
    points: Mapping[float, stats.Summary]


@contextlib.contextmanager
def drawing(path: pathlib.Path, title: str, note: str, panels: int = 1
            ) -> Iterator[list[axes.Axes]]:
    """Yield axes to draw into, and write the file at the end.

    :param note: the conditions of the measurement, shown under the title
    :param panels: plots side by side
    """
    drawn, grid = pyplot.subplots(1, panels, figsize=(_SIZE[0] * (0.4 + 0.6 * panels), _SIZE[1]),
                                  squeeze=False)
    try:
        yield list(grid[0])
        _finish(drawn, path, title, note)
    finally:
        pyplot.close(drawn)


def _finish(drawn: figure.Figure, path: pathlib.Path, title: str, note: str) -> None:
    drawn.suptitle(title, fontsize=13, fontweight='bold')
    drawn.text(0.5, 0.915, note, ha='center', fontsize=9, color=_GREY)
    drawn.tight_layout(rect=(0, 0, 1, 0.93))
    drawn.savefig(path, dpi=_DPI)


def label(plot: axes.Axes, x: str, y: str, log: bool = False, room: float = 1.0) -> None:
    """Name the axes, with their units, and show the legend if there is more than one entry.

    :param log: make the y axis logarithmic
    :param room: stretch the y axis upwards by this factor, and put the legend there
    """
    high = plot.get_ylim()[1]
    if log:
        plot.set_yscale('log')
        plot.set_ylim(top=high * room)
    else:
        plot.set_ylim(0, high * room)
    plot.set_xlabel(x)
    plot.set_ylabel(y)
    plot.grid(axis='y', alpha=0.3)
    if len(plot.get_legend_handles_labels()[1]) > 1:
        place = {'loc': 'upper center', 'ncols': 2} if room > 1 else {'loc': 'best'}
        plot.legend(fontsize=8, **place)


def bars(plot: axes.Axes, series: Sequence[Series]) -> None:
    """Draw one bar for each, named below it; each has one point only."""
    for place, entry in enumerate(series):
        point, = entry.points.values()
        _bar(plot, place, 0.7, point, entry.colour)
    plot.set_xticks(range(len(series)),
                    [textwrap.fill(entry.label, _LABEL_WIDTH) for entry in series], fontsize=8)


def groups(plot: axes.Axes, series: Sequence[Series], names: Mapping[float, str]) -> None:
    """Draw groups of bars with the quartiles as whiskers and the medians written on them.

    :param names: of the places on the x axis
    """
    width = 0.8 / len(series)
    for number, entry in enumerate(series):
        for place, x in enumerate(names):
            at = place + (number - (len(series) - 1) / 2) * width
            _bar(plot, at, width * 0.95, entry.points[x], entry.colour,
                 entry.label if place == 0 else None)
    plot.set_xticks(range(len(names)), list(names.values()))


def _bar(plot: axes.Axes, at: float, width: float, point: stats.Summary, colour: str,
         name: str | None = None) -> None:
    plot.bar(at, point.median, width, color=colour, label=name)
    plot.errorbar(at, point.median, [[point.median - point.low], [point.high - point.median]],
                  color='black', capsize=2, linewidth=0.8)
    plot.annotate(number_text(point.median), (at, point.high), ha='center', va='bottom',
                  fontsize=7, xytext=(0, 2), textcoords='offset points')


def lines(plot: axes.Axes, series: Sequence[Series], names: Mapping[float, str]) -> None:
    """Draw lines through the medians with the quartiles as a band around them."""
    for entry in series:
        places = range(len(names))
        points = [entry.points[x] for x in names]
        plot.plot(places, [point.median for point in points], marker='o', label=entry.label,
                  color=entry.colour)
        plot.fill_between(places, [point.low for point in points],
                          [point.high for point in points], color=entry.colour, alpha=0.15)
        for place, point in zip(places, points, strict=True):
            plot.annotate(number_text(point.median), (place, point.median), fontsize=7,
                          ha='center', xytext=(0, 5), textcoords='offset points')
    plot.set_xticks(range(len(names)), list(names.values()))


def stacked(plot: axes.Axes, parts: Mapping[str, Sequence[float]], names: Sequence[str],
            unit: str) -> None:
    """Draw one bar per name out of parts on top of each other, with the sum above."""
    bottoms = [0.0] * len(names)
    for part, values in parts.items():
        plot.bar(range(len(names)), values, 0.6, bottom=bottoms, label=part)
        bottoms = [bottom + value for bottom, value in zip(bottoms, values, strict=True)]
    for place, total in enumerate(bottoms):
        plot.annotate(f'{number_text(total)} {unit}', (place, total), ha='center', va='bottom',
                      fontsize=8)
    plot.set_xticks(range(len(names)), list(names))


def number_text(value: float) -> str:
    """Write a figure with three significant digits."""
    if abs(value) >= 1000:
        return f'{value:,.0f}'
    return f'{value:.3g}'
