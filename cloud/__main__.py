# SPDX-License-Identifier: Apache-2.0
"""The command line of `./run ceph`, `./run cloud` and `./run tempest`."""

import argparse
import functools
import os
import signal
import sys

from cloud import ceph
from cloud import cloud_cli
from cloud import commands
from cloud import layout
from cloud import tempest


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='./run', description=__doc__)
    areas = parser.add_subparsers(dest='area', required=True)
    area = areas.add_parser('ceph', help='a real Ceph on this machine')
    actions = area.add_subparsers(dest='action', required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument('--data', metavar='DIR', help='data directory (default: %(default)s)',
                        default=os.path.join(os.environ.get('SPECREDS_DATA', '.data'), 'ceph'))
    up = actions.add_parser('up', parents=[shared],
                            help='create it if it is not there, start what is not running')
    up.add_argument('--port', type=int,
                    help=f'first of the {layout.PORTS} ports that it uses '
                         f'(default: {layout.DEFAULT_PORT})')
    up.add_argument('--osds', type=int, help='number of OSDs (default: 3)')
    up.add_argument('--pgs', type=int, help='placement groups of a pool (default: 32)')
    up.add_argument('--osd-gib', type=int, metavar='GIB',
                    help='size of an OSD in GiB; the file is sparse (default: 20)')
    up.add_argument('--ipv6', action='store_true', default=None,
                    help='listen on ::1 instead of 127.0.0.1')
    actions.add_parser('status', parents=[shared], help='say what it is doing')
    actions.add_parser('down', parents=[shared], help='stop it, keep the data')
    actions.add_parser('wipe', parents=[shared], help='stop it, remove the data')
    cloud_cli.add(areas)
    tempest.add(areas)
    return parser


def _print_status(cluster: ceph.Ceph) -> bool:
    status = cluster.status()
    for process in status.processes:
        print(f'{process.name:8} {process.state.lower():10} {process.pid or "-"}')
    print(f'health   {status.health}')
    print(f'osds     {status.osds_up} of {cluster.settings.osds} up')
    print(f'pgs      {status.pgs_clean} of {status.pgs} active and clean')
    print(f'monitor  {cluster.settings.monitor}')
    print(f'conf     {cluster.conf} (client.cinder), {cluster.admin_conf} (client.admin)')
    return status.health != 'DOWN'


def _run_ceph(args: argparse.Namespace, progress: commands.Progress) -> int:
    if args.action == 'up':
        cluster = ceph.Ceph(args.data, port=args.port, osds=args.osds, ipv6=args.ipv6,
                            pg_num=args.pgs, osd_bytes=args.osd_gib and args.osd_gib * layout.GIB)
        cluster.up(progress)
        progress(f'ceph is up: {cluster.conf}')
        return 0
    cluster = ceph.Ceph(args.data)
    if args.action == 'status':
        return 0 if _print_status(cluster) else 3
    getattr(cluster, args.action)(progress)
    progress(f'ceph is {"wiped" if args.action == "wipe" else "down"}: {cluster.files.root}')
    return 0


def main() -> int:
    """:return: the exit status: 1 for an error, 3 if `status` finds it down"""
    args = _parser().parse_args()
    # Whatever runs on behalf of this program is seen to its end.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    run = {'ceph': _run_ceph, 'cloud': cloud_cli.run, 'tempest': tempest.run}[args.area]
    return commands.main(functools.partial(run, args), 'the same command again continues')


if __name__ == '__main__':
    sys.exit(main())
