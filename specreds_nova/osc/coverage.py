# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative coverage`` and ``openstack speculative simulate``."""

import argparse
from collections.abc import Mapping

from osc_lib.command import command

from specreds_nova.osc import base
from specreds_nova.osc import shown

_GROUPS = ('project', 'flavor', 'image', 'aggregate')


def _add_what(parser: argparse.ArgumentParser) -> None:
    what = parser.add_mutually_exclusive_group()
    what.add_argument('--by', choices=_GROUPS, default=_GROUPS[0],
                      help='what the sums are for (default: %(default)s)')
    what.add_argument('--servers', action='store_true',
                      help='list each server, with the reasons why it has no backup')
    what.add_argument('--hosts', action='store_true',
                      help='list the hosts whose servers are not recovered at the moment')


def _add_hosts(parser: argparse.ArgumentParser) -> None:
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument('--host', metavar='<host>', action='append', dest='hosts',
                       help='a host that fails (repeat for several)')
    which.add_argument('--aggregate', metavar='<aggregate>',
                       help='all hosts of this aggregate fail, by its name')


class Coverage(base.SpeculativeCommand, command.Lister):
    """Report what servers would get if their hosts failed, in sums or for each server.

    "speculative": a backup. "evacuated": it is fenced, and evacuated by Nova. "failed": it can
    have neither. "none": it is not protected, or Nova is at work on it. "without room": no other
    host has room if its host fails; "without room of two": if another host fails at the same time.
    Room is an estimate by Placement. The answer is at most five minutes old. It does not depend on
    modes: "--hosts" lists the hosts whose servers are not recovered at the moment, and why.
    """

    arguments = (_add_what,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        coverage = self.client.coverage()
        if parsed_args.hosts:
            return ('Host', 'Reasons'), [
                (host, shown.lines(reasons)) for host, reasons in coverage['hosts'].items()]
        if parsed_args.servers:
            return (tuple(shown.COVERED.values()),
                    [shown.row(server, shown.COVERED) for server in coverage['servers']])
        sums: Mapping[str, Mapping[str, int]] = {'(all)': coverage['sums']['all'],
                                   **coverage['sums'][parsed_args.by]}
        return ((parsed_args.by.title(), *shown.SUMS.values()),
                [(name, *(counts[each] for each in shown.SUMS)) for name, counts in sums.items()])


class Simulate(base.SpeculativeCommand, command.Lister):
    """Report what would become of the servers of hosts that fail together, in order.

    Nothing is begun. Destinations are an estimate by Placement. "Begins" and "Seconds" count from
    the suspicion of the hosts: when a backup is started, and when the server serves again, by the
    times that earlier backups took. A server like none that was recovered before has no seconds:
    hold a drill of it. The exit status is 3 if a server would not serve again.
    """

    arguments = (_add_hosts,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        which = ({'aggregate': parsed_args.aggregate} if parsed_args.aggregate
                 else {'host': parsed_args.hosts})
        servers = self.client.simulation(**which)['servers']
        self.status = 0 if all(server['destination'] for server in servers) else base.NO
        return (tuple(shown.FORECAST.values()),
                [shown.row(server, shown.FORECAST) for server in servers])
