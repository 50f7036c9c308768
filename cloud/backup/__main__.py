# SPDX-License-Identifier: Apache-2.0
"""The command ``./run backup`` and its global options."""

import argparse
from collections.abc import Sequence
from importlib import metadata
import logging
import os
import sys
from typing import Any

from cliff import app
from cliff import commandmanager
from oslo_config import cfg
import oslo_messaging as messaging

from cloud.backup import deciding
from cloud.backup import reading
from cloud.backup import starting
from specreds_nova import rpcapi

_DESCRIPTION = """\
Take the steps of a backup by hand, which an engine takes by itself.

A server whose host is suspected gets two versions of its volumes ("openstack volume super create
--server SERVER"), and a backup on another host: "start" starts it, sealed in its box. "check"
reports beforehand whether that host can run it, "show" whether it is ready. "harden" makes its
writes durable. Then "openstack volume super collapse" decides: "promote" opens the box of a
backup that was promoted, and "openstack server evacuate --host HOST SERVER" makes Nova adopt it
while it runs. "abort" removes a backup without a trace.
"""
_COMMANDS: dict[str, Any] = {
    'check': reading.Check,
    'show': reading.Show,
    'start': starting.Start,
    'harden': deciding.Harden,
    'promote': deciding.Promote,
    'abort': deciding.Abort,
}


class BackupApp(app.App):
    """The application with the connection that its commands share."""

    def __init__(self) -> None:
        manager = commandmanager.CommandManager('specreds.backup')
        for name, command in _COMMANDS.items():
            manager.add_command(name, command)
        super().__init__(_DESCRIPTION, metadata.version('specreds'), manager,
                         deferred_help=True)
        self._transport: messaging.Transport | None = None

    def build_option_parser(self, description: str | None, version: str | None,
                            argparse_kwargs: dict[str, Any] | None = None
                            ) -> argparse.ArgumentParser:
        """Add the options that name a message bus."""
        parser = super().build_option_parser(description, version, argparse_kwargs)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.add_argument(
            '--config-file', default=os.environ.get('NOVA_CONF', '/etc/nova/nova.conf'),
            metavar='FILE',
            help='configuration with transport_url, which contains a password '
                 '(default: $NOVA_CONF, else %(default)s)')
        parser.add_argument(
            '--timeout', type=float, default=60.0, metavar='SECONDS',
            help='limit for the answer of a host (default: %(default)g)')
        return parser

    @property
    def backups(self) -> rpcapi.BackupsAPI:
        """Return the client of all hosts' backups, which connects at its first use.

        :raises cfg.Error: the configuration cannot be read
        """
        if self._transport is None:
            # oslo.messaging registers all of its options in the global configuration only.
            cfg.CONF([], project='nova', default_config_files=[self.options.config_file])
            self._transport = messaging.get_rpc_transport(
                cfg.CONF, allowed_remote_exmods=rpcapi.ALLOWED_EXMODS)
        return rpcapi.BackupsAPI(self._transport, timeout=self.options.timeout)

    def configure_logging(self) -> None:
        """Show the log of the message bus only if the command is verbose."""
        super().configure_logging()
        if self.options.verbose_level < 2:
            logging.getLogger('oslo').setLevel(logging.CRITICAL)
            logging.getLogger('oslo_messaging').setLevel(logging.CRITICAL)

    def clean_up(self, cmd: Any, result: int, err: BaseException | None) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.cleanup()


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return the exit status: 0 done, 1 failed, 2 wrong usage."""
    return int(BackupApp().run(sys.argv[1:] if argv is None else list(argv)))


if __name__ == '__main__':
    sys.exit(main())
