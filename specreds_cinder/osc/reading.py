# SPDX-License-Identifier: Apache-2.0
"""``list``, ``show``, ``check`` and ``eligibility``: commands that change nothing."""

import argparse
from typing import Any

from osc_lib.cli import parseractions
from osc_lib.command import command

from specreds_cinder.osc import base
from specreds_cinder.osc import shown

_CHECKED = ('dirty', 'unproven', 'first', 'objects', 'seconds')
_ELIGIBILITY = {'volume_id': 'Volume', 'eligible': 'Eligible', 'reasons': 'Reasons'}


def _add_filters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('--all-projects', action='store_true',
                        help='list superpositions of all projects (role admin, specreds or '
                             'service)')
    parser.add_argument(
        '--state', metavar='<state>',
        help='list only those in this state: creating, superposed, collapsing, promoted, '
             'merging, merged, aborting, or unknown if their volume service does not answer')
    parser.add_argument('--server', metavar='<server>',
                        help="list only superpositions of this server's volumes (name or ID)")
    parser.add_argument('--long', action='store_true', help='show more columns')
    parser.add_argument('--limit', type=int, action=parseractions.NonNegativeAction,
                        metavar='<limit>', help='list at most this number')
    parser.add_argument('--marker', metavar='<marker>',
                        help='list those after the superposition with this ID')


class List(base.SuperCommand, command.Lister):
    """List superpositions, the oldest first."""

    arguments = (_add_filters,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        superpositions = self.client
        filters: dict[str, Any] = {}
        if parsed_args.all_projects:
            filters['all_tenants'] = '1'
        if parsed_args.state:
            filters['state'] = parsed_args.state
        if parsed_args.server:
            filters['server_id'] = superpositions.server_id(parsed_args.server)
        page = list(superpositions.list(filters, limit=parsed_args.limit,
                                        marker=parsed_args.marker, detail=parsed_args.long,
                                        sizes=parsed_args.long))
        if superpositions.unreachable:
            self.log.warning('no answer from %s: their superpositions are listed as unknown',
                             ', '.join(sorted(superpositions.unreachable)))
        return shown.many(page, long=parsed_args.long)


class Show(base.SuperCommand, command.ShowOne):
    """Show a superposition: its state and volumes, its creator, and its reason."""

    arguments = (base.add_superposition,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Fields:
        return shown.one(self.client.find(parsed_args.superposition, sizes=True))


class Check(base.SuperCommand, command.ShowOne):
    """Report whether the primary has written since the superposition began.

    Nothing is changed. The exit status is 3 if the primary has written, or if that is unproven.
    """

    arguments = (base.add_superposition,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Fields:
        superpositions = self.client
        superposition_id = superpositions.find(parsed_args.superposition)['id']
        report = superpositions.check(superposition_id)
        self.status = base.DIRTY if report['dirty'] or report['unproven'] else 0
        return ('id', *_CHECKED), (superposition_id, *shown.values(report, _CHECKED))


def _add_volumes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('volumes', metavar='<volume>', nargs='+',
                        help='volumes (names or IDs)')


class Eligibility(base.SuperCommand, command.Lister):
    """Report whether volumes can be superposed, and why not."""

    arguments = (_add_volumes,)

    def take_action(self, parsed_args: argparse.Namespace) -> shown.Rows:
        superpositions = self.client
        answers = superpositions.eligibility(superpositions.volume_ids(parsed_args.volumes))
        return (tuple(_ELIGIBILITY.values()),
                [shown.values(answer, _ELIGIBILITY) for answer in answers])
