# SPDX-License-Identifier: Apache-2.0
"""The figure: false positives and unavailability by timeout."""

import pathlib

from bench import plots
from bench.falsepositives import analysis
from bench.falsepositives import trace as traces

# Places on the x axis: from half a second to ten minutes.
_PLACES = [0.5 * 1.1 ** step for step in range(75)]
_TIMEOUT, _SPECULATION, _ORACLE = '#4c72b0', '#c44e52', '#55a868'


def draw(path: pathlib.Path, trace: traces.Trace, recovery: analysis.Recovery,
         best: float) -> None:
    """Draw the figure into a file.

    :param best: the best timeout in hindsight, in seconds
    """
    timed = [analysis.timeout(trace, place, recovery) for place in _PLACES]
    speculation = analysis.speculation(trace, recovery)
    oracle = analysis.oracle(trace, recovery)
    unit, scale = (('minutes per host and year', 60 * trace.host_years) if trace.host_years
                   else ('hours in all', 3600.0))
    note = (f'{trace.name}: {len(trace.silences):,} silences, of them '
            f'{trace.dead:,} deaths; recovery {recovery.plain:g} s, '
            f'suspicion after {recovery.detect:g} s')
    with plots.drawing(path, 'False positives, and what they cost', note, panels=2) as panels:
        left, right = panels
        left.plot(_PLACES, [100 * (verdict.false_rate or 0.0) for verdict in timed],
                  color=_TIMEOUT, label='timeout')
        left.axhline(100 * (speculation.false_rate or 0.0), color=_SPECULATION,
                     label='speculation: promoted backups')
        left.set_xscale('log')
        plots.label(left, 'timeout (s, logarithmic)', 'recoveries of hosts that live (%)')
        right.plot(_PLACES, [verdict.unavailable / scale for verdict in timed], color=_TIMEOUT,
                   label='timeout')
        right.axvline(best, color=_TIMEOUT, linestyle=':',
                      label=f'best in hindsight: {plots.number_text(best)} s')
        right.axhline(speculation.unavailable / scale, color=_SPECULATION, label='speculation')
        right.axhline(oracle.unavailable / scale, color=_ORACLE, linestyle='--', label='Oracle')
        right.set_xscale('log')
        plots.label(right, 'timeout (s, logarithmic)', f'not served ({unit})')
