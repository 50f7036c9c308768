# SPDX-License-Identifier: Apache-2.0
"""Which of the hosts that may run a backup is to run it: the one that has the fewest to run."""

from collections.abc import Collection, Sequence
import threading

from specreds_nova.engine import interfaces
from specreds_nova.engine import model
from specreds_nova.engine.detection import servers

# Seconds for which what other engines have begun is not read again.
_FRESH = 0.5


class DestinationLimits:
    """What all recoveries of this engine share. Every method may be called by any thread.

    :param limits: how many backups there may be at once
    """

    def __init__(self, clock: interfaces.Clock, store: interfaces.Store,
                 limits: servers.Limits) -> None:
        self._clock = clock
        self._store = store
        self._limits = limits
        self._lock = threading.Lock()
        # By their ids; those of this engine may have no host yet.
        self._mine: dict[str, model.Recovery] = {}
        self._others: list[model.Recovery] = []
        self._read = float('-inf')

    def full(self) -> str | None:
        """Say why another backup has to wait; None if it need not.

        :raises exception.Unreachable: the database does not answer
        """
        self._look()
        with self._lock:
            return self._limits.full(self._all())

    def enter(self, recovery_id: str) -> None:
        """A recovery is about to have a backup. May be repeated."""
        with self._lock:
            self._mine.setdefault(recovery_id, _racing(recovery_id, None))

    def choose(self, recovery_id: str, candidates: Sequence[str],
               avoid: Collection[str] = ()) -> str | None:
        """Choose a host for a recovery's backup; None if all of them have as many as they may.

        :param candidates: the best first
        :param avoid: those that are only taken if there is no other
        :raises exception.Unreachable: the database does not answer
        """
        self._look()
        with self._lock:
            known = [one for one in self._all() if one.id != recovery_id]
            free = [host for host in candidates
                    if self._limits.host_full(host, known) is None]
            if not free:
                return None
            load = {host: sum(one.destination == host for one in known) for host in free}
            chosen = min(free, key=lambda host: (host in avoid, load[host],
                                                 candidates.index(host)))
            self._mine[recovery_id] = _racing(recovery_id, chosen)
            return chosen

    def leave(self, recovery_id: str) -> None:
        """A recovery has no backup that counts as one (any more). May be repeated."""
        with self._lock:
            self._mine.pop(recovery_id, None)
            self._others = [one for one in self._others if one.id != recovery_id]

    def count(self) -> int:
        """How many recoveries of this engine have a backup, or are about to."""
        with self._lock:
            return len(self._mine)

    def _look(self) -> None:
        now = self._clock.now()
        with self._lock:
            if now - self._read < _FRESH:
                return
            # First, so that not all threads of a moment read.
            before, self._read = self._read, now
        try:
            found = self._store.active()
        except Exception:
            with self._lock:
                self._read = before
            raise
        with self._lock:
            self._others = [one for one in found if one.state in model.WITH_BACKUP]

    def _all(self) -> list[model.Recovery]:
        others = [one for one in self._others if one.id not in self._mine]
        return [*others, *self._mine.values()]


def _racing(recovery_id: str, host: str | None) -> model.Recovery:
    return model.Recovery(id=recovery_id, server='', server_name='', project='', host='',
                          suspected=0.0, state=model.RACING, destination=host)
