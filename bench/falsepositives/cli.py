# SPDX-License-Identifier: Apache-2.0
"""The command ``./run bench falsepositives``."""

import argparse
import sys

from bench import plots
from bench import report
from bench.falsepositives import analysis
from bench.falsepositives import model
from bench.falsepositives import options
from bench.falsepositives import picture
from bench.falsepositives import trace as traces


def run(args: argparse.Namespace) -> int:
    """Run the command.

    :returns: the exit status
    """
    try:
        trace = (model.sample(args.sample, args.hosts, args.days, args.seed) if args.sample
                 else traces.load(args.trace))
        if args.write:
            args.write.write_text(traces.dump(trace))
    except (traces.BadTrace, OSError) as exc:
        print(f'error: {exc}', file=sys.stderr)
        return 1
    speculative = (args.recovery if args.speculative_recovery is None
                   else args.speculative_recovery)
    recovery = analysis.Recovery(args.recovery, speculative, args.detect, args.disturbance)
    verdicts, best = evaluate(trace, recovery, args.timeouts)
    print(table(trace, verdicts))
    print(f'\nBest in hindsight: a timeout of {plots.number_text(best)} s. Speculation had '
          f'started {verdicts[-2].vain:,} backups in vain, and two guests of one server for '
          f'{verdicts[-2].backup_seconds / 3600:,.1f} h in all.')
    args.figures.mkdir(parents=True, exist_ok=True)
    path = args.figures / f'{options.NAME}.png'
    picture.draw(path, trace, recovery, best)
    print(f'figure: {path}')
    if args.json:
        report.write(args.json, analysis.figures(trace, verdicts, best))
    return 0


def evaluate(trace: traces.Trace, recovery: analysis.Recovery, timeouts: list[float]
             ) -> tuple[list[analysis.Verdict], float]:
    """Return the verdicts on timeouts, speculation and the Oracle, and the best timeout."""
    best = analysis.best_timeout(trace, recovery)
    return [*(analysis.timeout(trace, seconds, recovery) for seconds in sorted(timeouts)),
            analysis.speculation(trace, recovery), analysis.oracle(trace, recovery)], best


def table(trace: traces.Trace, verdicts: list[analysis.Verdict]) -> str:
    """Show verdicts as lines of text."""
    per_year = trace.host_years is not None
    unit = 'min/host/year' if per_year else 'hours in all'
    scale = 60 * trace.host_years if trace.host_years else 3600.0
    lines = [f'{trace.name}: {len(trace.silences):,} silences, of them '
             f'{trace.dead:,} deaths'
             + (f', in {trace.host_years:,.0f} host-years' if trace.host_years else ''), '',
             f'{"":<16}{"recoveries":>12}{"false":>10}{"rate":>8}{"not served, " + unit:>28}']
    for verdict in verdicts:
        rate = '-' if verdict.false_rate is None else f'{100 * verdict.false_rate:.1f} %'
        lines.append(f'{verdict.name:<16}{verdict.acted:>12,}{verdict.false:>10,}{rate:>8}'
                     f'{verdict.unavailable / scale:>28,.2f}')
    return '\n'.join(lines)
