# SPDX-License-Identifier: Apache-2.0
"""What all recoveries of an engine share: clients, store, limits and options."""

import collections
from collections.abc import Callable, Collection, Iterator, Sequence
import contextlib
import dataclasses
import functools
import math
import threading
from typing import Any

from specreds_nova.engine import events
from specreds_nova.engine import fibers as all_fibers
from specreds_nova.engine import model
from specreds_nova.engine import modes as all_modes
from specreds_nova.engine.clients import backups as backup_clients
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.clients import compute as nova_clients
from specreds_nova.engine.clients import connect
from specreds_nova.engine.clients import starts
from specreds_nova.engine.clients import volumes as volume_clients
from specreds_nova.engine.placing import capacity as capacities
from specreds_nova.engine.placing import preparation_limit
from specreds_nova.engine.recovery import settings as all_settings
from specreds_nova.engine.store import store as stores
from specreds_nova.engine.store import together
from specreds_nova.engine.suspicion import leases as all_leases
from specreds_nova.engine.suspicion import servers
from specreds_nova.engine.suspicion import suspects as all_suspects

# Seconds by which the clocks of the systems of two engines may differ, which may be set.
APART = 5.0
# Looks of all recoveries of an engine per second, for each thing.
_RATE = 100.0
# The same while more recoveries than these race: looks would take the processor time of the engine
# from servers that do not serve yet.
_MANY, _RATE_BESIDE_MANY = 50, 25.0
# Seconds for which a reading is valid.
_VALID = 1.0


class Crowds:
    """How many recoveries wait for each thing. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: collections.Counter[str] = collections.Counter()

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[Callable[[float, int], float]]:
        """Count the caller among those that wait for something.

        A function is yielded that returns the seconds between two looks of one recovery. It takes
        the shortest interval, which few recoveries have, and the number of recoveries of this
        engine that have a backup, or are about to have one.
        """
        def interval(seconds: float, racing: int) -> float:
            rate = _RATE if racing <= _MANY else _RATE_BESIDE_MANY
            return max(seconds, self._counts[what] / rate)
        with self._lock:
            self._counts[what] += 1
        try:
            yield interval
        finally:
            with self._lock:
                self._counts[what] -= 1


class Revocations:
    """Recoveries that race although they must not, read from the database for all at once.

    An operator may abort a recovery, and another engine may take it over. If each of thousands of
    recoveries read its own record every second, the engine would have time for little else. May be
    used by several threads.
    """

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


@dataclasses.dataclass(frozen=True)
class Context:
    """The services and the shared state with which the steps of recoveries work.

    :ivar options: group ``[engine]``
    :ivar settings: those that no operator needs to change
    :ivar capacity: limits how many recoveries race at once, and where their backups run
    :ivar preparations: limits how many backups are prepared at once
    :ivar group_turns: lets the members of a server group choose hosts one after the other
    :ivar crowds: the recoveries that look for the same thing again and again
    :ivar revocations: recoveries that others may have changed
    :ivar modes: the modes of hosts
    :ivar leases: times since which hosts have no network lease
    :ivar rank: sets the rank of the calls of a recovery
    :ivar in_background: calls a function, on another thread if there is one
    :ivar together: calls functions, at the same time if that is possible, and returns their
        results
    :ivar stopping: returns whether the engine is being stopped
    :ivar observer: receives what recoveries do
    """

    clock: clocks.Clock
    compute: nova_clients.Compute
    backups: backup_clients.Backups
    volumes: volume_clients.Volumes
    suspects: all_suspects.Suspects
    store: stores.Store
    options: Any
    capacity: capacities.Capacity
    revocations: Revocations
    modes: all_modes.Modes
    settings: all_settings.Settings = dataclasses.field(default_factory=all_settings.Settings)
    preparations: preparation_limit.PreparationLimit = dataclasses.field(
        default_factory=preparation_limit.PreparationLimit)
    group_turns: preparation_limit.Turns = dataclasses.field(
        default_factory=preparation_limit.Turns)
    crowds: Crowds = dataclasses.field(default_factory=Crowds)
    leases: all_leases.Leases = dataclasses.field(default_factory=all_leases.Leases)
    rank: Callable[[int], None] = lambda rank: None
    in_background: Callable[[Callable[[], None]], object] = lambda act: act()
    together: Callable[[Sequence[Callable[[], Any]]], list[Any]] = (
        lambda functions: [function() for function in functions])
    stopping: Callable[[], bool] = lambda: False
    observer: events.Observer = dataclasses.field(default_factory=events.Observer)

    def age(self, stamp: float) -> float:
        """Return the seconds since a time in the database, by the clock of the system.

        A time that is over in more than ``APART`` seconds was written by a clock that was ahead:
        how long ago is unknown, and nothing waits for that clock, so the time counts as long ago.
        """
        passed = self.clock.wall() - stamp
        return max(passed, 0.0) if passed >= -APART else math.inf


def in_fibers(fibers: all_fibers.Fibers, clock: clocks.FiberClock, clients: connect.Clients,
              store: stores.Store, options: Any, *, suspects: all_suspects.Suspects,
              stopping: Callable[[], bool], observer: events.Observer,
              settings: all_settings.Settings | None = None,
              places: Callable[[str], Collection[str] | None] = lambda host: ()) -> Context:
    """Return the context of recoveries that are fibers: their sleeps and calls block no other.

    :param places: returns the availability zone and the aggregates of a host, in words
    """
    database: Any = together.Store(fibers, store)
    hosts: Any = starts.Backups(fibers, clients.backups, clock, fibers.callers // 2)
    client: Callable[[Any], Any] = functools.partial(all_fibers.Client, fibers)
    settings = settings or all_settings.Settings()
    limits = servers.Limits(settings.max_backups, settings.max_backups_per_host)
    return Context(
        clock=clock, compute=client(clients.compute),
        backups=hosts, volumes=client(clients.volumes),
        suspects=suspects, store=database, options=options, settings=settings,
        capacity=capacities.Capacity(clock, database, limits, suspects.healthy),
        revocations=Revocations(clock, database),
        modes=all_modes.Modes(clock, database, places),
        preparations=preparation_limit.PreparationLimit(fibers.callers, fibers=fibers),
        group_turns=preparation_limit.Turns(fibers),
        leases=all_leases.Leases(suspects.last_heard),
        rank=fibers.rank, in_background=fibers.spawn, together=fibers.together, stopping=stopping,
        observer=observer)
