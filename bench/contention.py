# SPDX-License-Identifier: Apache-2.0
"""Measure recoveries that need different hosts, on a simulated clock.

The capacity is the engine's own. *Optimistic*: a recovery reads where the other members
of its group are, asks Nova, and begins anew if a member was placed meanwhile. *Locked*: a recovery
locks what it has declared, in order, and keeps its thread while it waits for a lock. *Declared*
takes its idea from DORADD (PPoPP 2025): recoveries are in one log, and one begins when no earlier
one that has not ended has declared the same, so that neither a thread nor a lock waits.

Two engines with other latencies and other numbers of threads read the same log, without a word
between them. They differ in the servers that they place on other hosts.
"""

import collections
from collections.abc import Generator, Sequence
import dataclasses
import heapq
import itertools
import random

from bench import clock as clocks
from specreds_nova.engine import model
from specreds_nova.engine.clients import groups
from specreds_nova.engine.detection import servers as limits
from specreds_nova.engine.recovery import capacity

OPTIMISTIC, LOCKED, DECLARED = 'optimistic', 'locked', 'declared'
_NAME = 'dispatch.contention'
_SERVERS, _GROUPS, _HOSTS = 1000, 10, 1000
# Recoveries that an engine prepares at once: PreparationLimit of its callers; and another engine.
_THREADS, _OTHER_THREADS = 32, 8
# Seconds that the database and Nova take, and share by which each answer differs.
_DATABASE, _NOVA, _SPREAD = 0.005, 0.055, 0.5
# Longest time in seconds from the start of a thread until it asks for its lock.
_SCHEDULED = 0.002
# What all recoveries share that choose the host with the fewest backups.
_ALL_HOSTS = 'hosts'
_THREAD = 'thread'


class _Store:
    """A database in which no other engine has recoveries."""

    def backups(self, servers: object = None) -> list[model.BackupPlace]:
        del servers
        return []


@dataclasses.dataclass(frozen=True)
class Entry:
    """A recovery in the log.

    :ivar resources: what it touches, in the order in which locks are taken
    """

    server: model.Server
    resources: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Wait:
    """The wait of a recovery.

    :ivar began: seconds after which the recovery began
    :ivar behind: the recovery whose end let this one begin; None without one
    :ivar resource: what both have declared, or a thread
    """

    began: float
    behind: str | None = None
    resource: str | None = None


@dataclasses.dataclass
class Outcome:
    """The placement of all servers by one engine.

    :ivar aborted: attempts that started over
    :ivar seconds: until the last server was placed
    :ivar hosts: by server
    :ivar waits: by server, of the declared way
    """

    aborted: int = 0
    seconds: float = 0.0
    hosts: dict[str, str | None] = dataclasses.field(default_factory=dict)
    waits: dict[str, Wait] = dataclasses.field(default_factory=dict)

    def why(self, server: str) -> list[Wait]:
        """Return what a recovery waited for: its wait, that of the one before it, and so on."""
        chain = [self.waits[server]]
        while chain[-1].behind is not None:
            chain.append(self.waits[chain[-1].behind])
        return chain

    def differs(self, other: 'Outcome') -> int:
        """Return the number of servers that another engine has placed on other hosts."""
        return sum(other.hosts[server] != host for server, host in self.hosts.items())


def log_of(count: int, group_count: int, shared: Sequence[str] = ()) -> list[Entry]:
    """Return recoveries in random order, each of a member of one of the groups.

    :param group_count: number of anti-affinity groups; 0 for servers without one
    :param shared: what each recovery declares in addition
    """
    entries = []
    for number in range(count):
        group = number % group_count if group_count else None
        name = f'{group}.{number}'
        members = [f'{group}.{other}' for other in range(number % (group_count or 1), count,
                                                         group_count or 1)]
        own = () if group is None else (f'group {group}',)
        entries.append(Entry(_server(name, group, members), (*shared, *own, f'server {name}')))
    random.Random(1).shuffle(entries)
    return entries


def place(log: Sequence[Entry], way: str, threads: int = _THREADS, seed: int = 1) -> Outcome:
    """Place the servers of a log as one engine does.

    :param seed: of the latencies
    """
    return _Engine(way, threads, seed).run(log)


class _Engine:
    """An engine that reads a log."""

    def __init__(self, way: str, threads: int, seed: int) -> None:
        self._way = way
        self._threads = threads
        self._random = random.Random(seed)
        self._clock = clocks.SimulatedClock()
        self._capacity = capacity.Capacity(
            self._clock, _Store(), limits.Limits(0, 0))  # type: ignore[arg-type]
        self._hosts = [f'host{number}' for number in range(_HOSTS)]
        self._outcome = Outcome()
        self._running = 0
        # By resource: the recovery that has it, the one that had it last, and those that wait for
        # its lock.
        self._held: dict[str, str] = {}
        self._last: dict[str, str] = {}
        self._blocked: dict[str, collections.deque[tuple[Entry, Generator[float | str]]]] = (
            collections.defaultdict(collections.deque))
        self._events: list[tuple[float, int, Entry, Generator[float | str]]] = []
        self._numbers = itertools.count()

    def run(self, log: Sequence[Entry]) -> Outcome:
        """Place all servers."""
        waiting = self._begin(list(log), None)
        while self._events:
            self._clock.time, _, entry, search = heapq.heappop(self._events)
            if self._advance(entry, search):
                waiting = self._begin(waiting, entry.server.id)
        self._outcome.seconds = self._clock.time
        return self._outcome

    def _begin(self, waiting: list[Entry], ended: str | None) -> list[Entry]:
        """Begin what may begin, in the order of the log, and return what waits."""
        later: list[Entry] = []
        declared: set[str] = set()
        for number, entry in enumerate(waiting):
            if self._running >= self._threads:
                return later + waiting[number:]
            if self._way == DECLARED:
                if declared.union(self._held).intersection(entry.resources):
                    declared.update(entry.resources)
                    later.append(entry)
                    continue
                self._note(entry, ended)
                self._held.update(dict.fromkeys(entry.resources, entry.server.id))
            self._running += 1
            self._advance(entry, self._work(entry))
        return later

    def _note(self, entry: Entry, ended: str | None) -> None:
        shared = [name for name in entry.resources if self._last.get(name) == ended]
        why = shared[0] if shared else _THREAD
        self._outcome.waits[entry.server.id] = Wait(
            self._clock.time, ended, why if ended is not None else None)

    def _advance(self, entry: Entry, search: Generator[float | str]) -> bool:
        """Continue a recovery; return whether it has ended."""
        for step in search:
            if isinstance(step, float):
                heapq.heappush(self._events, (self._clock.time + step, next(self._numbers), entry,
                                              search))
                return False
            if step in self._held:
                self._blocked[step].append((entry, search))
                return False
            self._held[step] = entry.server.id
        self._running -= 1
        for name in entry.resources:
            if self._held.pop(name, None) is not None:
                self._last[name] = entry.server.id
                self._wake(name)
        return True

    def _wake(self, resource: str) -> None:
        if self._blocked[resource]:
            entry, search = self._blocked[resource].popleft()
            self._held[resource] = entry.server.id
            heapq.heappush(self._events, (self._clock.time, next(self._numbers), entry, search))

    def _work(self, entry: Entry) -> Generator[float | str]:
        """Yield the seconds that each step of a recovery takes, and the locks that it needs."""
        if self._way == LOCKED:
            yield self._random.uniform(0.0, _SCHEDULED)
            yield from entry.resources
        server = entry.server
        while True:
            placed = self._capacity.placed(server)
            yield self._takes(_DATABASE)
            candidates = groups.ordered(server, list(self._hosts), list(placed.values()))
            yield self._takes(_NOVA)
            try:
                self._outcome.hosts[server.id] = self._capacity.choose(
                    server.id, candidates, (), server, placed)
            except capacity.Outdated:
                self._outcome.aborted += 1
            else:
                return

    def _takes(self, seconds: float) -> float:
        return seconds * self._random.uniform(1.0 - _SPREAD, 1.0 + _SPREAD)


def _server(name: str, group: int | None, members: Sequence[str]) -> model.Server:
    return model.Server(
        id=name, name=name, project='p', host='dead', status='ACTIVE', task=None, locked=False,
        zone=None, flavor={}, volumes=(),
        group=None if group is None else {
            'id': str(group), 'policy': 'anti-affinity', 'rules': {}, 'members': members})


def run() -> dict[str, float]:
    """Measure, and return the figures by their keys."""
    figures: dict[str, float] = {}
    log = log_of(_SERVERS, _GROUPS)
    for way in (OPTIMISTIC, LOCKED, DECLARED):
        outcome = place(log, way)
        figures |= {
            f'{_NAME}.{way}_aborted': outcome.aborted,
            f'{_NAME}.{way}_per_s': round(_SERVERS / outcome.seconds, 1),
            f'{_NAME}.{way}_differ': outcome.differs(place(log, way, _OTHER_THREADS, 2))}
    figures |= _replayed(log)
    for name, shared in (('hosts', ()), ('hosts_declared', (_ALL_HOSTS,))):
        log = log_of(_SERVERS, 0, shared)
        outcome = place(log, DECLARED)
        figures[f'{_NAME}.{name}_per_s'] = round(_SERVERS / outcome.seconds, 1)
        figures[f'{_NAME}.{name}_differ'] = outcome.differs(
            place(log, DECLARED, _OTHER_THREADS, 2))
    return figures


def _replayed(log: Sequence[Entry]) -> dict[str, float]:
    """Return why the last recovery of a log waited, by a replay."""
    chain = place(log, DECLARED).why(log[-1].server.id)
    return {f'{_NAME}.replay_wait_s': round(chain[0].began, 2),
            f'{_NAME}.replay_behind': len(chain) - 1}
