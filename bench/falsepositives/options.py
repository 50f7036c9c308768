# SPDX-License-Identifier: Apache-2.0
"""The options of ``./run bench falsepositives``, without what the command itself imports."""

import argparse
import pathlib

from bench.falsepositives import model

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


def _seconds(text: str) -> list[float]:
    return [_positive(word) for word in text.split(',')]


def _positive(text: str) -> float:
    value = float(text)
    if not 0 <= value < float('inf'):
        raise argparse.ArgumentTypeError(f'{text} is no time in seconds')
    return value
