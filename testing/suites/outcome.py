# SPDX-License-Identifier: Apache-2.0
"""What came of a run of a suite, and what is wrong with it."""

from collections.abc import Mapping, Sequence
import dataclasses
import io
import re
from typing import Any

import subunit
import testtools
from testtools import content

from testing.suites import declared

# Results of tests. What is none of the others has failed, such as a test that never ended.
PASSED = 'passed'
SKIPPED = 'skipped'
FAILED = 'failed'
# How much of a text that a failed test has attached is kept: the log has all.
_LINES, _WIDTH = 20, 300
# What explains a failure, before all else that a test has attached.
_FIRST = ('lost services', 'traceback')
_STATUSES = {'success': PASSED, 'xfail': PASSED, 'skip': SKIPPED}


@dataclasses.dataclass(frozen=True)
class Test:
    """The result of one test.

    :param seconds: duration
    :param words: why the test was skipped, or what it attached to its failure
    """

    name: str
    status: str
    seconds: float = 0.0
    words: str = ''


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
    tests: list[Test] = []

    def add(test: Mapping[str, Any]) -> None:
        # Output without a test has no name; a listed test has not run.
        if test['id'] is not None and test['status'] != 'exists':
            tests.append(_test(test))

    to_dict = testtools.StreamToDict(add)
    to_dict.startTestRun()
    reader = subunit.ByteStreamToStreamResult(io.BytesIO(stream), non_subunit_name='output')
    try:
        reader.run(to_dict)
    finally:
        to_dict.stopTestRun()
    return tests


def _test(result: Mapping[str, Any]) -> Test:
    status = _STATUSES.get(str(result['status']), FAILED)
    began, ended = result['timestamps']
    words = [_text(detail) for name, detail in sorted(
        result['details'].items(), key=lambda item: not item[0].startswith(_FIRST))
        if name == 'reason' or status == FAILED]
    return Test(result['id'], status, (ended - began).total_seconds() if began and ended else 0.0,
                '\n'.join(filter(None, words)).strip())


def _text(detail: content.Content) -> str:
    """Return the end of a text, where a traceback has its error."""
    if detail.content_type.type != 'text':
        return ''
    return '\n'.join(line[:_WIDTH] for line in detail.as_text().splitlines()[-_LINES:])
