# SPDX-License-Identifier: Apache-2.0
"""The command line of `./run devstack`."""

import argparse
from collections.abc import Mapping
import dataclasses
import os
import pathlib

from cloud import commands
from cloud.devstack import devstack
from cloud.devstack import layout
from cloud.devstack import repositories
from cloud.devstack import tempest

REPOSITORIES = 'SPECREDS_DEVSTACK_REPOSITORIES'
FROM_PACKAGES = 'SPECREDS_DEVSTACK_FROM_PACKAGES'
_NODES = range(1, len(layout.NODES) + 1)
_DESCRIPTION = f"""\
Run a real DevStack, with this checkout's last commit as plug-in, in a container on this machine.
With --nodes 2 or 3, further containers are further compute hosts.

A container has systemd as its first process, and a network of its own: a bridge on this machine
({layout.DEFAULT_SUBNET}), from which it reaches others, and by which others do not reach it.
stack.sh runs there as anywhere, with devstack-plugin-ceph; Ceph is one OSD of the distribution's
packages. Servers run without KVM.
"""
_EPILOG = f"""\
examples:
  ./run devstack up                  a quarter of an hour, from the developers' repositories
  ./run devstack up --nodes 2        and a second compute host, which tests may kill
  ./run devstack up --nodes 3        and a third one, for tests in which two hosts die
  ./run devstack up --platform debian-13 --network ovn
  ./run devstack test                this project's tests, then OpenStack's with the tag smoke
  ./run devstack test tempest_plugin.api
  ./run devstack shell               a shell as the user stack, in DevStack's directory
  ./run devstack shell sudo journalctl -u devstack@specreds-engine
  ./run devstack shell --node 2 sudo virsh list
  ./run devstack down                stops it; up starts it again
  ./run devstack wipe                removes it, and takes the changes to this machine back

where no git host can be reached:
  ./run devstack up --from-packages --repository devstack=/path/to/devstack \\
      --repository devstack-plugin-ceph=/path --repository requirements=/path \\
      --repository os-test-images=/path
  Services come from the source distributions of the package index, at the versions of
  constraints.txt; the image is this project's guest g1.

environment:
  {REPOSITORIES}     NAME=ADDRESS, with spaces between; --repository overrides it
  {FROM_PACKAGES}    1: as --from-packages
"""


def parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    data = pathlib.Path(environment.get('SPECREDS_DATA', '.data'))
    top = argparse.ArgumentParser(prog='./run devstack', description=_DESCRIPTION, epilog=_EPILOG,
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
    top.add_argument('--data', metavar='DIR', type=pathlib.Path, default=data / 'devstack',
                     help='(default: %(default)s)')
    top.add_argument('--cache', metavar='DIR', type=pathlib.Path,
                     default=data / 'matrix' / 'cache',
                     help='directory of fresh roots, shared with ./run matrix '
                          '(default: %(default)s)')
    actions = top.add_subparsers(dest='action', required=True)
    _add_up(actions.add_parser(
        'up', help='make what is missing, start what does not run, run stack.sh if it has not '
                   'succeeded'), environment)
    actions.add_parser('status', help='list its services; exit status 3 if it is not up')
    test = actions.add_parser('test', help="run Tempest's tests")
    test.add_argument('regex', nargs='?', metavar='REGEX',
                      help=f'tests whose name matches (default: {" and ".join(tempest.SETS)}: '
                           f'{" and ".join(tempest.SETS.values())})'.replace('%', '%%'))
    shell = actions.add_parser('shell', help='run a shell or a command as the user stack')
    shell.add_argument('--node', type=int, choices=_NODES, default=1, help='(default: 1)')
    shell.add_argument('command', nargs=argparse.REMAINDER)
    actions.add_parser('down', help="stop the containers, and restore this machine's network")
    wipe = actions.add_parser('wipe', help='the same, and remove the containers')
    wipe.add_argument('--cached', action='store_true', help='and the fresh root in the cache')
    return top


def _add_up(up: argparse.ArgumentParser, environment: Mapping[str, str]) -> None:
    up.add_argument('--repository', action='append', metavar='NAME=ADDRESS',
                    default=environment.get(REPOSITORIES, '').split(),
                    help="any address that git clones, instead of the developers'; NAME is one "
                         f'of {", ".join(repositories.NAMES)}; may be repeated')
    up.add_argument('--from-packages', action='store_true',
                    default=environment.get(FROM_PACKAGES) == '1',
                    help='clone and download only what is no package: see ./run devstack --help')
    up.add_argument('--platform', choices=layout.PLATFORMS,
                    help='distribution of the containers, chosen once (default: '
                         f'{layout.PLATFORMS[0]})')
    up.add_argument('--network', choices=layout.NETWORKS,
                    help='what wires servers, chosen once (default: '
                         f'{layout.NETWORKS[0]})')
    up.add_argument('--nodes', type=int, choices=_NODES, default=1,
                    help='compute hosts; those that exist are started in any case '
                         '(default: 1)')
    up.add_argument('--subnet', default=layout.DEFAULT_SUBNET,
                    help='IPv4 subnet of the containers, which nothing else here uses '
                         '(default: %(default)s)')
    up.add_argument('--mirror', metavar='URL', help="archive to take the distribution's packages "
                                                    'from (default: as apt has it here)')


def run(args: argparse.Namespace, progress: commands.Progress) -> int:
    """Do what the command line says.

    :returns: the exit status
    :raises CloudError: it cannot be done
    """
    if os.geteuid():
        raise commands.CloudError('./run devstack needs root: it runs a container, and changes '
                                  'the network of this machine')
    data = args.data.absolute()
    known = layout.Choices.load(data)
    choices = _choose(known, args) if args.action == 'up' else known or layout.Choices()
    files = layout.Layout(data, args.cache.absolute(), choices=choices)
    stack = devstack.Devstack(files)
    if args.action == 'up':
        return _up(stack, files, args, progress)
    if args.action == 'status':
        for name, state in stack.status():
            print(f'{name:40} {state}')
        return 0 if stack.healthy else 3
    if args.action == 'test':
        return _test(stack, args, progress)
    if args.action == 'shell':
        return stack.shell(args.node - 1, args.command or ['bash', '-i'])
    if args.action == 'down':
        stack.down(progress)
    else:
        stack.wipe(args.cached, progress)
    progress(f'DevStack is {"down" if args.action == "down" else "wiped"}')
    return 0


def _choose(known: layout.Choices | None, args: argparse.Namespace) -> layout.Choices:
    chosen = {name: value for name in ('platform', 'network')
             if (value := getattr(args, name)) is not None}
    choices = dataclasses.replace(known or layout.Choices(), **chosen)
    if known and choices != known:
        raise commands.CloudError(f'this DevStack is on {known.platform}, with {known.network}: '
                                  './run devstack wipe first, or name another --data')
    return choices


def _up(stack: devstack.Devstack, files: layout.Layout, args: argparse.Namespace,
        progress: commands.Progress) -> int:
    try:
        layout.addresses(args.subnet)
    except ValueError as exc:
        raise commands.CloudError(f'--subnet {args.subnet}: {exc}') from exc
    repos = repositories.Repositories(files, repositories.given(args.repository),
                                      args.from_packages)
    files.choices.save(files.data)
    stack.up(args.nodes, args.subnet, repos, args.mirror, progress)
    progress('DevStack is up: ./run devstack test, ./run devstack shell')
    return 0


def _test(stack: devstack.Devstack, args: argparse.Namespace,
          progress: commands.Progress) -> int:
    sets = {'chosen': args.regex} if args.regex else tempest.SETS
    results = stack.test(sets, progress)
    for title, totals in results.items():
        print(f'{title}: {totals}')
    return 1 if any(totals.failed for totals in results.values()) else 0
