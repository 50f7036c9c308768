# SPDX-License-Identifier: Apache-2.0
"""The base of every command: a protocol to call, and errors in one line."""

import argparse
from collections.abc import Callable
from typing import Any

from cliff import command

from specreds_cinder import superposition as sp


class SuperCommand(command.Command):
    """A command that uses the cluster.

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
    def protocol(self) -> sp.Protocol:
        """Return the protocol on the cluster that the global options name."""
        return sp.Protocol(self.cluster)

    @property
    def cluster(self) -> sp.Cluster:
        """Return the cluster that the global options name; initialize_app() made it."""
        cluster: sp.Cluster = vars(self.app)['cluster']
        return cluster

    def run(self, parsed_args: Any) -> int:
        """Run the command; print an error of the protocol as one line, and return 1."""
        try:
            return int(super().run(parsed_args) or self.status)
        except sp.SuperError as exc:
            self.app.stderr.write(f'error: {exc}\n')
            return 1
