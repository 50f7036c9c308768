# SPDX-License-Identifier: Apache-2.0
"""The base of the commands."""

import argparse
from typing import Any

from osc_lib.command import command

from specreds_nova.osc import client

# The exit status of a check that says no.
NO = 3


class SpeculativeCommand(command.Command):
    """A command on the engine's API.

    :ivar status: the exit status of a command that could be done
    """

    status = 0

    @property
    def client(self) -> client.Client:
        """The API of the cloud."""
        manager: Any = self.app.client_manager
        found: client.Client = manager.speculative
        return found

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Run the command."""
        return super().run(parsed_args) or self.status
