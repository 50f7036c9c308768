# SPDX-License-Identifier: Apache-2.0
"""The first look whether the primary has written, taken while its backup is being started.

A server that is only suspected mostly has by then. Its backup is given up before it has a domain,
which is most of what a backup costs.
"""

import threading

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine.recovery import run as runs


class DirtyPrecheck:
    """Looks once.

    :param host: where the backup is being started
    :param backup: its id there
    """

    def __init__(self, run: runs.Run, host: str, backup: str) -> None:
        self._run = run
        self._host = host
        self._backup = backup
        self._superposition = str(run.recovery.superposition)
        self._over = threading.Event()

    def take(self) -> None:
        """Look, and have the start given up if it is of no use."""
        context = self._run.context
        try:
            if not context.volumes.dirty(self._superposition):
                return
            self._run.wrote()
            if not self._over.is_set():
                context.backups.abort(self._host, self._backup)
        except (exception.Unreachable, exception.Refused, backup_errors.BackupError):
            # The race looks again, and what has to be removed is removed by whoever decides.
            return

    def over(self) -> None:
        """The start has ended."""
        self._over.set()
