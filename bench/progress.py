# SPDX-License-Identifier: Apache-2.0
"""Report what runs, how long it has taken, and about how long it will take."""

from collections.abc import Sequence
import sys
import time


class Progress:
    """Lines on standard error.

    :param plan: the benchmarks to come, in order
    """

    def __init__(self, plan: Sequence[str]) -> None:
        self._began = time.monotonic()
        self._plan = list(plan)
        self._name = ''
        self._steps = 0
        self._done = 0
        self._section_began = self._began

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def say(self, text: str) -> None:
        """Print a line."""
        print(f'[{self.elapsed:5.0f} s] {text}', file=sys.stderr, flush=True)

    def section(self, name: str, steps: int) -> None:
        """Begin a benchmark.

        :param steps: how many steps it will report
        """
        self._name, self._steps, self._done = name, steps, 0
        self._section_began = time.monotonic()
        if name in self._plan:
            self._plan = self._plan[self._plan.index(name) + 1:]

    def step(self, text: str) -> None:
        """Begin the next step of the benchmark."""
        left = ''
        if self._done:
            pace = (time.monotonic() - self._section_began) / self._done
            left = f', about {pace * max(self._steps - self._done, 1):.0f} s left'
        after = f' (then {", ".join(self._plan)})' if self._plan else ''
        self._done += 1
        self.say(f'{self._name} {self._done}/{self._steps}{left}{after}: {text}')
