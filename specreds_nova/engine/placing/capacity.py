# SPDX-License-Identifier: Apache-2.0
"""The capacity for recoveries: how many race, and where; and the choice of a host for each."""

import collections
from collections.abc import Callable, Collection, Mapping, Sequence
import threading

from specreds_nova.engine import model
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.suspicion import servers

# Shortest time in seconds after which the other engines' recoveries are read again, and that time
# in durations of the last read.
_FRESH, _REST = 0.5, 10.0
# A host that is not avoided, and has no other backup.
_IDLE = (False, 0)


class Outdated(Exception):
    """The candidates were found for another state of the server's group."""


class Capacity:
    """The recoveries that race. Every method may be called by any thread.

    A recovery of this engine has a slot of the engine and room for its backup from :meth:`enter`
    or :meth:`choose` to :meth:`leave`. Recoveries of other engines have room while the database
    says that they race. A backup keeps its place among the members of its group until Nova has the
    server on its host.

    :param limits: how many backups may race at once, in all and on each host
    :param healthy: returns the hosts that are well; the more they are, the more backups may race
    :ivar freed: called after a recovery of this engine has left
    """

    def __init__(self, clock: clocks.Clock, store: stores.Store, limits: servers.Limits,
                 healthy: Callable[[], Collection[str]] = tuple) -> None:
        self._clock = clock
        self._store = store
        self._limits = limits
        self._healthy = healthy
        self.freed: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        # By id. Recoveries of this engine may have no host yet.
        self._mine: dict[str, model.BackupPlace] = {}
        self._others: dict[str, model.BackupPlace] = {}
        # Of all that race: their number by host of the backup, and by host that has failed.
        self._load: collections.Counter[str | None] = collections.Counter()
        self._racing: collections.Counter[str] = collections.Counter()
        self._hosts = 0
        self._read, self._rest = float('-inf'), _FRESH

    def full(self) -> str | None:
        """Return why another backup has to wait; None if it need not wait.

        :raises exception.Unreachable: the database does not answer
        """
        self._refresh()
        with self._lock:
            return self._limits.full(self._load.total(), self._hosts)

    def slots(self, configured: int) -> int:
        """Return how many recoveries of this engine may race at once."""
        with self._lock:
            return servers.scaled(configured, self._hosts)

    def enter(self, recovery_id: str) -> None:
        """Let a recovery of this engine race. May be repeated."""
        with self._lock:
            if recovery_id not in self._mine:
                self._set(recovery_id, self._others.get(recovery_id)
                          or _racing(recovery_id, None))

    def placed(self, server: model.Server) -> dict[str, str]:
        """Return the hosts of the backups of the other members of a server's group, by server.

        :raises exception.Unreachable: the database does not answer
        """
        if server.group is None:
            return {}
        # Of the members alone: thousands of others may race.
        members = _others(server)
        active = {recovery.id: recovery for recovery in self._store.backups(members)}
        with self._lock:
            gone = {recovery_id for recovery_id, recovery in self._others.items()
                    if recovery.server in members}
            for recovery_id in gone | active.keys():
                self._replace(recovery_id, active.get(recovery_id))
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
            own = self._known(recovery_id)
            # The candidates of a member of a group are in the order of its policy.
            grouped = server is not None and server.group is not None
            best: tuple[tuple[bool, int, int], str] | None = None
            for place, host in enumerate(candidates):
                load = self._load[host] - (own is not None and own.destination == host)
                if self._limits.host_full(host, load) is not None:
                    continue
                key = host in avoid, 0 if grouped else load, place
                if best is None or (key, host) < best:
                    best = key, host
                if best[0][:2] == _IDLE:
                    # No later one is better: there may be thousands.
                    break
            if best is None:
                return None
            chosen = best[1]
            self._set(recovery_id, _racing(recovery_id, chosen, server))
            return chosen

    def leave(self, recovery_id: str) -> None:
        """Note that a recovery races no more, or cannot proceed. May be repeated."""
        with self._lock:
            self._count(self._known(recovery_id), -1)
            held = self._mine.pop(recovery_id, None) is not None
            self._others.pop(recovery_id, None)
        if held:
            self.freed()

    def count(self) -> int:
        """Return how many recoveries of this engine race."""
        with self._lock:
            return len(self._mine)

    def held(self) -> set[str]:
        """Return the recoveries of this engine that race."""
        with self._lock:
            return set(self._mine)

    def races(self, host: str) -> bool:
        """Return whether servers of a failed host race.

        :raises exception.Unreachable: the database does not answer
        """
        self._refresh()
        with self._lock:
            return self._racing[host] > 0

    def _known(self, recovery_id: str) -> model.BackupPlace | None:
        return self._mine.get(recovery_id) or self._others.get(recovery_id)

    def _set(self, recovery_id: str, recovery: model.BackupPlace) -> None:
        self._count(self._known(recovery_id), -1)
        self._mine[recovery_id] = recovery
        self._count(recovery, 1)

    def _replace(self, recovery_id: str, recovery: model.BackupPlace | None) -> None:
        """Replace a recovery by what the database says of it."""
        if recovery_id not in self._mine:
            self._count(self._others.get(recovery_id), -1)
            self._count(recovery, 1)
        if recovery is None:
            self._others.pop(recovery_id, None)
        else:
            self._others[recovery_id] = recovery

    def _count(self, recovery: model.BackupPlace | None, by: int) -> None:
        if recovery is not None and recovery.state == model.RACING:
            self._load[recovery.destination] += by
            self._racing[recovery.host] += by

    def _placed(self, server: model.Server) -> dict[str, str]:
        members = _others(server)
        if not members:
            # Each server asks, and thousands of recoveries may be known.
            return {}
        return {recovery.server: recovery.destination
                for recovery in (self._others | self._mine).values()
                if recovery.server in members and recovery.destination is not None}

    def _refresh(self) -> None:
        now = self._clock.now()
        with self._lock:
            if now - self._read < self._rest:
                return
            # Before the read, so that only one of several threads reads.
            before, self._read = self._read, now
        try:
            active = self._store.backups()
        except Exception:
            with self._lock:
                self._read = before
            raise
        hosts = len(self._healthy())
        with self._lock:
            self._rest = max(_FRESH, _REST * (self._clock.now() - now))
            self._hosts = hosts
            self._others = {recovery.id: recovery for recovery in active}
            self._load.clear()
            self._racing.clear()
            for recovery in (self._others | self._mine).values():
                self._count(recovery, 1)


def _others(server: model.Server) -> set[str]:
    """Return the other members of a server's group."""
    return set(server.group['members']) - {server.id} if server.group is not None else set()


def _racing(recovery_id: str, host: str | None, server: model.Server | None = None
            ) -> model.BackupPlace:
    return model.BackupPlace(recovery_id, server.id if server else '',
                             server.host if server else '', model.RACING, host)
