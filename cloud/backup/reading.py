# SPDX-License-Identifier: Apache-2.0
"""``check`` and ``show``: commands that change nothing."""

import argparse
from typing import Any

from cliff import show

from cloud.backup import base


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


class Show(base.StepCommand):
    """Show the progress of a backup."""

    step = 'status'
