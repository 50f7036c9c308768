# SPDX-License-Identifier: Apache-2.0
"""Recoveries that race although they must not, read from the database for all at once.

An operator may abort a recovery, and another engine may take it over. If each of thousands of
recoveries read its own record every second, the engine would have time for little else.
"""

import threading

from specreds_nova.engine import model
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.store import store as stores

# Seconds for which a reading is valid.
_VALID = 1.0


class Revocations:
    """The recoveries whose records their engine has to read. May be used by several threads."""

    def __init__(self, clock: clocks.Clock, store: stores.Store) -> None:
        self._clock = clock
        self._store = store
        self._lock = threading.Lock()
        self._read = float('-inf')
        self._concerned: frozenset[str] = frozenset()

    def concern(self, recovery: model.Recovery) -> bool:
        """Return whether others may have changed a recovery that races.

        While one thread reads, the other ones rely on the reading before.

        :raises exception.Unreachable: the database does not answer
        """
        now = self._clock.now()
        with self._lock:
            before, due = self._read, now - self._read >= _VALID
            if due:
                self._read = now
        if due:
            try:
                self._concerned = frozenset(self._store.revoked(recovery.engine or ''))
            except Exception:
                self._read = before
                raise
        return recovery.id in self._concerned
