# SPDX-License-Identifier: Apache-2.0
"""The policy by which waiting recoveries get slots: functions without side effects.

The reserve takes its idea from Demoulin et al., *When Idling is Ideal: Optimizing Tail-Latency for
Heavy-Tailed Datacenter Workloads with Perséphone* (SOSP 2021). It sets slots aside for short work,
by the share of short work in all work. Such a slot stays idle rather than be taken by long work.
"""

import collections
from collections.abc import Callable, Iterable, Mapping
import dataclasses
import functools
import math

from specreds_nova.engine import model
from specreds_nova.engine.recovery import fairness

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


def ordered(waiting: Iterable[Waiting], tenant_max: int, now: float) -> list[Waiting]:
    """Return recoveries in the order in which they get slots.

    Priorities of operators come first, then projects take turns. In a project, priorities of
    tenants come first, then aged recoveries by arrival, then the shortest ones.

    :param tenant_max: highest priority that tenants can give
    """
    def place(entry: Waiting) -> tuple[float | str, ...]:
        since = entry.since, entry.name, entry.id
        aged = now - entry.since >= max(PATIENCE, entry.work)
        return (0, *since) if aged else (1, entry.seconds, *since)
    return fairness.ordered(waiting, lambda entry: entry.priority, lambda entry: entry.project,
                            place, tenant_max)


@dataclasses.dataclass(frozen=True)
class Reserve:
    """Slots that are kept for short recoveries.

    :ivar slots_of: by size, of all sizes but the longest
    """

    slots_of: Mapping[float, int]

    def admits(self, size: float, free: int, busy: Callable[[], Iterable[float]]) -> bool:
        """Return whether a recovery may take a slot that no shorter one needs.

        :param free: number of free slots
        :param busy: returns the sizes of the recoveries that hold slots
        """
        shorter = {other: count for other, count in self.slots_of.items() if other < size}
        if free > sum(shorter.values()):
            # The answer needs no look at thousands of recoveries.
            return True
        held = collections.Counter(busy())
        return free > sum(max(0, count - held[other]) for other, count in shorter.items())


def reserve(recoveries: Iterable[Waiting], slots: int) -> Reserve:
    """Reserve slots for each size by its share of all work, rounded up.

    At least one slot is left for the longest recoveries.
    """
    work = collections.defaultdict[float, float](float)
    for recovery in recoveries:
        work[recovery.size] += recovery.work
    total, left = sum(work.values()), slots - 1
    reserved = {}
    for size in sorted(work)[:-1]:
        reserved[size] = min(left, math.ceil(slots * work[size] / total))
        left -= reserved[size]
    return Reserve(reserved)
