# SPDX-License-Identifier: Apache-2.0
"""``harden``, ``promote``, ``abort`` and ``cleanup``: what becomes of a backup."""

from typing import Any

from cliff import show

from specreds_nova.cli import base


class Harden(base.RecoveryCommand, show.ShowOne):
    """Make what a backup has written durable: right before its volumes are promoted."""

    def take_action(self, parsed_args: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Ask for it."""
        return base.titles(base.FIELDS), base.row(
            self.backups.harden({}, parsed_args.host, parsed_args.recovery))


class Promote(base.RecoveryCommand, show.ShowOne):
    """Let a backup out of its box. Refused unless Cinder has promoted its volumes."""

    def take_action(self, parsed_args: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Ask for it."""
        return base.titles(base.FIELDS), base.row(
            self.backups.promote({}, parsed_args.host, parsed_args.recovery))


class Abort(base.RecoveryCommand, show.ShowOne):
    """Remove a backup without a trace. Refused if Cinder has promoted its volumes."""

    def take_action(self, parsed_args: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        """Ask for it."""
        return base.titles(base.FIELDS), base.row(
            self.backups.abort({}, parsed_args.host, parsed_args.recovery))


class Cleanup(base.RecoveryCommand):
    """Let a host forget a recovery that has ended."""

    def take_action(self, parsed_args: Any) -> None:
        """Ask for it."""
        self.backups.cleanup({}, parsed_args.host, parsed_args.recovery)
