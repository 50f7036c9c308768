# SPDX-License-Identifier: Apache-2.0
"""The options of ``./run bench``, without what the benchmarks import: help takes no seconds."""

import argparse
import os
import pathlib

from bench import trace
from bench.falsepositives import options as falsepositives
from bench.paper import options as paper
from cloud.openstack import layout

DEFAULT_PORT = 17800
# Names of benchmarks, which are parts of the names of their figures.
OVERWRITES = 'overwrites'
ON_CEPH = ('disk', 'super', 'collapse', 'merge', OVERWRITES, 'soak')
CINDER = 'cinder'
NOVA = 'nova'
FAILOVER = 'failover'
FAULTS = 'faults'
OPINION = 'opinion'
STALL = 'stall'
WAL = 'wal'
DISPATCH = 'dispatch'
HOOK = 'hook'
SCALE = 'scale'
SIMULATE = 'simulate'
NAMES = (*ON_CEPH, CINDER, NOVA, FAILOVER, FAULTS, OPINION, STALL, WAL, DISPATCH, HOOK,
         SCALE, SIMULATE)
# How often nova-compute is killed, and how many races there are.
DRILLS = 10
RACES, QUICK_RACES = 50, 10


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    data = pathlib.Path(os.environ.get('SPECREDS_DATA', '.data'))
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument('--quick', action='store_true',
                        help='fewer rounds and smaller images; the same figures')
    shared.add_argument('--json', type=pathlib.Path, metavar='FILE',
                        help='write all figures to FILE as one flat object')
    shared.add_argument('--figures', type=pathlib.Path, metavar='DIR',
                        default=data / 'bench-figures',
                        help='draw figures (PNG) into DIR (default: %(default)s)')
    shared.add_argument('--data', type=pathlib.Path, metavar='DIR', default=data / 'bench',
                        help="data directory of the benchmarks' own Ceph, wiped before and "
                             'after; the one of their cloud is beside it (default: %(default)s)')
    shared.add_argument('--port', type=int, default=DEFAULT_PORT,
                        help='first of the 200 ports that are used (default: %(default)s)')
    shared.add_argument('--traces', type=pathlib.Path, metavar='DIR',
                        default=os.environ.get('SPECREDS_TRACES'),
                        help=f'where {trace.RECORDING}.blktrace.fio and its .omap are (default: '
                             '$SPECREDS_TRACES, else */traces beside the checkout)')
    shared.add_argument('--network', choices=layout.NETWORKS, default=layout.NETWORKS[0],
                        help="what connects the servers of nova and failover: Neutron's agents of "
                             'Open vSwitch, those with distributed routers and VXLAN, or OVN '
                             '(default: %(default)s)')
    shared.add_argument('--keep', action='store_true',
                        help='leave the Ceph and the cloud up afterwards')
    made = argparse.ArgumentParser(prog='./run bench', description='Run the benchmarks.')
    commands_ = made.add_subparsers(dest='name', required=True)
    for name in (*NAMES, 'all'):
        command = commands_.add_parser(name, parents=[shared])
        if name in ('soak', 'all'):
            _add_soak(command)
        if name == OPINION:
            command.add_argument('--drills', type=int, default=DRILLS, metavar='N',
                                 help='how often a host is cut off while its sentinel '
                                      'answers (default: %(default)s)')
        if name == FAILOVER:
            command.add_argument('--peer', choices=['masakari'],
                                 help='measure only how long the database is not served if the '
                                      'engine recovers it, and if this other project does')
    falsepositives.add_arguments(
        commands_.add_parser(falsepositives.NAME, help=falsepositives.HELP),
        data / 'bench-figures')
    paper.add_arguments(commands_.add_parser(paper.NAME, help=paper.HELP), data, DEFAULT_PORT,
                        os.environ.get('SPECREDS_TRACES'))
    return made


def _add_soak(parser: argparse.ArgumentParser) -> None:
    """Add the options of the soak."""
    group = parser.add_argument_group('soak')
    group.add_argument('--rounds', type=int, metavar='N',
                       help=f'how many races (default: {RACES}, with --quick {QUICK_RACES})')
    group.add_argument('--seed', type=int, default=1, metavar='S',
                       help='what the races are drawn from (default: %(default)s)')
    group.add_argument('--jobs', type=int, default=1, metavar='N',
                       help='races that take place at the same time, each on volumes of its own '
                            'and with a controller of its own (default: %(default)s)')
    group.add_argument('--hostile', action='store_true',
                       help='also race on namespaces, clones and erasure-coded data pools, while '
                            'OSDs hang, die and are marked down, monitors hang, die and elect a '
                            'leader, placement groups are split and merged, get other primary '
                            'OSDs, and move to other OSDs; some promoted backups hang until they '
                            'were merged, and wake; some rounds have two attempts, and some '
                            'primaries are QEMU with a cache')
