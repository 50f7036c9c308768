# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative host …``."""

import argparse
from typing import Any

from osc_lib.command import command

from specreds_nova.engine import model
from specreds_nova.osc import base
from specreds_nova.osc import shown


class List(base.SpeculativeCommand, command.Lister):
    """List hosts: which are trusted, which are suspected and why, and which are fenced.

    A host that is held seems to be dead, but a gate is shut: "openstack speculative host show"
    says which. Servers of a suspected host have backups. A fenced host has lost servers to their
    backups; it is cleaned as soon as it is back, and trusted again then.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the filter."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--state', choices=model.HOST_STATES,
                            help='list only those in this state')
        return parser

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """List the hosts."""
        filters = {'state': parsed_args.state} if parsed_args.state else {}
        return (tuple(shown.HOSTS.values()),
                [shown.row(host, shown.HOSTS) for host in self.client.hosts(filters)])


class _OneHost(base.SpeculativeCommand, command.ShowOne):
    """A command on one host."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the host."""
        parser = super().get_parser(prog_name)
        parser.add_argument('host', metavar='<host>',
                            help='its name, as in "openstack compute service list"')
        return parser


class Show(_OneHost):
    """Show a host: its state, the evidence against it, and the recoveries of its servers."""

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Show the host."""
        return shown.host(self.client.host(parsed_args.host))


class _Word(_OneHost):
    """A statement of an operator about a host.

    :cvar word: the action of the API
    """

    word: str

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the reason."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--reason', metavar='<reason>', default='an operator said so',
                            help='reason, which "show" displays (default: %(default)s)')
        return parser

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Send the statement."""
        return shown.host(self.client.say(parsed_args.host, self.word,
                                          reason=parsed_args.reason))


class Suspect(_Word):
    """State that a host has failed: backups of its protected servers start at once.

    An error is cheap: a server that lives keeps running, and its backup is dropped. To test
    recovery, suspect a healthy host: its servers keep running. "openstack speculative host clear"
    takes the statement back.
    """

    word = model.SUSPECT


class Clear(_Word):
    """State that a host has not failed, whatever its heartbeats indicate.

    Its recoveries that are not past the commit point end in favour of the primaries. As soon as
    its heartbeats arrive again, they decide.
    """

    word = model.CLEAR
