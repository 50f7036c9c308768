# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative recovery …``."""

import argparse

from osc_lib import exceptions
from osc_lib.cli import parseractions
from osc_lib.command import command

from specreds_nova.engine import model
from specreds_nova.osc import base
from specreds_nova.osc import server
from specreds_nova.osc import shown


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--server', metavar='<server>',
                        help='list only recoveries of this server (name or ID)')
    parser.add_argument('--host', metavar='<host>',
                        help='list only recoveries of servers that were on this host '
                             '(role admin or specreds)')
    parser.add_argument('--project', metavar='<project-id>',
                        help='list only recoveries of servers of this project')
    parser.add_argument('--state', choices=model.STATES, help='list only those in this state')
    parser.add_argument('--outcome', choices=model.OUTCOMES,
                        help='list only those with this outcome')
    parser.add_argument('--long', action='store_true', help='show more columns')
    parser.add_argument('--limit', type=int, action=parseractions.NonNegativeAction,
                        metavar='<limit>', help='list at most this number')
    parser.add_argument('--marker', metavar='<marker>',
                        help='list those after the recovery with this ID')


def _add_recovery(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('recovery', metavar='<recovery>',
                        help='its ID, as in "openstack speculative recovery list"')


def _add_recoveries(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('recoveries', metavar='<recovery>', nargs='+', help='their IDs')


class List(base.SpeculativeCommand, command.Lister):
    """List recoveries, the newest first.

    A recovery begins for each protected server of a suspected host. It is queued until its backup
    is being started, racing until the backup is ready or the primary is back, committed when the
    backup is the server, merging while the backup's data are merged into the volumes, and ended
    with an outcome. "recovered": the backup won. "primary": the server on its own host won,
    nobody noticed. "restarted", "evacuated": the server was fenced and started again, as by an
    ordinary evacuation. "aborted": an operator ended the recovery, or a user stopped, deleted or
    otherwise changed the server: see its error. "failed": see its error.
    """

    arguments = (_add_filters,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        filters = {name: value for name in ('host', 'state', 'outcome')
                   if (value := getattr(parsed_args, name))}
        if parsed_args.project:
            filters['project_id'] = parsed_args.project
        if parsed_args.server:
            filters['server_id'] = server.find(self.app.client_manager, parsed_args.server)
        recoveries = self.client.recoveries(filters, parsed_args.limit, parsed_args.marker)
        fields = shown.RECOVERIES_LONG if parsed_args.long else shown.RECOVERIES
        return tuple(fields.values()), [shown.row(recovery, fields) for recovery in recoveries]


class Show(base.SpeculativeCommand, command.ShowOne):
    """Show a recovery: its reason, its progress, and the duration of each step.

    Offsets count from the moment when the host was suspected. A number after the name of a step
    counts its attempts: an engine did not complete the one before.
    """

    arguments = (_add_recovery,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Fields:
        return shown.one(self.client.recovery(parsed_args.recovery), shown.RECOVERY)


class Abort(base.SpeculativeCommand):
    """End recoveries in favour of the primaries: their backups are dropped.

    Refused from the commit point on, when the backup is the server and the primary is fenced. If
    a host is suspected wrongly, clear the host instead: "openstack speculative host clear".
    """

    arguments = (_add_recoveries,)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        """Abort each recovery, also after a failure of another one."""
        failed = 0
        for recovery_id in parsed_args.recoveries:
            try:
                self.client.abort(recovery_id)
            except exceptions.CommandError as exc:
                failed += 1
                self.log.error('%s: %s', recovery_id, exc)
        if failed:
            total = len(parsed_args.recoveries)
            raise exceptions.CommandError(f'{failed} of {total} could not be aborted')
