# SPDX-License-Identifier: Apache-2.0
"""What came of a run of a suite, and what is wrong with it."""

from collections.abc import Callable, Sequence
import dataclasses
import pathlib
import re
from typing import IO

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
# How many lines of a program's output explain its exit status.
_LAST_LINES = 40


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A run of a suite that has ended.

    :param least: number of tests that have to pass
    :param skips: names of tests that may be skipped: regular expressions
    """

    name: str
    tests: Sequence[Test]
    seconds: float
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
        return [f'{self.name}: {line}' for line in lines]


def read(stream: IO[bytes], log: IO[bytes], report: Callable[[Test], object]) -> list[Test]:
    """Follow a run in subunit's format to its end, and return its results.

    :param log: file for the results, with all that a failed test has attached
    :param report: called with each result as soon as it is there
    """
    def tell(test: Test) -> None:
        log.write(f'{line(test)}\n'.encode())
        for name, text in test.texts.items():
            log.write(f'--- {name}\n{text}\n'.encode())
        report(test)

    return subunit_results.read(stream, output=log.write, report=tell, explain=_words)


def line(test: Test) -> str:
    """Return a line about a test that has ended."""
    return f'{test.name} [{test.seconds:.3f} s] ... {test.status}'


def of_program(status: int, log: pathlib.Path, seconds: float) -> list[Test]:
    """Return the failure of a program whose exit status is another one than 0.

    :param log: file with the program's output
    """
    if not status:
        return []
    words = '\n'.join(log.read_text(errors='replace').splitlines()[-_LAST_LINES:])
    return [Test(f'exit status {status}', FAILED, words, seconds)]


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
