# SPDX-License-Identifier: Apache-2.0
"""``harden``, ``promote``, ``abort`` and ``cleanup``: what becomes of a backup."""

from typing import Any

from specreds_nova.cli import base


class Harden(base.StepCommand):
    """Make what a backup has written durable: right before its volumes are promoted."""

    step = 'harden'


class Promote(base.StepCommand):
    """Let a backup out of its box. Refused unless Cinder has promoted its volumes."""

    step = 'promote'


class Abort(base.StepCommand):
    """Remove a backup without a trace. Refused if Cinder has promoted its volumes."""

    step = 'abort'


class Cleanup(base.RecoveryCommand):
    """Let a host forget a recovery that has ended."""

    def take_action(self, parsed_args: Any) -> None:
        """Ask for it."""
        self.backups.cleanup({}, parsed_args.host, parsed_args.recovery)
