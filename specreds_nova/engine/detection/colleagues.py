# SPDX-License-Identifier: Apache-2.0
"""The other engines: this engine takes over the recoveries of those that fall silent.

Every engine hears the echoes of all others. The verdict that an engine is silent may be wrong, as
for a host. A wrong one only moves recoveries to another engine: the database refuses every later
change by the former one.
"""

from collections.abc import Callable
import threading

from specreds_nova.engine import interfaces
from specreds_nova.engine.detection import accrual

# Seconds of silence that never count as a death, however regular the echoes of an engine are.
PATIENCE = 0.5


class Colleagues:
    """The other engines, by name. May be used by several threads.

    :param interval: seconds between two echoes of an engine; 0 if there are none
    :param trouble: returns why silence proves nothing; None if it counts
    """

    def __init__(self, clock: interfaces.Clock, interval: float,
                 trouble: Callable[[], str | None]) -> None:
        self._clock = clock
        self._interval = interval
        self._trouble = trouble
        self._lock = threading.Lock()
        self._heard: dict[str, accrual.Accrual] = {}

    def heard(self, engine: str) -> None:
        """Note an echo of another engine."""
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
