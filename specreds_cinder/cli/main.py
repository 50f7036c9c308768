# SPDX-License-Identifier: Apache-2.0
"""The command ``specreds-super`` and its global options."""

import argparse
from importlib import metadata
import logging
import os
import sys
from typing import Any

from cliff import app
from cliff import commandmanager

from specreds_cinder import superposition as sp
from specreds_cinder.cli import capabilities
from specreds_cinder.cli import collapsing
from specreds_cinder.cli import reading
from specreds_cinder.cli import releasing

_DESCRIPTION = """\
Two versions of a set of RBD volumes, until one is observed.

When a host is suspected of having failed, "create" makes a child version of its server's
volumes at once. A backup of the server runs on the child version while the primary may still
run on the parent version. "check" reports whether the primary has written since. "collapse
--promote" fences the primary and makes the child version the real one, unless the primary has
written; "merge" then writes it into the volumes. "collapse --abort" drops it.
"""
# A limit of an hour is none.
_LONGEST_S = 3600.0
_COMMANDS: dict[str, Any] = {
    'create': collapsing.Create,
    'list': reading.List,
    'show': reading.Show,
    'blockdev': reading.Blockdev,
    'check': collapsing.Check,
    'collapse': collapsing.Collapse,
    'merge': collapsing.Merge,
    'resume': collapsing.Resume,
    'renew': collapsing.Renew,
    'fenced': releasing.Fenced,
    'release': releasing.Release,
    'caps': capabilities.Caps,
}


class SuperApp(app.App):
    """The application with the connection that its commands share."""

    def __init__(self) -> None:
        manager = commandmanager.CommandManager('specreds.super')
        for name, command in _COMMANDS.items():
            manager.add_command(name, command)
        super().__init__(_DESCRIPTION, metadata.version('specreds'),
                         manager, deferred_help=True)
        self.cluster: sp.Cluster | None = None

    def build_option_parser(self, description: str | None, version: str | None,
                            argparse_kwargs: dict[str, Any] | None = None
                            ) -> argparse.ArgumentParser:
        """Add the options that name a cluster."""
        parser = super().build_option_parser(description, version, argparse_kwargs)
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.add_argument(
            '--conf', default=os.environ.get('CEPH_CONF', '/etc/ceph/ceph.conf'), metavar='FILE',
            help='configuration of the Ceph cluster (default: $CEPH_CONF, else %(default)s)')
        parser.add_argument(
            '--user', default='cinder', help='cephx user, without "client." (default: cinder)')
        parser.add_argument(
            '--timeout', type=_seconds, default=10.0, metavar='SECONDS',
            help='limit for each call to Ceph (default: %(default)g)')
        return parser

    def initialize_app(self, argv: list[str]) -> None:
        """Create the connection, which opens at its first use."""
        self.cluster = sp.Cluster(self.options.conf, self.options.user, self.options.timeout)

    def configure_logging(self) -> None:
        """Show the protocol's own log only if the command is verbose."""
        super().configure_logging()
        quiet = {0: logging.ERROR, 1: logging.INFO}.get(self.options.verbose_level - 1)
        logging.getLogger('specreds_cinder').setLevel(quiet or logging.DEBUG)
        # Its errors say what it logs.
        logging.getLogger('qemu.qmp').setLevel(logging.CRITICAL)

    def clean_up(self, cmd: Any, result: int, err: BaseException | None) -> None:
        """Close the connection."""
        if self.cluster is not None:
            self.cluster.close()


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f'{text} is not more than 0 and up to {_LONGEST_S:g}')
    return seconds


def main(argv: list[str] | None = None) -> int:
    """Run one command; return the exit status: 0 done, 1 failed, 2 wrong usage, 3 dirty."""
    return int(SuperApp().run(sys.argv[1:] if argv is None else argv))


if __name__ == '__main__':
    sys.exit(main())
