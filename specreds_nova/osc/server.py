# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative server check``."""

import argparse
from typing import Any

from osc_lib.command import command

from specreds_nova.osc import base
from specreds_nova.osc import servers
from specreds_nova.osc import shown


class Check(base.SpeculativeCommand, command.ShowOne):
    """Tell whether a server would get a backup if its host failed now, and if not, why not.

    Changes nothing. The exit status is 3 if it would not.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the server."""
        parser = super().get_parser(prog_name)
        parser.add_argument('server', metavar='SERVER',
                            help='its name, or its ID, as for servers of other projects')
        return parser

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Ask."""
        found = self.client.protection(
            servers.find(self.app.client_manager, parsed_args.server))
        self.status = 0 if found['protected'] else base.NO
        return shown.protection(found)
