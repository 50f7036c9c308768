# SPDX-License-Identifier: Apache-2.0
"""The command line of `./run cloud host`."""

import argparse
import os

from cloud import commands
from cloud.hosts import hosts as all_hosts
from cloud.hosts import layout as hosts_layout

_ACTIONS = {
    'kill': 'switch hosts off at once, as a power failure does',
    'hang': 'freeze everything that runs on hosts',
    'resume': 'let everything go on that hang has frozen',
    'boot': 'start hosts that are off, and services of theirs that do not run',
    'cut': 'cut hosts off from networks',
    'heal': 'connect hosts with networks again; with all if none is named',
}


def add(actions: 'argparse._SubParsersAction[argparse.ArgumentParser]',
        shared: argparse.ArgumentParser) -> None:
    """Add the action to the command line.

    :param shared: the options that every action has
    """
    action = actions.add_parser('host', help='what the compute hosts do, and accidents')
    does = action.add_subparsers(dest='does', required=True)
    does.add_parser('list', parents=[shared], help='say what each host does')
    for name, words in _ACTIONS.items():
        parser = does.add_parser(name, parents=[shared], help=words)
        parser.add_argument('names', nargs='+', metavar='NAME', help='a host, such as cn1')
        if name in ('cut', 'heal'):
            for network in hosts_layout.NETWORKS:
                parser.add_argument(f'--{network}', action='store_true',
                                    help=f'the {network} network')
    restart = does.add_parser('restart', parents=[shared], help='restart a service of a host')
    restart.add_argument('names', nargs=1, metavar='NAME', help='a host, such as cn1')
    restart.add_argument('service', nargs='+', help='such as nova-compute')
    inside = does.add_parser('exec', parents=[shared], help='run a program in a host')
    inside.add_argument('names', nargs=1, metavar='NAME', help='a host, such as cn1')
    inside.add_argument('argv', nargs=argparse.REMAINDER, metavar='COMMAND')
    client = does.add_parser('client', parents=[shared],
                             help="run a program as a client of the tenants' servers")
    client.add_argument('argv', nargs=argparse.REMAINDER, metavar='COMMAND')


def _exec(hosts: all_hosts.Hosts, args: argparse.Namespace) -> list[str]:
    return hosts.host(args.names[0]).argv(_words(args))


def _client(hosts: all_hosts.Hosts, args: argparse.Namespace) -> list[str]:
    return hosts.tenant.argv(_words(args))


def _words(args: argparse.Namespace) -> list[str]:
    words: list[str] = args.argv[1:] if args.argv[:1] == ['--'] else args.argv
    if not words:
        raise commands.CloudError('say what to run')
    return words


# What another program does in our place.
_PROGRAMS = {'exec': _exec, 'client': _client}


def run(hosts: all_hosts.Hosts, args: argparse.Namespace, progress: commands.Progress) -> int:
    """Run the command of the command line.

    :return: the exit status
    :raises CloudError: the command failed
    """
    if args.does == 'list':
        for check in hosts.status():
            print(f'{check.name:5} {hosts.host(check.name).state:8} {check.words}')
        return 0
    if args.does in _PROGRAMS:
        words = _PROGRAMS[args.does](hosts, args)
        os.execvp(words[0], words)
    for host in map(hosts.host, args.names):
        if args.does == 'restart':
            for service in args.service:
                progress(f'{host.name}: restarting {service}')
                host.restart(service)
        elif args.does in ('cut', 'heal'):
            chosen = {network: getattr(args, network) for network in hosts_layout.NETWORKS}
            if args.does == 'cut' and not any(chosen.values()):
                raise commands.CloudError('say what to cut: --control, --storage, --tenant')
            getattr(host, args.does)(**chosen)
            progress(f'{host.name}: cut off from {", ".join(host.cuts) or "nothing"}')
        else:
            getattr(host, args.does)()
            progress(f'{host.name} is {host.state}')
    return 0
