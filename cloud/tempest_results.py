# SPDX-License-Identifier: Apache-2.0
"""What Tempest says of its tests, and how two runs of them differ."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import pathlib
from typing import IO, Any

import subunit
import testtools
from testtools import content

PASSED = 'passed'
FAILED = 'failed'
SKIPPED = 'skipped'

# What is none of these, such as a test that never ended, has failed.
_STATUSES = {'success': PASSED, 'xfail': PASSED, 'skip': SKIPPED}


@dataclasses.dataclass(frozen=True)
class Result:
    """What came of one test, or of what a class of tests needs to begin.

    :param words: why it was skipped, or the traceback of its failure
    """

    name: str
    status: str
    words: str = ''

    @property
    def reason(self) -> str:
        """The line of the words that says most."""
        return self.words.rpartition('\n')[2]


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of the tests.

    :param title: under what circumstances
    :param seconds: how long it took
    """

    title: str
    results: Sequence[Result]
    seconds: float

    def count(self, status: str) -> int:
        """How many tests have a status."""
        return sum(result.status == status for result in self.results)

    @property
    def statuses(self) -> Mapping[str, str]:
        """Each test's status."""
        return {result.name: result.status for result in self.results}


def read(stream: IO[bytes], copy: pathlib.Path, report: Callable[[Result], None]) -> list[Result]:
    """Follow a run to its end.

    :param stream: its output in subunit's format
    :param copy: the file in which to keep that
    :param report: called with each result as soon as it is there
    """
    results = []

    def tell(test: Mapping[str, Any]) -> None:
        # Lines that are no test's have no name; every test is listed before it runs.
        if test['id'] is None or test['status'] == 'exists':
            return
        result = _result(test)
        results.append(result)
        report(result)

    with copy.open('wb') as file:
        both = testtools.CopyStreamResult([testtools.StreamToDict(tell),
                                           subunit.StreamResultToBytes(file)])
        both.startTestRun()
        try:
            subunit.ByteStreamToStreamResult(stream, non_subunit_name='output').run(both)
        finally:
            both.stopTestRun()
    return results


def _result(test: Mapping[str, Any]) -> Result:
    status = _STATUSES.get(test['status'], FAILED)
    wanted = {SKIPPED: 'reason', FAILED: 'traceback'}.get(status, '')
    words = [_text(detail) for name, detail in test['details'].items() if name.startswith(wanted)]
    return Result(test['id'], status, '\n'.join(words).strip() if wanted else '')


def _text(detail: content.Content) -> str:
    return detail.as_text() if detail.content_type.type == 'text' else ''


def differences(run: Run, other: Run) -> list[str]:
    """Return a line for each test whose status differs between two runs."""
    absent = 'not run'
    lines = []
    for name in dict.fromkeys([*run.statuses, *other.statuses]):
        first, second = (each.statuses.get(name, absent) for each in (run, other))
        if first != second:
            lines.append(f'{name}: {first} {run.title}, {second} {other.title}')
    return lines


def table(runs: Iterable[Run]) -> list[str]:
    """A line for each run under a line of headings."""
    lines = [f'{"":24}{PASSED:>8}{FAILED:>8}{SKIPPED:>8}{"seconds":>9}']
    for run in runs:
        counts = ''.join(f'{run.count(status):8}' for status in (PASSED, FAILED, SKIPPED))
        lines.append(f'{run.title:24}{counts}{run.seconds:9.0f}')
    return lines


def report(runs: Sequence[Run]) -> str:
    """Everything about the runs as a text."""
    lines = table(runs)
    for run in runs:
        lines += ['', f'{run.title}:']
        for result in run.results:
            lines.append(f'  {result.status:8} {result.name}')
            lines += [f'           {line}' for line in result.words.splitlines()]
    return '\n'.join(lines) + '\n'
