# SPDX-License-Identifier: Apache-2.0
"""The command line of ``./run bench``."""

import argparse
from collections.abc import Callable
import functools
import os
import pathlib
import signal

from keystoneauth1 import exceptions as keystone_exceptions

from bench import cinder
from bench import collapse
from bench import disk
from bench import dispatch
from bench import environment
from bench import exports
from bench import failover
from bench import fio
from bench import hostile
from bench import merge
from bench import nova
from bench import opinion
from bench import overwrites
from bench import progress
from bench import replay
from bench import report
from bench import simulation
from bench import soak
from bench import superbench
from bench import trace
from bench.falsepositives import cli as falsepositives
from bench.paper import cli as paper
from bench.scale import engine as one_engine
from bench.scale import rack
from cloud import commands
from cloud.demo import outcome
from cloud.openstack import layout
from specreds_cinder.superposition import errors

_DEFAULT_PORT = 17800
_QUICK_ROUNDS = 5
_FULL_ROUNDS = 9
_ON_CEPH = ('disk', 'super', 'collapse', 'merge', overwrites.NAME, 'soak')
_CINDER = 'cinder'
_NOVA = 'nova'
_HOSTS = 2
_FAILOVER = 'failover'
_FAULTS = 'faults'
_NAMES = (*_ON_CEPH, _CINDER, _NOVA, _FAILOVER, _FAULTS, opinion.NAME, dispatch.NAME, hostile.NAME,
          rack.NAME, simulation.NAME)
_FAILURES = (commands.CloudError, exports.ExportFailed, fio.FioFailed, trace.BadTrace,
             errors.SuperError, keystone_exceptions.ClientException, RuntimeError)
Figures = dict[str, str | float]


def main() -> int:
    """:return: the exit status: 1 for an error, or servers that are not served; 0 even if a
        figure does not meet its bar
    """
    args = _parser().parse_args()
    # SIGTERM has to run the clean-up, too, which ends Ceph and the cloud.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def work() -> int:
        if args.name == falsepositives.NAME:
            return falsepositives.run(args)
        if args.name == paper.NAME:
            return paper.run(args, _FAILURES)
        return _run(args)
    return commands.status(work, _FAILURES)


def _parser() -> argparse.ArgumentParser:
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
                             'after; that of their cloud is beside it (default: %(default)s)')
    shared.add_argument('--port', type=int, default=_DEFAULT_PORT,
                        help='first of the 200 ports that are used (default: %(default)s)')
    shared.add_argument('--traces', type=pathlib.Path, metavar='DIR',
                        default=os.environ.get('SPECREDS_TRACES'),
                        help=f'where {replay.NAME}.blktrace.fio and its .omap are (default: '
                             '$SPECREDS_TRACES, else */traces beside the checkout)')
    shared.add_argument('--network', choices=layout.NETWORKS, default=layout.NETWORKS[0],
                        help="what connects the servers of nova and failover: Neutron's agents of "
                             'Open vSwitch, those with distributed routers and VXLAN, or OVN '
                             '(default: %(default)s)')
    shared.add_argument('--keep', action='store_true',
                        help='leave the Ceph and the cloud up afterwards')
    parser = argparse.ArgumentParser(prog='./run bench', description=__doc__)
    commands_ = parser.add_subparsers(dest='name', required=True)
    for name in (*_NAMES, 'all'):
        command = commands_.add_parser(name, parents=[shared])
        if name in ('soak', 'all'):
            soak.add_arguments(command)
        if name == opinion.NAME:
            command.add_argument('--drills', type=int, default=opinion.DRILLS, metavar='N',
                                 help='how often nova-compute is killed while the sentinel '
                                      'answers (default: %(default)s)')
        if name == _FAILOVER:
            command.add_argument('--peer', choices=['masakari'],
                                 help='measure only how long the database is not served if the '
                                      'engine recovers it, and if this other project does')
    falsepositives.add_arguments(
        commands_.add_parser(falsepositives.NAME, help=falsepositives.HELP),
        data / 'bench-figures')
    paper.add_arguments(commands_.add_parser(paper.NAME, help=paper.HELP), data, _DEFAULT_PORT,
                        os.environ.get('SPECREDS_TRACES'))
    return parser


def _run(args: argparse.Namespace) -> int:
    # All that needs nothing but Ceph.
    names = _ON_CEPH if args.name == 'all' else (args.name,)
    tell = progress.Progress(names)
    recording = replay.find(args.traces) if 'disk' in names else None
    if 'disk' in names and recording is None:
        tell.say(f'no trace {replay.NAME} found: the replay is left out (see --traces)')
    rounds = _QUICK_ROUNDS if args.quick else _FULL_ROUNDS
    figures: Figures = dict(environment.facts())

    def keep(name: str, measured: dict[str, float]) -> None:
        figures.update(measured)
        print(f'\n{report.details(figures, name)}\n', flush=True)
        if args.json:
            # After each, so that a failure of a later one does not lose it.
            report.write(args.json, figures)

    on_ceph = [name for name in names if name in _ON_CEPH]
    if on_ceph:
        with soak.network(args) as network, \
                environment.cluster(args.data, args.port, tell, args.keep, soak.monitors(args),
                                    network.address if network else None,
                                    soak.osds(args)) as own, \
                environment.environment(own, tell, args.quick, rounds, args.figures) as env:
            measures: dict[str, Callable[[], dict[str, float]]] = {
                'disk': lambda: disk.run(env, recording),
                'super': lambda: superbench.run(env),
                'collapse': lambda: collapse.run(env),
                'merge': lambda: merge.run(env),
                overwrites.NAME: lambda: overwrites.run(env),
                'soak': lambda: soak.run(args, network),
            }
            for name in on_ceph:
                keep(name, measures[name]())
    if _CINDER in names:
        data = args.data.with_name(f'{args.data.name}-cloud')
        with environment.cloud(data, args.port, tell, args.keep, hosts=0) as cloud:
            keep(_CINDER, cinder.run(cloud, tell, rounds, args.figures))
    if _NOVA in names:
        data = args.data.with_name(f'{args.data.name}-hosts')
        with environment.cloud(data, args.port, tell, args.keep, hosts=_HOSTS,
                               network=args.network) as cloud:
            keep(_NOVA, nova.run(cloud, tell, rounds))
    cloud_with_engines = functools.partial(
        environment.cloud, args.data.with_name(f'{args.data.name}-engines'), args.port, tell,
        args.keep, hosts=failover.HOSTS, engines=failover.ENGINES, network=args.network)
    if _FAULTS in names:
        with cloud_with_engines() as cloud:
            keep(_FAULTS, failover.run_faults(cloud, tell))
    if opinion.NAME in names:
        with cloud_with_engines() as cloud:
            keep(opinion.NAME, opinion.run(cloud, tell, args.drills))
    if _FAILOVER in names:
        with cloud_with_engines() as cloud:
            keep(_FAILOVER, failover.run_peer(cloud, tell) if args.peer
                 else failover.run(cloud, tell, args.quick))
        print(f'{report.side_by_side(figures, failover.COLUMNS, outcome.PHASES)}\n')
        if not args.peer:
            tell.say('60 servers of one simulated host')
            keep('scale', one_engine.run())
            names = (*names, *failover.MORE)
    if dispatch.NAME in names:
        keep(dispatch.NAME, dispatch.run(args.quick, args.figures))
    if hostile.NAME in names:
        keep(hostile.NAME, hostile.run())
    if simulation.NAME in names:
        keep(simulation.NAME, simulation.run(args.quick))
    if rack.NAME in names:
        def keep_part(measured: dict[str, float]) -> None:
            if args.json:
                report.write(args.json, figures | measured)
        keep(rack.NAME, rack.run(tell, args.quick, args.port, keep_part))
    print(report.table(figures, names))
    for key in report.missed(figures):
        print(f'bar missed: {key}')
    tell.say(f'done; figures in {args.figures}')
    if unserved := rack.unserved(figures):
        print(f'failed: {unserved} servers of the rack are not served')
        return 1
    return 0
