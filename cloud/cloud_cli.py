# SPDX-License-Identifier: Apache-2.0
"""The command line of `./run cloud`."""

import argparse
import os
import pathlib

from cloud import cloud as openstack_cloud
from cloud import commands
from cloud.hosts import cli as hosts_cli
from cloud.openstack import layout


def add(areas: 'argparse._SubParsersAction[argparse.ArgumentParser]') -> None:
    """Add the area to the command line."""
    area = areas.add_parser('cloud', help='a real OpenStack on this machine, with compute hosts')
    actions = area.add_subparsers(dest='action', required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument('--data', metavar='DIR', help='data directory (default: %(default)s)',
                        default=os.path.join(os.environ.get('SPECREDS_DATA', '.data'), 'cloud'))
    up = actions.add_parser('up', parents=[shared],
                            help='create it if it is not there, start what is not running')
    up.add_argument('--port', type=int,
                    help=f'first of the {layout.PORTS} ports that it uses; ports of its Ceph '
                         f'follow (default: {layout.DEFAULT_PORT})')
    up.add_argument('--backends', type=int, metavar='N',
                    help='number of back ends, each with a pool and a Ceph user (default: 2)')
    up.add_argument('--hosts', type=int, metavar='N',
                    help='number of simulated compute hosts; with 0 there is only block storage '
                         f'(default: {layout.DEFAULT_HOSTS})')
    up.add_argument('--cells', type=int, metavar='N',
                    help="number of Nova's cells, each with a broker and a conductor of its own; "
                         'with 2, the last host is alone in the first cell (default: 1)')
    up.add_argument('--firewall', choices=layout.FIREWALLS,
                    help="firewall driver of Neutron's agents on the hosts (default: "
                         f'{layout.FIREWALLS[0]})')
    up.add_argument('--network', choices=layout.NETWORKS,
                    help="what connects servers: Neutron's agents of Open vSwitch, those with "
                         'distributed routers and VXLAN, or OVN '
                         f'(default: {layout.NETWORKS[0]})')
    up.add_argument('--disks', choices=layout.DISKS,
                    help='where Nova keeps disks that are no volumes: in files of each host, in '
                         'RBD, or in RBD with backups of their servers (default: '
                         f'{layout.DISKS[0]})')
    up.add_argument('--cachemodes', metavar='MODES',
                    help="Nova's disk_cachemodes on the hosts, for example network=writeback "
                         '(default: as Nova has it, no cache of volumes)')
    up.add_argument('--dedicated-cpus', action='store_true', default=None,
                    help='keep all processors of the hosts but the first one for servers with '
                         'pinned CPUs; needs two')
    up.add_argument('--extra-backend', action='append', metavar='NAME=POOL,USER,CONF',
                    help='a back end on another Ceph; can be given several times')
    up.add_argument('--clustered', action=argparse.BooleanOptionalAction,
                    help='one more back end, rbd-shared, which two volume services share')
    up.add_argument('--plain', action=argparse.BooleanOptionalAction,
                    help='Cinder and Nova without the plug-ins of this project')
    up.add_argument('--engines', type=int, metavar='N',
                    help='number of processes of specreds-engine, where there are compute hosts '
                         f'with the plug-in (default: {layout.DEFAULT_ENGINES})')
    actions.add_parser('status', parents=[shared],
                       help='say what each service does, and what is wrong')
    logs = actions.add_parser('logs', parents=[shared], help='show a log, or list the logs')
    logs.add_argument('service', nargs='?')
    logs.add_argument('-f', '--follow', action='store_true', help='go on with what is added')
    logs.add_argument('-n', '--lines', type=int, default=100,
                      help='how many of the last lines (default: %(default)s)')
    restart = actions.add_parser('restart', parents=[shared], help='restart services')
    restart.add_argument('service', nargs='+')
    hosts_cli.add(actions, shared)
    actions.add_parser('down', parents=[shared], help='stop it, keep the data')
    actions.add_parser('wipe', parents=[shared], help='stop it, remove the data')


def run(args: argparse.Namespace, progress: commands.Progress) -> int:
    """Run the command of the command line.

    :return: the exit status: 3 if `status` finds that something is wrong
    :raises CloudError: the command failed
    """
    if args.action == 'up':
        return _up(args, progress)
    cloud = openstack_cloud.Cloud(args.data)
    if args.action == 'status':
        return _status(cloud)
    if args.action == 'host':
        return hosts_cli.run(cloud.hosts, args, progress)
    if args.action == 'logs':
        return _logs(cloud, args)
    if args.action == 'restart':
        for name in args.service:
            progress(f'restarting {name}')
            cloud.restart_daemon(name)
        cloud.wait_ready()
        return 0
    getattr(cloud, args.action)(progress)
    progress(f'the cloud is {"wiped" if args.action == "wipe" else "down"}: {cloud.files.root}')
    return 0


def _up(args: argparse.Namespace, progress: commands.Progress) -> int:
    extra = args.extra_backend and [layout.Backend.parse(text) for text in args.extra_backend]
    hosts = args.hosts
    engines = args.engines
    if layout.Layout(pathlib.Path(args.data)).load() is None:
        hosts = layout.DEFAULT_HOSTS if hosts is None else hosts
        engines = layout.DEFAULT_ENGINES if engines is None else engines
    cloud = openstack_cloud.Cloud(args.data, port=args.port, backends=args.backends,
                                  extra_backends=extra, clustered=args.clustered,
                                  plain=args.plain, hosts=hosts, engines=engines,
                                  firewall=args.firewall, network=args.network,
                                  disks=args.disks, cachemodes=args.cachemodes,
                                  dedicated_cpus=args.dedicated_cpus, cells=args.cells)
    cloud.up(progress)
    progress(f'the cloud is up; to use it, type: . {cloud.openrc()}')
    print(f'openrc: {cloud.openrc()}', flush=True)
    return 0


def _status(cloud: openstack_cloud.Cloud) -> int:
    checks = cloud.status()
    width = max(len(check.name) for check in checks)
    for check in checks:
        line = f'{check.name:{width}}  {"ok" if check.good else "WRONG":5}  {check.words}'
        print(line if check.good else f'{line}; see {check.log}')
    if all(check.good for check in checks if check.name in cloud.programs):
        for line in cloud.contents():
            print(line)
    return 0 if all(check.good for check in checks) else 3


def _logs(cloud: openstack_cloud.Cloud, args: argparse.Namespace) -> int:
    if args.service:
        os.execvp('tail', ['tail', '-n', str(args.lines), *(['-F'] if args.follow else []), '--',
                           str(cloud.log_of(args.service))])
    logs = {name: log for name, log in cloud.logs.items() if log.exists()}
    if not logs:
        raise commands.CloudError(f'nothing has ever been started in {cloud.files.root}')
    logs['ceph'] = cloud.ceph.files.log
    width = max(map(len, logs))
    for name, log in logs.items():
        print(f'{name:{width}}  {log}')
    return 0
