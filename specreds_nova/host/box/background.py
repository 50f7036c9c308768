# SPDX-License-Identifier: Apache-2.0
"""Work for boxes while their guests boot."""

from collections.abc import Callable
from concurrent import futures
from typing import Any

# Timeout of the work for a box: network service, DHCP and metadata. In seconds.
TIMEOUT = 60.0
# A host may start dozens of backups at once; their work mostly waits for the network service.
_WORKERS = 32


class Background:
    """The work of each backup that may not have ended yet."""

    def __init__(self) -> None:
        self._workers = futures.ThreadPoolExecutor(_WORKERS, 'specreds-box')
        self._begun: dict[str, list[futures.Future[Any]]] = {}

    def start(self, backup_id: str, work: Callable[..., Any],
              *arguments: Any) -> futures.Future[Any]:
        """Start work in the background, for which :meth:`wait` waits."""
        begun = self._workers.submit(work, *arguments)
        self._begun.setdefault(backup_id, []).append(begun)
        return begun

    def wait(self, backup_id: str) -> None:
        """Wait until the work for a backup is done, and raise its first error.

        After an error, other work may go on: :meth:`end` waits for it.
        """
        for work in self._begun.get(backup_id, []):
            work.result(timeout=TIMEOUT)
        self._begun.pop(backup_id, None)

    def end(self, backup_id: str) -> None:
        """Cancel the work for a backup, and wait until what has begun has ended."""
        begun = self._begun.pop(backup_id, [])
        for work in begun:
            work.cancel()
        futures.wait(begun, timeout=TIMEOUT)
