# SPDX-License-Identifier: Apache-2.0
"""The policies by which waiting recoveries get slots: pure functions of what waits and runs.

``darc`` takes its idea from Demoulin et al., *When Idling is Ideal: Optimizing Tail-Latency for
Heavy-Tailed Datacenter Workloads with Perséphone* (SOSP 2021): slots are set aside for short
work, by its share of all work, and stay idle rather than be taken by long work.
"""

from collections.abc import Collection, Iterable, Sequence
import dataclasses
import functools
import itertools
import math
from typing import Protocol

from specreds_nova.engine import model
from specreds_nova.engine.recovery import fairness

FIFO = 'fifo'
CFCFS = 'cfcfs'
SJF = 'sjf'
DARC = 'darc'

# Seconds that a recovery counts with whose time is not known, unless longer ones are known.
UNKNOWN = 300.0
# Seconds that a recovery waits at least before it counts as aged.
PATIENCE = 60.0


@dataclasses.dataclass(frozen=True)
class Waiting:
    """A recovery, as far as its turn depends on it.

    :ivar expected: seconds until its backup is ready; None if nobody knows
    :ivar since: when it began to wait, in seconds since the epoch
    :ivar name: orders those that are equal otherwise
    """

    id: str
    project: str
    host: str
    priority: int
    expected: float | None
    since: float
    name: str = ''

    @property
    def seconds(self) -> float:
        """Return the expected seconds; what is not known is longer than all that is."""
        return math.inf if self.expected is None else self.expected

    @property
    def work(self) -> float:
        """Return the seconds that it counts with in shares of slots."""
        return UNKNOWN if self.expected is None else self.expected

    @functools.cached_property
    def size(self) -> float:
        """Return its class of size: times within a factor of two are of one."""
        return math.floor(math.log2(max(self.expected, 1.0))) if self.expected is not None \
            else math.inf


def of(recovery: model.Recovery) -> Waiting:
    """Return what the turn of a new recovery depends on."""
    return Waiting(recovery.id, recovery.project, recovery.host, recovery.priority,
                   recovery.expected, recovery.created, recovery.server_name)


class Allowance(Protocol):
    """How much of the slots each recovery may use; valid for one moment."""

    def admits(self, one: Waiting, busy: Collection[Waiting]) -> bool:
        """Return whether a recovery may take a free slot.

        :param busy: the recoveries that hold slots; there is a free one
        """


class Policy(Protocol):
    """One way to give slots to recoveries."""

    def ordered(self, waiting: Iterable[Waiting], tenant_max: int, now: float) -> list[Waiting]:
        """Return recoveries in the order in which they get slots.

        :param tenant_max: the highest priority that tenants can give
        """

    def allowance(self, came: Iterable[Waiting], there: Iterable[Waiting], slots: int
                  ) -> Allowance:
        """Return how slots are shared.

        :param came: what came lately
        :param there: what waits or runs
        """


class _All:
    """Any recovery may take any free slot."""

    def admits(self, one: Waiting, busy: Collection[Waiting]) -> bool:
        """Return True."""
        del one, busy
        return True


class CentralFirstCome:
    """One queue in the order of arrival."""

    def ordered(self, waiting: Iterable[Waiting], tenant_max: int, now: float) -> list[Waiting]:
        """Return them by operators' priority, then by arrival."""
        del now
        return sorted(waiting, key=lambda one: (-fairness.level(one.priority, tenant_max),
                                                one.since, one.name, one.id))

    def allowance(self, came: Iterable[Waiting], there: Iterable[Waiting], slots: int
                  ) -> Allowance:
        """Return that of any slot for any recovery."""
        del came, there, slots
        return _All()


class FirstComeByHost(CentralFirstCome):
    """A queue for each failed host, with an even share of the slots."""

    def allowance(self, came: Iterable[Waiting], there: Iterable[Waiting], slots: int
                  ) -> Allowance:
        """Return that of as many slots for each host, rounded up."""
        del came
        hosts = len({one.host for one in there})
        return _ByHost(math.ceil(slots / max(1, hosts)))


@dataclasses.dataclass(frozen=True)
class _ByHost:
    most: int

    def admits(self, one: Waiting, busy: Collection[Waiting]) -> bool:
        """Return whether its host holds fewer slots than it may."""
        return sum(other.host == one.host for other in busy) < self.most


class ShortestFirst(CentralFirstCome):
    """Projects in turn, and among equals the shortest first."""

    def ordered(self, waiting: Iterable[Waiting], tenant_max: int, now: float) -> list[Waiting]:
        """Return them by operators' priority, turn of the project, and expected time."""
        del now
        return fairness.ordered(
            waiting, lambda one: one.priority, lambda one: one.project,
            lambda one: (one.seconds, one.since, one.name, one.id), tenant_max)


class Darc(ShortestFirst):
    """Short before long, with slots that only short recoveries may take."""

    def ordered(self, waiting: Iterable[Waiting], tenant_max: int, now: float) -> list[Waiting]:
        """Return them by operators' priority; then the aged ones by arrival, then by size.

        Projects take turns within a size.
        """
        def place(one: Waiting) -> tuple[float, ...]:
            level = -fairness.level(one.priority, tenant_max)
            aged = now - one.since >= max(PATIENCE, one.work)
            return (level, 0.0, one.since) if aged else (level, 1.0, one.size)
        placed = itertools.groupby(sorted(waiting, key=place), place)
        return [one for _, equals in placed
                for one in super(Darc, self).ordered(equals, tenant_max, now)]

    def allowance(self, came: Iterable[Waiting], there: Iterable[Waiting], slots: int
                  ) -> Allowance:
        """Return that of slots by size: its share of all work, rounded up.

        One slot at least is left for the longest, however few there are.
        """
        work: dict[float, float] = {}
        del there
        for one in came:
            work[one.size] = work.get(one.size, 0.0) + one.work
        total, left = sum(work.values()), slots - 1
        reserved = {}
        for size in sorted(work)[:-1]:
            reserved[size] = min(left, math.ceil(slots * work[size] / total))
            left -= reserved[size]
        return _Reserved(reserved, slots)


@dataclasses.dataclass(frozen=True)
class _Reserved:
    """Slots by size, of all sizes but the longest."""

    slots_of: dict[float, int]
    slots: int

    def admits(self, one: Waiting, busy: Collection[Waiting]) -> bool:
        """Return whether a slot is free that is not set aside for shorter recoveries."""
        sizes = [other.size for other in busy]
        kept = sum(max(0, count - sizes.count(size))
                   for size, count in self.slots_of.items() if size < one.size)
        return self.slots - len(sizes) > kept


POLICIES: dict[str, Policy] = {
    FIFO: FirstComeByHost(), CFCFS: CentralFirstCome(), SJF: ShortestFirst(), DARC: Darc()}


def ordered(policy: str, recoveries: Sequence[model.Recovery], tenant_max: int, now: float
            ) -> list[model.Recovery]:
    """Return new recoveries in the order in which a policy gives them slots."""
    by_id = {one.id: one for one in recoveries}
    return [by_id[one.id] for one in POLICIES[policy].ordered(
        map(of, recoveries), tenant_max, now)]
