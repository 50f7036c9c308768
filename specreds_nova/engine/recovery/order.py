# SPDX-License-Identifier: Apache-2.0
"""The order in which waiting recoveries get the free slots of an engine."""

import collections
from collections.abc import Callable, Collection, Iterable, Iterator
import functools
import itertools
import threading

from specreds_nova.engine.recovery import fairness
from specreds_nova.engine.recovery import policies

# Shortest time in seconds for which slots are kept for recoveries similar to those that came.
RECENT = 120.0
# The same as a multiple of the longest expected work: rare long recoveries would otherwise seem to
# be none at one moment, and too many at another one, so that shares are rounded to wrong numbers.
_WORKS = 2.0
# Seconds for which shares are not computed anew while few recoveries come, and none of a new size;
# few are one of so many that are known.
_MOMENT, _FEW = 1.0, 16


class Order:
    """The recoveries of the last minutes, and their order. May be used by several threads.

    :ivar slots: slots of this engine
    :param tenant_max: highest priority that tenants can give
    """

    def __init__(self, slots: int, tenant_max: int) -> None:
        self.slots = slots
        self._tenant_max = tenant_max
        self._lock = threading.Lock()
        # By id: the time at which the recovery was noted, and the recovery.
        self._known: dict[str, tuple[float, policies.Waiting]] = {}
        # By level and size: the number of known recoveries.
        self._sizes = collections.Counter[tuple[int, float]]()
        # By level: reserved slots, and the time and the number of arrivals for which they were
        # computed.
        self._reserves: dict[int, tuple[float, int, policies.Reserve]] = {}
        self._arrivals = 0
        self._forgot = float('-inf')

    def note(self, wanted: Iterable[policies.Waiting], now: float) -> None:
        """Remember recoveries: reserved slots depend on all that come at a time."""
        with self._lock:
            for recovery in wanted:
                if recovery.id not in self._known:
                    self._known[recovery.id] = (now, recovery)
                    self._arrivals += 1
                    key = self._level(recovery), recovery.size
                    if not self._sizes[key]:
                        self._reserves.pop(key[0], None)
                    self._sizes[key] += 1

    def admits(self, recovery: policies.Waiting, running: Collection[str], now: float) -> bool:
        """Return whether a new recovery may take a slot at once.

        :param running: ids of the recoveries that hold slots
        """
        if len(running) >= self.slots:
            return False
        self.note([recovery], now)
        return self._admits(self._reserve(now, self._level(recovery)), recovery, running)

    def begin(self, waiting: Collection[policies.Waiting],
              running: Callable[[], Collection[str]], now: float, ahead: float = 0.0
              ) -> Iterator[policies.Waiting]:
        """Yield the recoveries that may take a slot, in order, while there are free slots.

        After a recovery that may not take one, none of a lower priority is yielded: it would take
        the slot that is kept for the first.

        :param running: returns the ids of the recoveries that hold slots, read before each turn
        :param ahead: seconds by which the clock of the system, by which recoveries began to wait,
            is ahead
        """
        self.note(waiting, now)
        self._forget({recovery.id for recovery in waiting}.union(running()), now)
        queue = policies.ordered(waiting, self._tenant_max, now + ahead)
        for level, equals in itertools.groupby(queue, self._level):
            reserve = self._reserve(now, level)
            # Least size of which a recovery was refused: all longer ones would be, too.
            refused: float | None = None
            for recovery in equals:
                taken = running()
                if len(taken) >= self.slots:
                    return
                if refused is not None and recovery.size >= refused:
                    continue
                if self._admits(reserve, recovery, taken):
                    yield recovery
                else:
                    refused = recovery.size
            if refused is not None:
                return

    def _forget(self, there: Collection[str], now: float) -> None:
        """Forget old recoveries that neither wait nor run."""
        if now - self._forgot < _MOMENT:
            return
        with self._lock:
            self._forgot, window = now, self._window()
            for gone in [name for name, (noted, _) in self._known.items()
                         if now - noted > window and name not in there]:
                _, recovery = self._known.pop(gone)
                self._sizes[self._level(recovery), recovery.size] -= 1

    def _window(self) -> float:
        """Return the seconds for which arrivals count. The caller holds the lock."""
        return max(RECENT, _WORKS * max(
            (recovery.work for _, recovery in self._known.values()), default=0.0))

    def _reserve(self, now: float, level: int) -> policies.Reserve:
        """Return the slots that are reserved among the recoveries of one level."""
        known = self._reserves.get(level)
        if (known is not None and now - known[0] < _MOMENT
                and (self._arrivals - known[1]) * _FEW <= len(self._known)):
            return known[2]
        with self._lock:
            # A long recovery waits and runs for long, so that only arrivals show how much of each
            # size there is.
            window = self._window()
            counted = [recovery for noted, recovery in self._known.values()
                       if now - noted <= window and self._level(recovery) == level]
        reserve = policies.reserve(counted, self.slots)
        self._reserves[level] = now, self._arrivals, reserve
        return reserve

    def _admits(self, reserve: policies.Reserve, recovery: policies.Waiting,
                running: Collection[str]) -> bool:
        return reserve.admits(recovery.size, self.slots - len(running),
                              functools.partial(self._busy, running))

    def _level(self, recovery: policies.Waiting) -> int:
        return fairness.level(recovery.priority, self._tenant_max)

    def _busy(self, running: Collection[str]) -> list[float]:
        """Return the sizes of recoveries."""
        with self._lock:
            return [self._known[name][1].size for name in running if name in self._known]
