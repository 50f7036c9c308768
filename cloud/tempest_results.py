# SPDX-License-Identifier: Apache-2.0
"""What Tempest says of its tests, and how two runs of them differ."""

from collections.abc import Callable, Iterable, Mapping, Sequence
import dataclasses
import pathlib
from typing import IO

from cloud import subunit_results

PASSED = subunit_results.PASSED
FAILED = subunit_results.FAILED
SKIPPED = subunit_results.SKIPPED
Result = subunit_results.Result


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
    with copy.open('wb') as file:
        return subunit_results.read(stream, copy=file, report=report)


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
