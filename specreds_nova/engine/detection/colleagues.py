# SPDX-License-Identifier: Apache-2.0
"""The other engines that are heard: the work of one that falls silent is taken over.

Every engine hears the echoes of all others. That an engine is silent is a guess, as it is for a
host. It costs nothing but a change of engines if it is wrong, because the database refuses the
recovery to the former one.
"""

from collections.abc import Callable
import threading

from specreds_nova.engine import interfaces
from specreds_nova.engine.detection import accrual

# Seconds of silence that are no death, however evenly an engine sends.
PATIENCE = 0.5


class Colleagues:
    """The other engines, by name. May be used by several threads.

    :param interval: seconds between two echoes of an engine; 0 if there are none
    :param trouble: returns why silence is meaningless now; None if it is meaningful
    """

    def __init__(self, clock: interfaces.Clock, interval: float,
                 trouble: Callable[[], str | None]) -> None:
        self._clock = clock
        self._interval = interval
        self._trouble = trouble
        self._lock = threading.Lock()
        self._heard: dict[str, accrual.Accrual] = {}

    def heard(self, engine: str) -> None:
        """Take an echo of another engine."""
        now = self._clock.now()
        with self._lock:
            known = self._heard.get(engine)
            if known is None:
                self._heard[engine] = accrual.Accrual(accrual.Settings(), now, self._interval)
            else:
                known.heard(now, self._interval)

    def silent(self) -> frozenset[str]:
        """Return the engines that were heard once, and have fallen silent."""
        if not self._interval or self._trouble() is not None:
            return frozenset()
        now = self._clock.now()
        with self._lock:
            return frozenset(name for name, known in self._heard.items()
                             if now >= max(known.deadline, known.last + PATIENCE))
