# SPDX-License-Identifier: Apache-2.0
"""``check``, ``list`` and ``show``: commands that change nothing."""

import argparse
from typing import Any

from cliff import lister
from cliff import show

from cloud.backup import base

_SHORT = ('backup_id', 'instance_uuid', 'phase', 'ready', 'error')


class Check(base.BackupCommand, show.ShowOne):
    """Report whether a host could run the backup of a server, and if not, why not."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the server."""
        parser = super().get_parser(prog_name)
        parser.add_argument('server', metavar='SERVER', type=base.identifier, help='its ID')
        return parser

    def take_action(self, parsed_args: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Check the host."""
        answer = self.backups.check({}, parsed_args.host, parsed_args.server)
        return ('eligible', 'reasons'), (answer['eligible'], '\n'.join(answer['reasons']))


class List(base.BackupCommand, lister.Lister):
    """List the backups that a host knows."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the columns."""
        parser = super().get_parser(prog_name)
        parser.add_argument('--long', action='store_true', help='show more columns')
        return parser

    def take_action(self, parsed_args: Any) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """List the backups."""
        fields = base.FIELDS if parsed_args.long else _SHORT
        statuses = self.backups.list({}, parsed_args.host)
        return base.titles(fields), [base.row(status, fields) for status in statuses]


class Show(base.StepCommand):
    """Show the progress of a backup."""

    step = 'status'
