# SPDX-License-Identifier: Apache-2.0
"""Run the tests of a suite with stestr, and read what came of them."""

from collections.abc import Callable, Mapping
import os
import pathlib
import subprocess
import sys
import time
from typing import IO

from testing.suites import outcome
from testing.suites import search

_PASSED_LINE = ' ... ok'
# What comes before a command, whether it is to leave the processors to others or not.
NICE = {False: (), True: ('nice', '-n', '19')}


class Runner:
    """Runs suites, each with a log and a repository of stestr of its own.

    The repositories are kept: stestr distributes the next run's tests by the times of this one.

    :param top: directory of the checkout
    :param data: directory for logs and repositories
    :param tier: the tier that runs
    :param options: further options of ``stestr run``
    :param show: called with each line of the output of a suite
    """

    def __init__(self, top: pathlib.Path, data: pathlib.Path, tier: str,
                 options: tuple[str, ...] = (),
                 show: Callable[[str], None] = lambda line: None) -> None:
        self._top = top
        self._logs = data / 'test-logs'
        self._repositories = data / 'stestr'
        self._data = data
        self._tier = tier
        self._options = options
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
        stestr = [*NICE[nice], sys.executable, '-W', 'ignore', '-m', 'stestr']
        if suite.release:
            stestr = [*NICE[nice], str(self._top / 'tools/stestr-on-release'), suite.release,
                      str(self._data / 'releases' / suite.release)]
        (self._repositories / suite.name).mkdir(parents=True, exist_ok=True)
        repository = ['--repo-url', str(self._repositories / suite.name)]
        began = time.monotonic()
        with self.log(suite.name).open('w') as log:
            if choice.modules and not self._options:
                status = self._run_modules(choice, [*stestr, *repository], log, quiet, variables)
            else:
                excluded = suite.excluded(self._tier)
                status = self._follow(
                    [*stestr, *repository, '--test-path', suite.path, 'run',
                     '--concurrency', str(processes),
                     *(['--exclude-regex', excluded] if excluded and not choice.regex else []),
                     *self._options, *filter(None, [choice.regex])], log, quiet, variables)
        return outcome.Outcome(
            suite.name, self._results([*stestr, *repository]), time.monotonic() - began, status,
            0 if choice.regex else suite.least(self._tier), suite.skips)

    def _run_modules(self, choice: search.Choice, stestr: list[str], log: IO[str], quiet: bool,
                     variables: Mapping[str, str] | None) -> int:
        """Run the chosen tests of some modules, without a search for all tests of the suite."""
        tests = subprocess.Popen(
            [sys.executable, '-W', 'ignore', '-m', 'testing.suites.chosen', choice.regex,
             *choice.modules], cwd=self._top, env=os.environ | dict(variables or {}),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        try:
            status = self._follow([*stestr, 'load', '--force-init'], log, quiet, variables,
                                  tests.stdout)
        finally:
            if tests.stdout:
                tests.stdout.close()
            tests_status = tests.wait()
        return status or tests_status

    def _follow(self, argv: list[str], log: IO[str], quiet: bool,
                variables: Mapping[str, str] | None, stdin: IO[bytes] | None = None) -> int:
        """Run a program, keep and show its output, and return its exit status."""
        with subprocess.Popen(
                argv, cwd=self._top, env=os.environ | dict(variables or {}),
                stdin=stdin or subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                errors='replace') as program:
            for line in program.stdout or ():
                log.write(line)
                log.flush()
                # Where nobody watches, tests that pass are only counted.
                if not quiet and (sys.stdout.isatty()
                                  or not line.rstrip().endswith(_PASSED_LINE)):
                    self._show(line.rstrip('\n'))
        return program.returncode

    def _results(self, stestr: list[str]) -> list[outcome.Test]:
        """Return the results of the last run in a repository; empty if there was none."""
        done = subprocess.run([*stestr, 'last', '--subunit'], cwd=self._top,
                              stdin=subprocess.DEVNULL, capture_output=True)
        return outcome.read(done.stdout)


def processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0))
