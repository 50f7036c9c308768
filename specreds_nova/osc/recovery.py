# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative recovery …``."""

import argparse
from typing import Any

from osc_lib import exceptions
from osc_lib.cli import parseractions
from osc_lib.command import command

from specreds_nova.engine import model
from specreds_nova.osc import base
from specreds_nova.osc import servers
from specreds_nova.osc import shown


class List(base.SpeculativeCommand, command.Lister):
    """List recoveries, the newest first.

    A recovery begins for each protected server of a host that is suspected: queued until its
    backup is being started, racing until the backup is ready or the primary is back, committed
    when the backup is the server, merging while it serves and its disks are written down into
    its volumes, ended with an outcome. "recovered": the backup won. "primary": the server on its
    own host won, nobody noticed. "restarted", "evacuated": it was fenced and started again, as
    an ordinary evacuation does. "aborted": an operator ended it. "failed": look at its error.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the filters."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--server', metavar='SERVER',
                            help='only those of this server (name or ID)')
        parser.add_argument('--host', metavar='HOST',
                            help='only those of servers that were on this host (admin or service '
                                 'role)')
        parser.add_argument('--project', metavar='PROJECT_ID',
                            help='only those of the servers of this project')
        parser.add_argument('--state', choices=model.STATES, help='only those in this state')
        parser.add_argument('--outcome', choices=model.OUTCOMES,
                            help='only those that ended in this way')
        parser.add_argument('--long', action='store_true', help='show more about each')
        parser.add_argument('--limit', type=int, action=parseractions.NonNegativeAction,
                            metavar='N', help='show N at most')
        parser.add_argument('--marker', metavar='ID',
                            help='begin after the recovery with this ID')
        return parser

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """List."""
        filters = {name: value for name in ('host', 'project', 'state', 'outcome')
                   if (value := getattr(parsed_args, name))}
        if parsed_args.server:
            filters['server'] = servers.find(self.app.client_manager, parsed_args.server)
        found = self.client.recoveries(filters, parsed_args.limit, parsed_args.marker)
        fields = shown.RECOVERIES_LONG if parsed_args.long else shown.RECOVERIES
        return tuple(fields.values()), [shown.row(one, fields) for one in found]


class Show(base.SpeculativeCommand, command.ShowOne):
    """Show a recovery: why it began, how far it is, and how long each step took.

    Offsets are from the moment when the host was suspected. A step with a number after its name
    was begun before, by an engine that did not come to the end of it.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the recovery."""
        parser = super().get_parser(prog_name)
        parser.add_argument('recovery', metavar='RECOVERY',
                            help='its ID, as "openstack speculative recovery list" has it')
        return parser

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Show."""
        return shown.recovery(self.client.recovery(parsed_args.recovery))


class Abort(base.SpeculativeCommand):
    """End recoveries in favour of the primaries: their backups are dropped.

    Refused from the commit point on, when the backup is the server and the primary is fenced. If
    a host is suspected wrongly, clear it instead: "openstack speculative host clear".
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the recoveries."""
        parser = super().get_parser(prog_name)
        parser.add_argument('recoveries', metavar='RECOVERY', nargs='+', help='their IDs')
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Abort each; one that cannot be does not keep the others."""
        failed = 0
        for recovery_id in parsed_args.recoveries:
            try:
                self.client.abort(recovery_id)
            except exceptions.CommandError as error:
                failed += 1
                self.log.error('%s: %s', recovery_id, error)
        if failed:
            total = len(parsed_args.recoveries)
            raise exceptions.CommandError(f'{failed} of {total} could not be aborted')
