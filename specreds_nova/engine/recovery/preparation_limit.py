# SPDX-License-Identifier: Apache-2.0
"""Limit how many backups are prepared concurrently, oldest first.

Preparation is work of this process. If all recoveries of a host were prepared at once, each would
take as long as all of them together, and the most urgent one would not be the first.
"""

import threading

# Recoveries prepared at once: while one waits for Cinder or Nova, others work.
_CONCURRENT = 12
# Longest wait for a place in seconds: the recoveries that prepare may wait for a slow service.
_PATIENCE = 1.0


class PreparationLimit:
    """Places for recoveries of this engine that prepare. May be used by several threads."""

    def __init__(self, count: int = _CONCURRENT, patience: float = _PATIENCE) -> None:
        self._free = threading.Semaphore(count)
        self._patience = patience
        self._lock = threading.Lock()
        self._held: set[str] = set()

    def take(self, recovery_id: str) -> None:
        """Wait for a place, but not longer than the limit: preparation begins in either case."""
        if self._free.acquire(timeout=self._patience):
            with self._lock:
                self._held.add(recovery_id)

    def leave(self, recovery_id: str) -> None:
        """Free the place of a recovery that is prepared. May be repeated."""
        with self._lock:
            if recovery_id not in self._held:
                return
            self._held.remove(recovery_id)
        self._free.release()
