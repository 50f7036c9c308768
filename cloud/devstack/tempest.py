# SPDX-License-Identifier: Apache-2.0
"""Tempest's tests in the container."""

from collections.abc import Iterable
import dataclasses
import pathlib
import re
import shlex
import subprocess

from cloud import commands
from cloud.devstack import container as containers

# Tests by the title of their set: this project's, and OpenStack's own.
# One of the latter logs into guests by SSH whatever `run_validation` says; g1 has no SSH server.
SETS = {
    'this project': r'^tempest_plugin\.',
    'smoke': r'^tempest\.(?!scenario\.test_network_basic_ops\.).*\[.*\bsmoke\b.*\]',
}
_DIRECTORY = '/opt/stack/tempest'
_TEMPEST = '.tox/tempest/bin/tempest'
_TEST = re.compile(r'^\{\d+\} (\S+) \[[\d.]+s\] \.\.\. (\w+)')
_SKIPPED_CLASS = re.compile(r'^\{\d+\} (setUpClass \(\S+\)) \[[\d.]+s\] \.\.\. (SKIPPED)')
_TOTAL = re.compile(r'^ - (Passed|Skipped|Expected Fail|Unexpected Success|Failed): (\d+)$')


@dataclasses.dataclass(frozen=True)
class Totals:
    """Numbers of tests."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __str__(self) -> str:
        return f'{self.passed} passed, {self.failed} failed, {self.skipped} skipped'


def totals(output: Iterable[str]) -> Totals | None:
    """Return the numbers at the end of Tempest's output, None if there are none."""
    numbers = {match[1]: int(match[2]) for line in output if (match := _TOTAL.match(line))}
    if not numbers:
        return None
    return Totals(numbers.get('Passed', 0) + numbers.get('Expected Fail', 0),
                  numbers.get('Failed', 0) + numbers.get('Unexpected Success', 0),
                  numbers.get('Skipped', 0))


def result(line: str) -> str | None:
    """Return what a line of Tempest's output says about a test, None if it says nothing."""
    if match := _TEST.match(line) or _SKIPPED_CLASS.match(line):
        return f'{match[2].lower():7} {match[1]}'
    return None


def run(container: containers.Container, title: str, regex: str, log: pathlib.Path,
        progress: commands.Progress) -> Totals:
    """Run tests, and show each result.

    :param title: of the set
    :param regex: for the names of the tests
    :param log: file for the output
    :raises CloudError: Tempest itself failed
    """
    words = [_TEMPEST, 'run', '--concurrency', '1', '--regex', regex]
    progress(f'{title}: the output is in {log}')
    lines = []
    with log.open('w') as file, subprocess.Popen(
            container.as_stack(f'cd {_DIRECTORY} && exec {shlex.join(words)}'),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors='replace') as process:
        assert process.stdout
        for line in process.stdout:
            file.write(line)
            file.flush()
            lines.append(line.rstrip('\n'))
            if shown := result(line):
                progress(f'{title}: {shown}')
    numbers = totals(lines)
    if not numbers or (process.returncode and not numbers.failed):
        raise commands.CloudError(f'{title}: Tempest ended with {process.returncode}: see {log}')
    progress(f'{title}: {numbers}')
    return numbers
