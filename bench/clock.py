# SPDX-License-Identifier: Apache-2.0
"""A simulated clock, for measurements that wait for nothing."""

from specreds_nova.engine.clients import clock as clocks


class SimulatedClock(clocks.Clock):
    """Simulated time."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def now(self) -> float:
        """Return the simulated time in seconds."""
        return self.time

    def wall(self) -> float:
        """Return the same: nobody sets this clock."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Advance the time."""
        self.time += seconds
