# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative host …``."""

import argparse
from typing import Any

from osc_lib.command import command

from specreds_nova.engine import model
from specreds_nova.osc import base
from specreds_nova.osc import client
from specreds_nova.osc import shown


def _add_state(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--state', choices=model.HOST_STATES, help='list only those in this state')


def _add_host(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('host', metavar='<host>',
                        help='its name, as in "openstack compute service list"')


def _add_reason(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--reason', metavar='<reason>', default='an operator said so',
                        help='reason, which "show" displays (default: %(default)s)')


def _add_dead(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--dead', action='store_true',
                        help='the host is dead for sure, for example because it is off: it is '
                             'shut out of the volumes of its servers at once')


class List(base.SpeculativeCommand, command.Lister):
    """List hosts: which are trusted, which are suspected and why, and which are fenced.

    A host that is held seems to be dead, but a gate is shut: "openstack speculative host show"
    says which. Servers of a suspected host have backups. A fenced host has lost servers to their
    backups; it is cleaned as soon as it is back, and trusted again then.
    """

    arguments = (_add_state,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        filters = {'state': parsed_args.state} if parsed_args.state else {}
        return (tuple(shown.HOSTS.values()),
                [shown.row(host, shown.HOSTS) for host in self.client.hosts(filters)])


class Show(base.SpeculativeCommand, command.ShowOne):
    """Show a host: its state, the evidence against it, and the recoveries of its servers."""

    arguments = (_add_host,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Fields:
        return shown.one(self.client.host(parsed_args.host), shown.HOST)


class Suspect(base.SpeculativeCommand, command.ShowOne):
    """State that a host has failed: backups of its protected servers start at once.

    An error is cheap: a server that lives keeps running, and its backup is dropped. To test
    recovery, suspect a healthy host: its servers keep running. "openstack speculative host clear"
    takes the statement back.
    """

    arguments = (_add_host, _add_reason, _add_dead)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Fields:
        return _say(self.client, model.SUSPECT, parsed_args,
                    **({'dead': True} if parsed_args.dead else {}))


class Clear(base.SpeculativeCommand, command.ShowOne):
    """State that a host has not failed, whatever its heartbeats indicate.

    Its recoveries that are not past the commit point end in favour of the primaries. As soon as
    its heartbeats arrive again, they decide.
    """

    arguments = (_add_host, _add_reason)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Fields:
        return _say(self.client, model.CLEAR, parsed_args)


def _say(api: client.Client, word: str, parsed_args: argparse.Namespace, **more: Any
         ) -> shown.Fields:
    return shown.one(api.say(parsed_args.host, word, reason=parsed_args.reason, **more),
                     shown.HOST)
