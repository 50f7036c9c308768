# SPDX-License-Identifier: Apache-2.0
"""``start``: start a backup, and wait until it is ready."""

import argparse
import sys
import time
from typing import Any
import uuid

from cliff import show

from cloud.backup import base

_POLL_S = 0.5
_QUIET_S = 2.0


class Start(base.BackupCommand, show.ShowOne):
    """Start the backup of a server, sealed in its box, on the second version of its volumes."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the server, its superposition, and the id."""
        parser = super().get_parser(prog_name)
        parser.add_argument('server', metavar='SERVER', type=base.identifier, help='its ID')
        parser.add_argument('superposition', metavar='SUPERPOSITION', type=base.identifier,
                            help='ID of the superposition of all of its volumes: see '
                                 '"openstack volume super create"')
        parser.add_argument('--id', dest='backup', metavar='ID', type=base.identifier,
                            help='ID of the backup; the same ID repeats a start '
                                 '(default: a new one)')
        parser.add_argument('--wait', action='store_true',
                            help='wait until the backup is ready')
        return parser

    def take_action(self, parsed_args: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Start the backup."""
        backup_id = parsed_args.backup or str(uuid.uuid4())
        status = self.backups.start({}, parsed_args.host, backup_id, parsed_args.server,
                                    parsed_args.superposition)
        shown = time.monotonic()
        while parsed_args.wait and not status['ready'] and status['domain']:
            time.sleep(_POLL_S)
            if time.monotonic() - shown > _QUIET_S:
                shown = time.monotonic()
                print(f'{status["phase"]}: {status["ready_detail"]}', file=sys.stderr,
                      flush=True)
            status = self.backups.status({}, parsed_args.host, backup_id)
        return base.titles(base.FIELDS), base.row(status)
