# SPDX-License-Identifier: Apache-2.0
"""Outcomes of the scenarios as a picture: durations of the phases, and throughput."""

from collections.abc import Sequence
import pathlib

import matplotlib
from matplotlib import axes
from matplotlib import pyplot

from cloud.demo import chart
from cloud.demo import outcome

matplotlib.use('Agg')

_DPI = 130
_GREY = '#555555'
_COLOURS = {'timeout': '#c8c8c8', 'peer': '#7f7f7f', 'detect': '#d62728',
            'dispatch': '#f7b6d2', 'super': '#ff7f0e', 'start': '#bcbd22', 'race': '#1f77b4',
            'hold': '#98df8a', 'harden': '#c5b0d5', 'unseen': '#2ca02c',
            'collapse': '#9467bd', 'promote': '#e377c2', 'evacuate': '#8c564b',
            'answer': '#17becf', 'serve': '#aec7e8'}
# Seconds before the accidents that the picture shows, and seconds per point of the throughput.
_BEFORE, _BIN = 5.0, 0.5


def draw(path: pathlib.Path, outcomes: Sequence[outcome.Outcome], note: str) -> None:
    """Write the picture.

    :param note: a line about the measurement
    """
    last = max((accident.gap.ended - accident.event for accident in outcomes), default=1.0) * 1.1
    drawn, (bars, lines) = pyplot.subplots(2, 1, figsize=(11.0, 8.0), sharex=True)
    try:
        _bars(bars, outcomes)
        _throughput(lines, outcomes, last)
        bars.set_xlim(-_BEFORE, last)
        drawn.suptitle('A host dies: for how long its database is not served', fontsize=13,
                       fontweight='bold')
        drawn.text(0.5, 0.935, note, ha='center', fontsize=9, color=_GREY)
        drawn.tight_layout(rect=(0, 0, 1, 0.94))
        drawn.savefig(path, dpi=_DPI)
    finally:
        pyplot.close(drawn)


def _bars(plot: axes.Axes, outcomes: Sequence[outcome.Outcome]) -> None:
    for name in outcome.PHASES:
        spans = [(place, phase) for place, accident in enumerate(reversed(outcomes))
                 for phase in accident.phases if phase.name == name and phase.seconds > 0]
        if spans:
            plot.barh([place for place, _ in spans], [phase.seconds for _, phase in spans], 0.6,
                      left=[phase.began for _, phase in spans], label=chart.WORDS[name],
                      color=_COLOURS[name])
    for place, accident in enumerate(reversed(outcomes)):
        plot.annotate(f'{accident.unavailable_s:.1f} s',
                      (accident.gap.ended - accident.event, place),
                      xytext=(4, 0), textcoords='offset points', va='center', fontsize=9)
    plot.set_yticks(range(len(outcomes)), [accident.name for accident in reversed(outcomes)])
    plot.grid(axis='x', alpha=0.3)
    plot.tick_params(labelbottom=True)
    if plot.get_legend_handles_labels()[1]:
        plot.legend(fontsize=8, loc='lower right')


def _throughput(plot: axes.Axes, outcomes: Sequence[outcome.Outcome], last: float) -> None:
    for accident in outcomes:
        # The client stops after its last transaction.
        until = min(last, max(accident.done, default=accident.event) - accident.event)
        bins = [index * _BIN - _BEFORE for index in range(int((until + _BEFORE) / _BIN))]
        plot.step(bins, [outcome.rate(accident.done, accident.event + at,
                                      accident.event + at + _BIN)
                         for at in bins], where='post', label=accident.name, linewidth=1.2)
    plot.axvline(0, color='black', linewidth=0.8, linestyle='--')
    plot.set_ylim(bottom=0)
    plot.set_xlabel('time since the accident (s)')
    plot.set_ylabel('acknowledged transactions (1/s)')
    plot.grid(axis='y', alpha=0.3)
    plot.legend(fontsize=8)
