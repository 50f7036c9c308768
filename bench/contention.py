# SPDX-License-Identifier: Apache-2.0
"""Measure recoveries that need different hosts, on a simulated clock.

The ledger of backups is the engine's own. *Optimistic*: a recovery reads where the other members
of its group are, asks Nova, and begins anew if a member was placed meanwhile. *Declared* is what
the engine does, and takes its idea from DORADD (PPoPP 2025): a recovery that has declared its
group waits for its turn in the queue of the group, and never begins anew.
"""

import collections
from collections.abc import Generator, Sequence
import dataclasses
import heapq
import itertools

from bench import clock as clocks
from specreds_nova.engine import model
from specreds_nova.engine.clients import groups
from specreds_nova.engine.detection import servers as limits
from specreds_nova.engine.recovery import destination_limits

_SERVERS, _GROUPS, _HOSTS = 1000, 10, 1000
# Recoveries that an engine prepares at once: PreparationLimit of its callers.
_CONCURRENT = 32
# Seconds that the database and Nova take.
_DATABASE, _NOVA = 0.005, 0.055


class _Store:
    """A database in which no other engine has recoveries."""

    def active(self, host: object = None, servers: object = None) -> list[model.Recovery]:
        del host, servers
        return []


@dataclasses.dataclass
class Outcome:
    """The cost of placing all servers.

    :ivar aborted: attempts that started over
    :ivar seconds: until the last server was placed
    """

    aborted: int
    seconds: float


def place(count: int, group_count: int, *, declared: bool) -> Outcome:
    """Place servers of anti-affinity groups, each on a host of its own within its group."""
    clock = clocks.SimulatedClock()
    ledger = destination_limits.DestinationLimits(
        clock, _Store(), limits.Limits(0, 0))  # type: ignore[arg-type]
    hosts = [f'host{number}' for number in range(_HOSTS)]
    members = [[f'{group}.{place}' for place in range(count // group_count)]
               for group in range(group_count)]
    waiting = collections.deque(_server(members[group], group, place)
                                for place in range(count // group_count)
                                for group in range(group_count))
    outcome = Outcome(0, 0.0)
    events: list[tuple[float, int, str, Generator[float]]] = []
    numbers, busy = itertools.count(), collections.Counter[str]()

    def begin() -> None:
        later = []
        while waiting and len(events) < _CONCURRENT:
            server = waiting.popleft()
            assert server.group is not None
            group = str(server.group['id'])
            if declared and busy[group]:
                later.append(server)
                continue
            busy[group] += 1
            search = _search(ledger, server, hosts, outcome)
            heapq.heappush(events, (clock.time + next(search), next(numbers), group, search))
        waiting.extendleft(reversed(later))

    begin()
    while events:
        clock.time, _, group, search = heapq.heappop(events)
        try:
            heapq.heappush(events, (clock.time + next(search), next(numbers), group, search))
        except StopIteration:
            busy[group] -= 1
            begin()
    outcome.seconds = clock.time
    return outcome


def _search(ledger: destination_limits.DestinationLimits, server: model.Server,
            hosts: Sequence[str], outcome: Outcome) -> Generator[float]:
    while True:
        placed = ledger.placed(server)
        yield _DATABASE
        candidates = groups.ordered(server, list(hosts), list(placed.values()))
        yield _NOVA
        try:
            ledger.choose(server.id, candidates, (), server, placed)
        except destination_limits.Outdated:
            outcome.aborted += 1
        else:
            return


def _server(members: Sequence[str], group: int, place: int) -> model.Server:
    return model.Server(
        id=members[place], name=members[place], project='p', host='dead', status='ACTIVE',
        task=None, locked=False, zone=None, flavor={}, volumes=(),
        group={'id': str(group), 'policy': 'anti-affinity', 'rules': {}, 'members': members})


def run() -> dict[str, float]:
    """Measure, and return the figures by their keys."""
    figures: dict[str, float] = {}
    for name, declared in (('optimistic', False), ('declared', True)):
        outcome = place(_SERVERS, _GROUPS, declared=declared)
        figures[f'dispatch.contention.{name}_aborted'] = outcome.aborted
        figures[f'dispatch.contention.{name}_per_s'] = round(_SERVERS / outcome.seconds, 1)
    return figures
