# SPDX-License-Identifier: Apache-2.0
"""The base of the commands: the client of the API, and the exit status."""

import argparse
from collections.abc import Callable
from typing import Any

from osc_lib.command import command

from specreds_nova.osc import client

# Exit status of a check with a negative result.
NO = 3


class SpeculativeCommand(command.Command):
    """A command on the engine's API.

    :cvar arguments: functions that add the command's arguments to a parser
    :ivar status: the exit status of a command that succeeded
    """

    arguments: tuple[Callable[[argparse.ArgumentParser], object], ...] = ()
    status = 0

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Add the arguments."""
        parser: argparse.ArgumentParser = super().get_parser(prog_name)
        for add in self.arguments:
            add(parser)
        return parser

    @property
    def client(self) -> client.Client:
        """Return the client of the cloud's API."""
        manager: Any = self.app.client_manager
        api: client.Client = manager.speculative
        return api

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        return super().run(parsed_args) or self.status
