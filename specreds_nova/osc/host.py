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
        parser.add_argument('--state', choices=model.HOST_STATES, help='only those in this state')
        return parser

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """List."""
        filters = {'state': parsed_args.state} if parsed_args.state else {}
        return (tuple(shown.HOSTS.values()),
                [shown.row(one, shown.HOSTS) for one in self.client.hosts(filters)])


class _OneHost(base.SpeculativeCommand, command.ShowOne):
    """A command on one host."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the host."""
        parser = super().get_parser(prog_name)
        parser.add_argument('host', metavar='HOST',
                            help='its name, as "openstack compute service list" has it')
        return parser


class Show(_OneHost):
    """Show a host: its state, the evidence against it, and the recoveries of its servers."""

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Show."""
        return shown.host(self.client.host(parsed_args.host))


class Set(_OneHost):
    """Set whether somebody works on a host, so that nothing is done about its silence.

    Recoveries that have begun go on. "openstack speculative host suspect" goes first.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the flag and its reason."""
        parser = super().get_parser(prog_name)
        flag = parser.add_mutually_exclusive_group(required=True)
        flag.add_argument('--maintenance', action='store_true', help='somebody works on it')
        flag.add_argument('--no-maintenance', action='store_true',
                          help='nobody works on it any more')
        parser.add_argument('--reason', metavar='TEXT', default='an operator said so',
                            help='why somebody works on it (default: %(default)s)')
        return parser

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Set it."""
        if parsed_args.no_maintenance:
            return shown.host(self.client.say(parsed_args.host, 'no_maintenance'))
        return shown.host(self.client.say(parsed_args.host, 'maintenance',
                                          reason=parsed_args.reason))


class _Word(_OneHost):
    """An operator's word about a host.

    :cvar word: as the API calls it
    """

    word: str

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the reason."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--reason', metavar='TEXT', default='an operator said so',
                            help='why, for whoever looks at it later (default: %(default)s)')
        return parser

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Say it."""
        return shown.host(self.client.say(parsed_args.host, self.word,
                                          reason=parsed_args.reason))


class Suspect(_Word):
    """Say that a host has failed: at once its protected servers get backups.

    To be wrong is cheap: a server that lives keeps running, and its backup is dropped. So this is
    also how to test recovery: suspect a host that is well, and nothing happens to its servers.
    To take it back: "openstack speculative host clear".
    """

    word = model.SUSPECT


class Clear(_Word):
    """Say that a host has not failed, whatever its heartbeats say.

    Its recoveries that are not past the commit point end in favour of the primaries. Once its
    heartbeats arrive again it is judged by them.
    """

    word = model.CLEAR
