# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative mode …``."""

import argparse

from osc_lib.command import command

from specreds_nova.engine import model
from specreds_nova.osc import base
from specreds_nova.osc import shown


def _add_scope(parser: argparse.ArgumentParser) -> None:
    part = parser.add_mutually_exclusive_group()
    part.add_argument('--host', metavar='<host>', help='only for this host')
    part.add_argument('--aggregate', metavar='<aggregate>',
                      help='only for the hosts of this aggregate, by its name')
    part.add_argument('--az', metavar='<zone>', dest='zone',
                      help='only for the hosts of this availability zone')


def _add_mode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('mode', choices=model.MODES, metavar='<mode>',
                        help='act, observe or pause')
    parser.add_argument('--for', metavar='<time>', dest='seconds', type=shown.seconds,
                        help='time after which the mode before counts again, such as 90s, 30m, '
                             '2h or 1d (default: for ever)')
    parser.add_argument('--reason', metavar='<reason>', required=True,
                        help='reason, which "list" displays')


class List(base.SpeculativeCommand, command.Lister):
    """List the modes that are set, from which the mode of each host follows.

    The most specific mode counts: of the host, of its aggregates, of its availability zone, of the
    cloud. Without any, engines only observe.
    """

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        return (tuple(shown.MODES.values()),
                [shown.row(mode, shown.MODES) for mode in self.client.modes()])


class Set(base.SpeculativeCommand, command.ShowOne):
    """Set what engines do about hosts that fail: for all hosts, or for some of them.

    "act": recover their servers. "observe": record the recoveries that would begin, with outcome
    "observed". "pause": do nothing, as while somebody works on the hosts. Recoveries that are past
    the commit point go on in each mode, and the other ones end in favour of the primaries.
    """

    arguments = (_add_scope, _add_mode)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Fields:
        until = {'seconds': parsed_args.seconds} if parsed_args.seconds else {}
        return shown.one(self.client.set_mode(
            mode=parsed_args.mode, reason=parsed_args.reason, **_scope(parsed_args),
            **until), shown.MODE)


class Unset(base.SpeculativeCommand):
    """Remove a mode: the next less specific one counts again."""

    arguments = (_add_scope,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.client.unset_mode(**_scope(parsed_args))


def _scope(parsed_args: argparse.Namespace) -> dict[str, str]:
    for scope in model.SCOPES:
        if name := getattr(parsed_args, scope, None):
            return {'scope': scope, 'name': name}
    return {'scope': model.CLOUD}
