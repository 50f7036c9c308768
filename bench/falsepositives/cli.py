# SPDX-License-Identifier: Apache-2.0
"""The command line of ``./run bench falsepositives``."""

import argparse
import pathlib
import sys

from bench import plots
from bench import report
from bench.falsepositives import analysis
from bench.falsepositives import model
from bench.falsepositives import picture
from bench.falsepositives import trace as traces

NAME = 'falsepositives'
_TIMEOUTS = '1,2,5,10,30,60,180'
HELP = 'what any timeout, and speculation, would have made of times in which hosts were silent'
_TEXT = """\
Reads a trace of times in which hosts did not answer, and tells for any timeout how many recoveries
would have been of hosts that were alive (false positives) and for how long nobody would have been
served, one server on each host; beside it the same for speculation, for the Oracle, who knows
everything, and for the timeout that was the best, which is known only afterwards. It starts
nothing and takes seconds.

A trace is a CSV file, with what was observed in comments:

    # hosts: 1000
    # days: 365
    host,began,seconds,outcome
    h17,86400.5,12.3,returned     it was silent for 12.3 s and went on, guests and all
    h4,90000,,dead                its guests were gone

Whoever has no trace takes a sample, which a model makes (bench/falsepositives/model.py names its
sources).
"""
_EXAMPLES = """\
examples:
  ./run bench falsepositives --sample paper
  ./run bench falsepositives --sample loaded --hosts 100 --write loaded.csv
  ./run bench falsepositives monitoring.csv --timeouts 5,20,120 --recovery 45 --json out.json
"""


def add_arguments(parser: argparse.ArgumentParser, figures: pathlib.Path) -> None:
    """Return the parser of the command line.

    :param figures: where figures go by default
    """
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument('trace', type=pathlib.Path, nargs='?', metavar='TRACE.csv',
                       help='the trace')
    which.add_argument('--sample', choices=sorted(model.SAMPLES),
                       help='a trace made by the model instead')
    parser.add_argument('--hosts', type=int, default=1000, help='of a sample (%(default)s)')
    parser.add_argument('--days', type=float, default=365.0, help='of a sample (%(default)g)')
    parser.add_argument('--seed', type=int, default=1, help='of a sample (%(default)s)')
    parser.add_argument('--write', type=pathlib.Path, metavar='FILE',
                        help='write the trace into a file, too')
    parser.add_argument('--timeouts', type=_seconds, default=_TIMEOUTS, metavar='S,S,…',
                        help='in seconds (%(default)s)')
    parser.add_argument('--recovery', type=_positive, default=30.0, metavar='S',
                        help='seconds from the decision until a server serves again '
                             '(%(default)g, as in the long recovery of the paper)')
    parser.add_argument('--speculative-recovery', type=_positive, metavar='S',
                        help='the same for a backup (default: as long)')
    parser.add_argument('--detect', type=_positive, default=0.8, metavar='S',
                        help='seconds until the engine suspects a host (%(default)g)')
    parser.add_argument('--disturbance', type=_positive, default=0.0, metavar='S',
                        help='seconds of service that a backup in vain costs (%(default)g; see '
                             'false_suspicion.* of ./run bench failover)')
    parser.add_argument('--json', type=pathlib.Path, metavar='FILE',
                        help='write all figures to FILE as one flat object')
    parser.add_argument('--figures', type=pathlib.Path, metavar='DIR', default=figures,
                        help='draw falsepositives.png into DIR (default: %(default)s)')


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
    path = args.figures / f'{NAME}.png'
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


def _seconds(text: str) -> list[float]:
    return [_positive(word) for word in text.split(',')]


def _positive(text: str) -> float:
    value = float(text)
    if not 0 <= value < float('inf'):
        raise argparse.ArgumentTypeError(f'{text} is no time in seconds')
    return value
