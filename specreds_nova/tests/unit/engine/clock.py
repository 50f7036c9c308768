# SPDX-License-Identifier: Apache-2.0
"""Time for tests of the engine."""

import dataclasses


@dataclasses.dataclass
class Clock:
    """Time that only passes when it is told to, or when somebody sleeps."""

    time: float = 1000.0

    def now(self) -> float:
        """Give the time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let it pass."""
        self.time += seconds
