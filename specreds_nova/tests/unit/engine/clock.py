# SPDX-License-Identifier: Apache-2.0
"""A clock for tests of the engine."""

import dataclasses

from specreds_nova.engine.clients import clock as clocks


@dataclasses.dataclass
class Clock(clocks.Clock):
    """A clock that a test or a sleeper moves.

    :ivar ahead: seconds by which the clock of the system was set
    """

    time: float = 1000.0
    ahead: float = 0.0

    def now(self) -> float:
        """Return the time."""
        return self.time

    def wall(self) -> float:
        """Return the time by the clock of the system."""
        return self.time + self.ahead

    def sleep(self, seconds: float) -> None:
        """Move the clock on."""
        self.time += seconds
