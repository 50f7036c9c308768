# SPDX-License-Identifier: Apache-2.0
"""Run the benchmarks that a command line names."""

import argparse
from collections.abc import Callable
import functools
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
from bench import options
from bench import overwrites
from bench import progress
from bench import replay
from bench import report
from bench import simulation
from bench import soak
from bench import stall
from bench import superbench
from bench import trace
from bench import wal
from bench.falsepositives import cli as falsepositives
from bench.falsepositives import options as falsepositives_options
from bench.paper import cli as paper
from bench.paper import options as paper_options
from bench.scale import engine as one_engine
from bench.scale import rack
from cloud import commands
from cloud.demo import outcome
from specreds_cinder.superposition import errors

_QUICK_ROUNDS = 5
_FULL_ROUNDS = 9
_HOSTS = 2
_FAILURES = (commands.CloudError, exports.ExportFailed, fio.FioFailed, trace.BadTrace,
             errors.SuperError, keystone_exceptions.ClientException, RuntimeError)
Figures = dict[str, str | float]


def main(args: argparse.Namespace) -> int:
    """Run a benchmark.

    :return: the exit status: 1 for an error, or servers that are not served; 0 even if a
        figure does not meet its bar
    """
    # SIGTERM has to run the clean-up, too, which ends Ceph and the cloud.
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def work() -> int:
        if args.name == falsepositives_options.NAME:
            return falsepositives.run(args)
        if args.name == paper_options.NAME:
            return paper.run(args, _FAILURES)
        return _run(args)
    return commands.status(work, _FAILURES)


def _run(args: argparse.Namespace) -> int:
    # All that needs nothing but Ceph.
    names = options.ON_CEPH if args.name == 'all' else (args.name,)
    tell = progress.Progress(names)
    recording = replay.find(args.traces) if 'disk' in names else None
    if 'disk' in names and recording is None:
        tell.say(f'no trace {trace.RECORDING} found: the replay is left out (see --traces)')
    rounds = _QUICK_ROUNDS if args.quick else _FULL_ROUNDS
    figures: Figures = dict(environment.facts())

    def keep(name: str, measured: dict[str, float]) -> None:
        figures.update(measured)
        print(f'\n{report.details(figures, name)}\n', flush=True)
        if args.json:
            # After each, so that a failure of a later one does not lose it.
            report.write(args.json, figures)

    on_ceph = [name for name in names if name in options.ON_CEPH]
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
                options.OVERWRITES: lambda: overwrites.run(env),
                'soak': lambda: soak.run(args, network),
            }
            for name in on_ceph:
                keep(name, measures[name]())
    if options.CINDER in names:
        data = args.data.with_name(f'{args.data.name}-cloud')
        with environment.cloud(data, args.port, tell, args.keep, hosts=0) as cloud:
            keep(options.CINDER, cinder.run(cloud, tell, rounds, args.figures))
    if options.NOVA in names:
        data = args.data.with_name(f'{args.data.name}-hosts')
        with environment.cloud(data, args.port, tell, args.keep, hosts=_HOSTS,
                               network=args.network) as cloud:
            keep(options.NOVA, nova.run(cloud, tell, rounds))
    cloud_with_engines = functools.partial(
        environment.cloud, args.data.with_name(f'{args.data.name}-engines'), args.port, tell,
        args.keep, hosts=failover.HOSTS, engines=failover.ENGINES, network=args.network)
    if options.FAULTS in names:
        with cloud_with_engines() as cloud:
            keep(options.FAULTS, failover.run_faults(cloud, tell))
    if options.OPINION in names:
        with cloud_with_engines() as cloud:
            keep(options.OPINION, opinion.run(cloud, tell, args.drills))
    if options.STALL in names:
        with cloud_with_engines() as cloud:
            keep(options.STALL, stall.run(cloud, tell, args.quick))
    if options.WAL in names:
        with cloud_with_engines() as cloud:
            keep(options.WAL, wal.run(cloud, tell, args.quick))
    if options.FAILOVER in names:
        with cloud_with_engines() as cloud:
            keep(options.FAILOVER, failover.run_peer(cloud, tell) if args.peer
                 else failover.run(cloud, tell, args.quick))
        print(f'{report.side_by_side(figures, failover.COLUMNS, outcome.PHASES)}\n')
        if not args.peer:
            tell.say('60 servers of one simulated host')
            keep('scale', one_engine.run())
            names = (*names, *failover.MORE)
    if options.DISPATCH in names:
        keep(options.DISPATCH, dispatch.run(args.quick, args.figures))
    if options.HOOK in names:
        keep(options.HOOK, hostile.run())
    if options.SIMULATE in names:
        keep(options.SIMULATE, simulation.run(args.quick))
    if options.SCALE in names:
        def keep_part(measured: dict[str, float]) -> None:
            if args.json:
                report.write(args.json, figures | measured)
        keep(options.SCALE, rack.run(tell, args.quick, args.port, keep_part))
    print(report.table(figures, names))
    for key in report.missed(figures):
        print(f'bar missed: {key}')
    tell.say(f'done; figures in {args.figures}')
    if unserved := rack.unserved(figures):
        print(f'failed: {unserved} servers of the rack are not served')
        return 1
    return 0
