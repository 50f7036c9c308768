# SPDX-License-Identifier: Apache-2.0
"""The base of every command: a protocol to call, and errors in one line."""

from typing import Any

from cliff import command

from specreds_cinder import superposition as sp


class SuperCommand(command.Command):
    """A command that uses the cluster."""

    @property
    def protocol(self) -> sp.Protocol:
        """Return the protocol on the cluster that the global options name."""
        return sp.Protocol(self.cluster, sp.Settings(
            sweep_processes=vars(self.app)['options'].sweep_processes))

    @property
    def cluster(self) -> sp.Cluster:
        """Return the cluster that the global options name; initialize_app() made it."""
        cluster: sp.Cluster = vars(self.app)['cluster']
        return cluster

    def run(self, parsed_args: Any) -> int:
        """Run the command; print an error of the protocol as one line, and return 1."""
        try:
            return int(super().run(parsed_args) or 0)
        except sp.SuperError as exc:
            self.app.stderr.write(f'error: {exc}\n')
            return 1
