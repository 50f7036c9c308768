# SPDX-License-Identifier: Apache-2.0
"""The options of ``./run bench paper``, without what the command itself imports."""

import argparse
import pathlib

from bench import trace

NAME = 'paper'
HELP = "the paper's Figures 4 to 7 and its section 5.5, done again, as one report"
_TEXT = f"""\
Measures what the paper's Figures 4 to 7 show, and writes a report: paper.html, with the figures in
it and also as PNGs, and paper.json, which is written after each part. What fails is named in the
report, and can be done again by itself:

    ./run bench paper --quick --from .data/paper/paper.json

measures only what is not in that file. Instead of a part, or beside it, any JSON of another
benchmark (./run bench disk --json, …) or of the demo (failover.json) can be given.

What it takes on two cores with --quick, about:
     1 min  a Ceph, and its removal
     4 min  Figures 4 and 5, objects of 64 KiB (with the trace {trace.RECORDING})
     3 min  Figures 4 and 5, objects of 4 MiB
     4 min  a cloud with three hosts, and its removal
    14 min  Figures 6 and 7: six accidents (spec, oracle, clone with 30 s of load: 3 min each;
            suspicion, reds5: 2 min, reds60: 3 min)
   seconds  section 5.5, and the figures
Without it, nine rounds instead of three, larger databases and two minutes of load: about an hour.
The JSON tells what each part took (paper.cost.…).
"""
_EXAMPLES = """\
examples:
  ./run bench paper --quick --traces ~/specreds/trace
  ./run bench paper --no-measure --from disk.json --from .data/demo-out/failover.json
"""


def add_arguments(parser: argparse.ArgumentParser, data: pathlib.Path, port: int,
                  traces: str | None) -> None:
    """Return the parser of the command line.

    :param data: where data goes by default
    :param port: the first one, by default
    :param traces: where the paper's recordings are, by default
    """
    parser.description, parser.epilog = _TEXT, _EXAMPLES
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument('--quick', action='store_true', help='measure less, within half an hour')
    parser.add_argument('--from', type=pathlib.Path, action='append', default=[], metavar='FILE',
                        dest='known', help='file with figures of an earlier run; may be repeated')
    parser.add_argument('--no-measure', action='store_true',
                        help='only write the report from these files')
    parser.add_argument('--out', type=pathlib.Path, metavar='DIR', default=data / 'paper',
                        help='directory of the report (default: %(default)s)')
    parser.add_argument('--traces', type=pathlib.Path, metavar='DIR', default=traces,
                        help="where the recordings of the paper's artifact are (its directory "
                             'trace; default: $SPECREDS_TRACES, else */traces beside the '
                             'checkout)')
    parser.add_argument('--data', type=pathlib.Path, metavar='DIR', default=data / 'bench-paper',
                        help='data directory of its own Ceph, wiped before and after; the one '
                             'of its cloud is beside it (default: %(default)s)')
    parser.add_argument('--port', type=int, default=port,
                        help='first of 200 ports to use (default: %(default)s)')
    parser.add_argument('--keep', action='store_true',
                        help='leave the Ceph and the cloud up afterwards')
