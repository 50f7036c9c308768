# SPDX-License-Identifier: Apache-2.0
"""``openstack speculative server check``."""

import argparse
from typing import Any

from osc_lib.command import command

from specreds_nova.osc import base
from specreds_nova.osc import servers
from specreds_nova.osc import shown


class Check(base.SpeculativeCommand, command.ShowOne):
    """Report whether a server would get a backup if its host failed, and if not, why not.

    Nothing is changed. The exit status is 3 if the server would not get a backup.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the server."""
        parser = super().get_parser(prog_name)
        servers.add_argument(parser)
        return parser

    def take_action(self, parsed_args: argparse.Namespace
                    ) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Check the server."""
        answer = self.client.protection(
            servers.find(self.app.client_manager, parsed_args.server))
        self.status = 0 if answer['protected'] else base.NO
        return shown.protection(answer)
