# SPDX-License-Identifier: Apache-2.0
"""What came of a run of a suite, and what is wrong with it."""

from collections.abc import Sequence
import dataclasses
import io
import re

from cloud import subunit_results
from testing.suites import declared

PASSED = subunit_results.PASSED
FAILED = subunit_results.FAILED
SKIPPED = subunit_results.SKIPPED
Test = subunit_results.Result

# How much of a text that a failed test has attached is kept: the log has all.
_LINES, _WIDTH = 12, 300
# The texts that explain a failure, in their order after all other texts: where only the end of the
# output is kept, the end has to name the cause.
_LAST = {'traceback': 20, 'lost services': 12}


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A run of a suite that has ended.

    :param status: exit status of the program that ran the tests
    :param least: number of tests that have to pass
    :param skips: names of tests that may be skipped: regular expressions
    """

    name: str
    tests: Sequence[Test]
    seconds: float
    status: int = 0
    least: int = 0
    skips: Sequence[str] = ()

    def count(self, status: str) -> int:
        """Return the number of tests that have a status."""
        return sum(test.status == status for test in self.tests)

    @property
    def wrong(self) -> list[str]:
        """Return a line for each reason for which the run is a failure."""
        lines = [f'{test.name}: failed' for test in self.tests if test.status == FAILED]
        lines += [f'{test.name}: skipped ({test.words or "no reason"}), and '
                  f'{declared.FILE} does not expect that' for test in self.tests
                  if test.status == SKIPPED
                  and not any(re.search(skip, test.name) for skip in self.skips)]
        if (passed := self.count(PASSED)) < self.least:
            lines.append(f'{passed} tests passed, and {declared.FILE} says at least {self.least}')
        if self.status and not lines:
            lines.append(f'exit status {self.status}')
        return [f'{self.name}: {line}' for line in lines]


def read(stream: bytes) -> list[Test]:
    """Return the results in a stream in subunit's format."""
    return subunit_results.read(io.BytesIO(stream), explain=_words)


def _words(status: str, texts: subunit_results.Texts) -> str:
    """Return why a test was skipped, or the ends of all texts that a failed test has attached."""
    if status != FAILED:
        return texts.get('reason', '').strip()
    others = [name for name in texts if not name.startswith(tuple(_LAST))]
    # The failures of clean-ups have numbers: the traceback of the test itself comes after those.
    explaining = [(name, lines) for prefix, lines in _LAST.items()
                  for name in sorted(texts, reverse=True) if name.startswith(prefix)]
    ends = [_end(texts[name], lines) for name, lines in
            [*((name, _LINES) for name in others), *explaining]]
    return '\n'.join(filter(None, ends)).strip()


def _end(text: str, lines: int) -> str:
    """Return the end of a text, where a traceback has its error."""
    return '\n'.join(line[:_WIDTH] for line in text.splitlines()[-lines:])
