# SPDX-License-Identifier: Apache-2.0
"""What a run prints at its end, and what it keeps for the next one."""

from collections.abc import Iterable, Mapping, Sequence
import json
import pathlib

from testing.suites import outcome

_TIMES = 'test-times.json'
_SLOWEST = 5


def durations(data: pathlib.Path) -> Mapping[str, float]:
    """Return the seconds that suites and checks took at their last run."""
    try:
        return {name: sum(tests.values()) for name, tests in _kept(data).items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}


def keep(data: pathlib.Path, ended: Iterable[outcome.Outcome]) -> None:
    """Keep the seconds of each test, by suite."""
    try:
        times = dict(_kept(data))
    except (OSError, ValueError):
        times = {}
    for each in ended:
        times[each.name] = {**times.get(each.name, {}),
                            **{test.name: test.seconds for test in each.tests}} if each.tests \
            else {each.name: each.seconds}
    (data / _TIMES).write_text(json.dumps(times, indent=0))


def _kept(data: pathlib.Path) -> Mapping[str, Mapping[str, float]]:
    kept: Mapping[str, Mapping[str, float]] = json.loads((data / _TIMES).read_text())
    return kept


def failures(ended: Iterable[outcome.Outcome]) -> list[str]:
    """Return lines about all that is wrong, the words of failed tests included."""
    lines = []
    for each in ended:
        for test in each.tests:
            if test.status == outcome.FAILED:
                lines += [f'--- {each.name}: {test.name}',
                          *(f'    {line}' for line in test.words.splitlines())]
    for each in ended:
        lines += [f'FAILED {line}' for line in each.wrong]
    return lines


def table(ended: Sequence[outcome.Outcome]) -> list[str]:
    """Return a line for each suite and check, with its slowest tests if they take long."""
    lines = [f'{"":24}{"seconds":>8}{"passed":>8}{"failed":>8}{"skipped":>8}']
    for each in ended:
        counts = ''.join(f'{each.count(status):8}' for status in (
            outcome.PASSED, outcome.FAILED, outcome.SKIPPED))
        lines.append(f'{each.name:24}{each.seconds:8.0f}{counts}')
    slowest = sorted((test for each in ended for test in each.tests),
                     key=lambda test: -test.seconds)[:_SLOWEST]
    return [*lines, *(f'slow: {test.seconds:.0f} s {test.name}' for test in slowest)]


def totals(ended: Iterable[outcome.Outcome]) -> str:
    """Return the line with the sums: what is wrong beside failed tests counts as a failure."""
    counts = [(each.count(outcome.PASSED), max(each.count(outcome.FAILED), len(each.wrong)),
               each.count(outcome.SKIPPED)) for each in ended]
    passed, failed, skipped = (sum(column) for column in zip(*counts, strict=True)) if counts \
        else (0, 0, 0)
    return f'{passed} passed, {failed} failed, {skipped} skipped'
