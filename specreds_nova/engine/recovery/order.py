# SPDX-License-Identifier: Apache-2.0
"""Which of an engine's waiting recoveries get its free slots, and which leave them to others."""

from collections.abc import Callable, Collection, Iterable, Iterator
import itertools
import threading

from specreds_nova.engine.recovery import fairness
from specreds_nova.engine.recovery import policies

# Seconds for which slots are kept for recoveries like those that came.
RECENT = 120.0


class Order:
    """What has come lately, and the policy for it. May be used by several threads.

    :param policy: one of :data:`policies.POLICIES`
    :param slots: of this engine
    :param tenant_max: the highest priority that tenants can give
    """

    def __init__(self, policy: str, slots: int, tenant_max: int) -> None:
        self._policy = policies.POLICIES[policy]
        self._slots = slots
        self._tenant_max = tenant_max
        self._lock = threading.Lock()
        # By id: when it was noted first, and what it is.
        self._known: dict[str, tuple[float, policies.Waiting]] = {}

    def note(self, wanted: Iterable[policies.Waiting], now: float) -> None:
        """Remember recoveries: the shares of slots depend on all that come at a time."""
        with self._lock:
            for one in wanted:
                self._known.setdefault(one.id, (now, one))

    def admits(self, one: policies.Waiting, running: Collection[str], now: float) -> bool:
        """Return whether a new recovery may take a slot at once.

        :param running: ids of the recoveries that hold slots
        """
        if len(running) >= self._slots:
            return False
        self.note([one], now)
        allowance = self._allowance([*running, one.id], now, self._level(one))
        return allowance.admits(one, self._busy(running))

    def begin(self, waiting: Collection[policies.Waiting],
              running: Callable[[], Collection[str]], now: float) -> Iterator[policies.Waiting]:
        """Yield the recoveries that may take a slot, the first one first, while there are slots.

        None of a lower priority is yielded after one that may not: it would take its slot.

        :param running: returns the ids of the recoveries that hold slots, read before each turn
        """
        self.note(waiting, now)
        there = {one.id for one in waiting}.union(running())
        self._forget(there, now)
        turns = self._policy.ordered(waiting, self._tenant_max, now)
        for level, equals in itertools.groupby(turns, self._level):
            allowance, held = self._allowance(there, now, level), False
            for one in equals:
                taken = running()
                if len(taken) >= self._slots:
                    return
                if allowance.admits(one, self._busy(taken)):
                    yield one
                else:
                    held = True
            if held:
                return

    def _forget(self, there: Collection[str], now: float) -> None:
        """Forget what came long since, but for what waits or runs."""
        with self._lock:
            for gone in [name for name, (noted, _) in self._known.items()
                         if now - noted > RECENT and name not in there]:
                del self._known[gone]

    def _allowance(self, there: Collection[str], now: float, level: int) -> policies.Allowance:
        """Return the shares of slots among recoveries of one level."""
        with self._lock:
            equals = [(name, noted, one) for name, (noted, one) in self._known.items()
                      if self._level(one) == level]
        # The longer something takes the longer it waits and runs, so that only what has come
        # tells how much of each there is.
        came = [one for _, noted, one in equals if now - noted <= RECENT]
        return self._policy.allowance(
            came, [one for name, _, one in equals if name in there], self._slots)

    def _level(self, one: policies.Waiting) -> int:
        return fairness.level(one.priority, self._tenant_max)

    def _busy(self, running: Collection[str]) -> list[policies.Waiting]:
        with self._lock:
            return [self._known[name][1] for name in running if name in self._known]
