# SPDX-License-Identifier: Apache-2.0
"""A clock for tests of the engine."""

import dataclasses


@dataclasses.dataclass
class Clock:
    """A clock that a test or a sleeper moves."""

    time: float = 1000.0

    def now(self) -> float:
        """Return the time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Move the clock on."""
        self.time += seconds
