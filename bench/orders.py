# SPDX-License-Identifier: Apache-2.0
"""Orders of recoveries with which the engine's own is compared."""

from collections.abc import Callable, Collection, Iterable, Iterator
import math

from specreds_nova.engine.recovery import fairness
from specreds_nova.engine.recovery import order
from specreds_nova.engine.recovery import policies

# A queue for each failed host, each with as many slots; one queue, in the order of arrival;
# projects in turn, and the shortest recovery of each first; and the engine's own.
FIFO, CFCFS, SJF, DARC = ORDERS = ('fifo', 'cfcfs', 'sjf', 'darc')


def of(name: str, slots: int, tenant_max: int) -> 'order.Order | Baseline':
    """Return an order by its name."""
    return (order.Order if name == DARC else _BASELINES[name])(slots, tenant_max)


class Baseline:
    """One queue in the order of arrival; has the methods of :class:`order.Order`."""

    def __init__(self, slots: int, tenant_max: int) -> None:
        self.slots = slots
        self.tenant_max = tenant_max
        self._known: dict[str, policies.Waiting] = {}

    def note(self, wanted: Iterable[policies.Waiting], now: float) -> None:
        """Remember recoveries."""
        del now
        self._known |= {recovery.id: recovery for recovery in wanted}

    def admits(self, recovery: policies.Waiting, running: Collection[str], now: float) -> bool:
        """Return whether a new recovery may take a slot at once."""
        self.note([recovery], now)
        return len(running) < self.slots and self.has_room(
            recovery, self._those(running), {recovery.host})

    def begin(self, waiting: Collection[policies.Waiting],
              running: Callable[[], Collection[str]], now: float) -> Iterator[policies.Waiting]:
        """Yield the recoveries that may take a slot, in order, while there are free slots."""
        self.note(waiting, now)
        hosts = {recovery.host for recovery in waiting}
        for recovery in self.ordered(waiting):
            taken = running()
            if len(taken) >= self.slots:
                return
            if self.has_room(recovery, self._those(taken), hosts):
                yield recovery

    def ordered(self, waiting: Iterable[policies.Waiting]) -> list[policies.Waiting]:
        """Return recoveries by operators' priority, then by arrival."""
        return sorted(waiting, key=lambda entry: (
            -fairness.level(entry.priority, self.tenant_max), entry.since, entry.name, entry.id))

    def has_room(self, recovery: policies.Waiting, busy: Collection[policies.Waiting],
                 hosts: set[str]) -> bool:
        """Return whether a recovery may take a free slot.

        :param hosts: hosts of the recoveries that wait
        """
        del recovery, busy, hosts
        return True

    def _those(self, names: Iterable[str]) -> list[policies.Waiting]:
        return [self._known[name] for name in names if name in self._known]


class ByHost(Baseline):
    """A queue for each failed host, with an even share of the slots, rounded up."""

    def has_room(self, recovery: policies.Waiting, busy: Collection[policies.Waiting],
                 hosts: set[str]) -> bool:
        """Return whether the recovery's host holds fewer slots than it may."""
        most = math.ceil(self.slots / len(hosts | {other.host for other in busy}))
        return sum(other.host == recovery.host for other in busy) < most


class ShortestFirst(Baseline):
    """Projects in turn, and the shortest recovery of each first."""

    def ordered(self, waiting: Iterable[policies.Waiting]) -> list[policies.Waiting]:
        """Return recoveries by operators' priority, turn of the project, and expected time."""
        return fairness.ordered(
            waiting, lambda entry: entry.priority, lambda entry: entry.project,
            lambda entry: (entry.seconds, entry.since, entry.name, entry.id), self.tenant_max)


_BASELINES: dict[str, type[Baseline]] = {FIFO: ByHost, CFCFS: Baseline, SJF: ShortestFirst}
