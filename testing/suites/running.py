# SPDX-License-Identifier: Apache-2.0
"""Run the tests of a suite, and read what came of them."""

from collections.abc import Callable, Mapping
import os
import pathlib
import subprocess
import sys
import time

from testing.suites import outcome
from testing.suites import search

# What comes before a command, whether it is to leave the processors to others or not.
NICE = {False: (), True: ('nice', '-n', '19')}
# With these variables, tests would run without their assertions, by another Python, or write to
# the repository whose hook runs them.
_IGNORED = ('PYTHONOPTIMIZE', 'PYTHON', 'GIT_DIR', 'GIT_INDEX_FILE', 'GIT_WORK_TREE')


class Runner:
    """Runs suites, each with a log and a repository of stestr of its own.

    The repositories are kept: stestr distributes the next run's tests by the times of this one.

    :param top: directory of the checkout
    :param data: directory for logs and repositories
    :param tier: the tier that runs
    :param show: called with each line of the output of a suite
    """

    def __init__(self, top: pathlib.Path, data: pathlib.Path, tier: str,
                 show: Callable[[str], None] = lambda line: None) -> None:
        self._top = top
        self._logs = data / 'test-logs'
        self._repositories = data / 'stestr'
        self._data = data
        self._tier = tier
        self._show = show

    def log(self, name: str) -> pathlib.Path:
        """Return the file with the output of a suite."""
        return self._logs / f'{name}.log'

    def run(self, choice: search.Choice, processes: int, *, quiet: bool = False,
            nice: bool = False, variables: Mapping[str, str] | None = None) -> outcome.Outcome:
        """Run tests to their end.

        :param processes: number of processes
        :param quiet: show nothing
        :param nice: leave the processors to others
        :param variables: to add to the environment of the tests
        """
        suite = choice.suite
        path = self.log(suite.name)
        began = time.monotonic()
        # Both this process and the program write: neither keeps anything back.
        with path.open('wb', buffering=0) as log, subprocess.Popen(
                [*NICE[nice], *self._program(choice, processes)], cwd=self._top,
                env={name: value for name, value in os.environ.items() if name not in _IGNORED}
                | dict(variables or {}),
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log) as program:
            assert program.stdout
            tests = outcome.read(program.stdout, log,
                                 lambda test: None if quiet else self._report(test))
        seconds = time.monotonic() - began
        if not any(test.status == outcome.FAILED for test in tests):
            tests += outcome.of_program(program.returncode, path, seconds)
        return outcome.Outcome(suite.name, tests, seconds,
                               0 if choice.regex else suite.least(self._tier), suite.skips)

    def _program(self, choice: search.Choice, processes: int) -> list[str]:
        """Return the command that runs tests and writes subunit's format."""
        suite = choice.suite
        python = [sys.executable, '-W', 'ignore', '-m']
        if choice.modules:
            # Without a search for all tests of the suite.
            return [*python, 'testing.suites.chosen', choice.regex, *choice.modules]
        stestr = [*python, 'stestr']
        if suite.release:
            stestr = [str(self._top / 'tools/stestr-on-release'), suite.release,
                      str(self._data / 'releases' / suite.release)]
        repository = self._repositories / suite.name
        repository.mkdir(parents=True, exist_ok=True)
        excluded = suite.excluded(self._tier)
        return [*stestr, '--repo-url', str(repository), '--test-path', suite.path, 'run',
                '--subunit', '--concurrency', str(processes),
                *(['--exclude-regex', excluded] if excluded else [])]

    def _report(self, test: outcome.Test) -> None:
        # Where nobody watches, tests that pass are only counted.
        if sys.stdout.isatty() or test.status != outcome.PASSED:
            self._show('\n'.join([outcome.line(test), *(
                f'    {words}' for words in test.words.splitlines())]))


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))
