# SPDX-License-Identifier: Apache-2.0
"""Who prepares a backup now: some at a time, in the order in which they were begun.

Preparing is work of this process. All recoveries of a host at once would each take as long as all
of them together, and the most urgent one would be no sooner than the last.
"""

import threading

# Those that prepare at once: while one waits for Cinder or Nova, others work.
_TURNS = 12
# Seconds that one waits at most: whoever prepares may wait for something that is slow.
_PATIENCE = 1.0


class PreparationLimit:
    """The turns of this engine's recoveries. May be used by several threads."""

    def __init__(self, count: int = _TURNS, patience: float = _PATIENCE) -> None:
        self._free = threading.Semaphore(count)
        self._patience = patience
        self._lock = threading.Lock()
        self._held: set[str] = set()

    def take(self, recovery_id: str) -> None:
        """Wait for a turn, or until that has taken too long."""
        if self._free.acquire(timeout=self._patience):
            with self._lock:
                self._held.add(recovery_id)

    def leave(self, recovery_id: str) -> None:
        """Let others have the turn of a recovery that is prepared. May be repeated."""
        with self._lock:
            if recovery_id not in self._held:
                return
            self._held.remove(recovery_id)
        self._free.release()
