# SPDX-License-Identifier: Apache-2.0
"""The policies by which waiting recoveries get slots: functions without side effects.

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

# Expected seconds of a recovery whose time is unknown, for its share of slots.
UNKNOWN = 300.0
# Shortest wait in seconds after which a recovery counts as aged.
PATIENCE = 60.0


@dataclasses.dataclass(frozen=True)
class Waiting:
    """The properties of a recovery that its turn depends on.

    :ivar expected: expected seconds until the backup is ready; None if unknown
    :ivar since: time at which the recovery began to wait, in seconds since the epoch
    :ivar name: orders recoveries that are equal otherwise
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
        """Return the expected seconds; an unknown time is longer than any known one."""
        return math.inf if self.expected is None else self.expected

    @property
    def work(self) -> float:
        """Return the seconds that the recovery contributes to shares of slots."""
        return UNKNOWN if self.expected is None else self.expected

    @functools.cached_property
    def size(self) -> float:
        """Return the class of size: times within a factor of two belong to one class."""
        return math.floor(math.log2(max(self.expected, 1.0))) if self.expected is not None \
            else math.inf


def of(recovery: model.Recovery) -> Waiting:
    """Return the properties of a new recovery that its turn depends on."""
    return Waiting(recovery.id, recovery.project, recovery.host, recovery.priority,
                   recovery.expected, recovery.created, recovery.server_name)


class Allowance(Protocol):
    """The slots that each recovery may use at one moment."""

    def admits(self, recovery: Waiting, busy: Collection[Waiting]) -> bool:
        """Return whether a recovery may take a free slot.

        :param busy: recoveries that hold slots; at least one slot is free
        """


class Policy(Protocol):
    """One way to give slots to recoveries.

    :ivar shares: what the shares of slots depend on: the recoveries that ``came`` lately, all that
        are ``there`` since they wait or run, or nothing
    """

    shares: str | None

    def ordered(self, waiting: Iterable[Waiting], tenant_max: int, now: float) -> list[Waiting]:
        """Return recoveries in the order in which they get slots.

        :param tenant_max: highest priority that tenants can give
        """

    def allowance(self, recoveries: Iterable[Waiting], slots: int) -> Allowance:
        """Return how slots are shared.

        :param recoveries: those that the shares depend on
        """


class All:
    """Any recovery may take any free slot."""

    def admits(self, recovery: Waiting, busy: Collection[Waiting]) -> bool:
        """Return True."""
        del recovery, busy
        return True


class CentralFirstCome:
    """One queue in the order of arrival."""

    shares: str | None = None

    def ordered(self, waiting: Iterable[Waiting], tenant_max: int, now: float) -> list[Waiting]:
        """Return recoveries by operators' priority, then by arrival."""
        del now
        return sorted(waiting, key=lambda entry: (-fairness.level(entry.priority, tenant_max),
                                                entry.since, entry.name, entry.id))

    def allowance(self, recoveries: Iterable[Waiting], slots: int) -> Allowance:
        """Return an allowance of any slot for any recovery."""
        del recoveries, slots
        return All()


class FirstComeByHost(CentralFirstCome):
    """A queue for each failed host, with an even share of the slots."""

    shares: str | None = 'there'

    def allowance(self, recoveries: Iterable[Waiting], slots: int) -> Allowance:
        """Return an allowance of equally many slots for each host, rounded up."""
        hosts = len({recovery.host for recovery in recoveries})
        return _ByHost(math.ceil(slots / max(1, hosts)))


@dataclasses.dataclass(frozen=True)
class _ByHost:
    most: int

    def admits(self, recovery: Waiting, busy: Collection[Waiting]) -> bool:
        """Return whether the recovery's host holds fewer slots than it may."""
        return sum(other.host == recovery.host for other in busy) < self.most


class ShortestFirst(CentralFirstCome):
    """Projects in turn, and among equals the shortest first."""

    def ordered(self, waiting: Iterable[Waiting], tenant_max: int, now: float) -> list[Waiting]:
        """Return recoveries by operators' priority, turn of the project, and expected time."""
        del now
        return fairness.ordered(
            waiting, lambda entry: entry.priority, lambda entry: entry.project,
            lambda entry: (entry.seconds, entry.since, entry.name, entry.id), tenant_max)


class Darc(ShortestFirst):
    """Short before long, with slots that only short recoveries may take."""

    shares: str | None = 'came'

    def ordered(self, waiting: Iterable[Waiting], tenant_max: int, now: float) -> list[Waiting]:
        """Return recoveries by operators' priority; then aged ones by arrival, then by size.

        Projects take turns within a size.
        """
        def place(entry: Waiting) -> tuple[float, ...]:
            level = -fairness.level(entry.priority, tenant_max)
            aged = now - entry.since >= max(PATIENCE, entry.work)
            return (level, 0.0, entry.since) if aged else (level, 1.0, entry.size)
        placed = itertools.groupby(sorted(waiting, key=place), place)
        return [entry for _, equals in placed
                for entry in super(Darc, self).ordered(equals, tenant_max, now)]

    def allowance(self, recoveries: Iterable[Waiting], slots: int) -> Allowance:
        """Return an allowance by size: the share of the size in all work, rounded up.

        At least one slot is left for the longest recoveries.
        """
        work: dict[float, float] = {}
        for recovery in recoveries:
            work[recovery.size] = work.get(recovery.size, 0.0) + recovery.work
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

    def admits(self, recovery: Waiting, busy: Collection[Waiting]) -> bool:
        """Return whether a free slot is not reserved for shorter recoveries."""
        sizes = [other.size for other in busy]
        kept = sum(max(0, count - sizes.count(size))
                   for size, count in self.slots_of.items() if size < recovery.size)
        return self.slots - len(sizes) > kept


POLICIES: dict[str, Policy] = {
    FIFO: FirstComeByHost(), CFCFS: CentralFirstCome(), SJF: ShortestFirst(), DARC: Darc()}


def ordered(policy: str, recoveries: Sequence[model.Recovery], tenant_max: int, now: float
            ) -> list[model.Recovery]:
    """Return new recoveries in the order in which a policy gives them slots."""
    by_id = {recovery.id: recovery for recovery in recoveries}
    return [by_id[waiting.id] for waiting in POLICIES[policy].ordered(
        map(of, recoveries), tenant_max, now)]
