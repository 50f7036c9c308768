# SPDX-License-Identifier: Apache-2.0
"""The first check for writes of the primary, made while the backup is being started.

The primary of a host that is suspected by mistake has mostly written by then. Its backup is then
aborted before it has a domain, which is most of the cost of a backup.
"""

import threading

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine.recovery import run as runs


class DirtyPrecheck:
    """One check for writes of the primary.

    :param host: host on which the backup is being started
    :param backup_id: id of the backup on that host
    """

    def __init__(self, run: runs.Run, host: str, backup_id: str) -> None:
        self._run = run
        self._host = host
        self._backup_id = backup_id
        self._superposition = str(run.recovery.superposition)
        self._finished = threading.Event()

    def check(self) -> None:
        """Check for writes, and abort the start of the backup if the primary has written."""
        context = self._run.context
        try:
            if not context.volumes.dirty(self._superposition):
                return
            self._run.wrote()
            if not self._finished.is_set():
                context.backups.abort(self._host, self._backup_id)
        except (exception.Unreachable, exception.Refused, backup_errors.BackupError):
            # The race repeats the check, and the decision removes the backup.
            return

    def finish(self) -> None:
        """Note that the start has ended: the backup is not aborted after that."""
        self._finished.set()
