# SPDX-License-Identifier: Apache-2.0
"""The choice of a host for each backup: the candidate with the fewest backups."""

from collections.abc import Collection, Mapping, Sequence
import threading

from specreds_nova.engine import interfaces
from specreds_nova.engine import model
from specreds_nova.engine.detection import servers

# Seconds for which the other engines' recoveries are not read again.
_FRESH = 0.5


class Outdated(Exception):
    """The candidates were found for another state of the server's group."""


class DestinationLimits:
    """The backups of all engines, by host. Every method may be called by any thread.

    :param limits: how many backups may exist at once, in all and on each host
    """

    def __init__(self, clock: interfaces.Clock, store: interfaces.Store,
                 limits: servers.Limits) -> None:
        self._clock = clock
        self._store = store
        self._limits = limits
        self._lock = threading.Lock()
        # By id. Recoveries of this engine may have no host yet.
        self._mine: dict[str, model.Recovery] = {}
        self._others: list[model.Recovery] = []
        self._read = float('-inf')

    def full(self) -> str | None:
        """Return why another backup has to wait; None if it need not wait.

        :raises exception.Unreachable: the database does not answer
        """
        self._refresh()
        with self._lock:
            return self._limits.full(self._all())

    def enter(self, recovery_id: str) -> None:
        """Count a recovery that is about to have a backup. May be repeated."""
        with self._lock:
            self._mine.setdefault(recovery_id, _racing(recovery_id, None))

    def placed(self, server: model.Server) -> dict[str, str]:
        """Return the hosts of the backups of the other members of a server's group, by server.

        :raises exception.Unreachable: the database does not answer
        """
        if server.group is None:
            return {}
        self._refresh(anew=True)
        with self._lock:
            return self._placed(server)

    def choose(self, recovery_id: str, candidates: Sequence[str],
               avoid: Collection[str] = (), server: model.Server | None = None,
               placed: Mapping[str, str] | None = None) -> str | None:
        """Return the host for a recovery's backup; None if all candidates are at their limits.

        :param candidates: hosts, the best first
        :param avoid: hosts that are only taken if no other one is free
        :param server: the server of the recovery
        :param placed: the result of :meth:`placed` for which the candidates were found
        :raises exception.Unreachable: the database does not answer
        :raises Outdated: another member of the server's group was placed meanwhile
        """
        self._refresh()
        with self._lock:
            if server is not None and placed is not None and self._placed(server) != placed:
                raise Outdated
            others = [recovery for recovery in self._all() if recovery.id != recovery_id]
            free = [host for host in candidates
                    if self._limits.host_full(host, others) is None]
            if not free:
                return None
            load = {host: sum(recovery.destination == host for recovery in others)
                    for host in free}
            # The candidates of a member of a group are in the order of its policy.
            grouped = server is not None and server.group is not None
            chosen = min(free, key=lambda host: (host in avoid, 0 if grouped else load[host],
                                                 candidates.index(host)))
            self._mine[recovery_id] = _racing(recovery_id, chosen, server)
            return chosen

    def leave(self, recovery_id: str) -> None:
        """Stop counting a recovery: its backup is gone, or is the server. May be repeated."""
        with self._lock:
            self._mine.pop(recovery_id, None)
            self._others = [recovery for recovery in self._others
                            if recovery.id != recovery_id]

    def count(self) -> int:
        """Return how many recoveries of this engine have a backup, or are about to have one."""
        with self._lock:
            return len(self._mine)

    def _placed(self, server: model.Server) -> dict[str, str]:
        group = server.group
        members = set(group['members']) - {server.id} if group is not None else set()
        return {recovery.server: recovery.destination for recovery in self._all()
                if recovery.server in members and recovery.destination is not None}

    def _refresh(self, *, anew: bool = False) -> None:
        now = self._clock.now()
        with self._lock:
            if now - self._read < _FRESH and not anew:
                return
            # Before the read, so that only one of several threads reads.
            before, self._read = self._read, now
        try:
            active = self._store.active()
        except Exception:
            with self._lock:
                self._read = before
            raise
        with self._lock:
            self._others = [recovery for recovery in active
                            if recovery.state in model.WITH_BACKUP]

    def _all(self) -> list[model.Recovery]:
        others = [recovery for recovery in self._others if recovery.id not in self._mine]
        return [*others, *self._mine.values()]


def _racing(recovery_id: str, host: str | None,
            server: model.Server | None = None) -> model.Recovery:
    return model.Recovery(id=recovery_id, server=server.id if server else '', server_name='',
                          project='', host='', suspected=0.0, state=model.RACING,
                          destination=host)
