# SPDX-License-Identifier: Apache-2.0
"""Run the tests that must notice mutations, without and with each mutation."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from cloud import commands
from testing.mutation import forks
from testing.mutation import table

_TOP = pathlib.Path(__file__).parents[2]
_RAN = re.compile(r'^Ran [1-9]', re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Result:
    """Whether a test noticed a mutation.

    :param output: end of the test's output if it did not
    """

    mutation: table.Mutation
    noticed: bool
    output: str = ''


class Runner:
    """Runs tests of a checkout.

    :param checkout: the project's directory
    :param variables: further environment variables of the tests on a Ceph
    :param tell: shows a line
    """

    def __init__(self, checkout: pathlib.Path, variables: Mapping[str, str],
                 tell: Callable[[str], None]) -> None:
        self._checkout = checkout
        self._variables = variables
        self._tell = tell
        self._results: list[Result] = []

    def run(self, mutations: Iterable[table.Mutation]) -> list[Result]:
        """Run each mutation's test without the mutation, and with it.

        :raises CloudError: a test fails without a mutation, so that it proves nothing
        """
        chosen = list(mutations)
        # Tests of two packages cannot share a process: each has another kind of threads.
        packages: dict[str, list[table.Mutation]] = {}
        for mutation in chosen:
            if not mutation.needs_ceph:
                packages.setdefault(mutation.test.partition('.')[0], []).append(mutation)
        for package, its in packages.items():
            self._forked(package, its)
        with tempfile.TemporaryDirectory(prefix='specreds-mutation-') as copy:
            self._on_ceph(pathlib.Path(copy), [each for each in chosen if each.needs_ceph])
        return self._results

    def _forked(self, package: str, mutations: Sequence[table.Mutation]) -> None:
        """Run the unit tests of a package in children of one process."""
        named = {mutation.name: mutation for mutation in mutations}
        with subprocess.Popen(
                [sys.executable, '-W', 'ignore', '-m', 'testing.mutation.forks'],
                cwd=self._checkout, env=self._environment(self._checkout, _TOP),
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin and process.stdout
            with process.stdin:
                json.dump([dataclasses.asdict(each) for each in mutations], process.stdin)
            for name, passed, output in map(json.loads, process.stdout):
                if name:
                    self._end(named.pop(name), passed, output)
                else:
                    self._proves(package, passed, output)
        if process.returncode or named:
            raise commands.CloudError(f'{package}: no result of {", ".join(named)}')

    def _on_ceph(self, copy: pathlib.Path, mutations: Sequence[table.Mutation]) -> None:
        """Run tests that start programs of the project, in a copy of the files that git tracks."""
        if not mutations:
            return
        for name in commands.run(['git', '-C', str(self._checkout), 'ls-files', '-z']).split('\0'):
            if name and (self._checkout / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._checkout / name, copy / name)
        for test in sorted({mutation.test for mutation in mutations}):
            self._proves(test, *self._test(copy, test))
        for mutation in mutations:
            with _mutated(copy / mutation.path, mutation):
                self._end(mutation, *self._test(copy, mutation.test))
        # On a Ceph that has broken meanwhile, each test fails.
        self._proves(mutations[-1].test, *self._test(copy, mutations[-1].test))

    def _proves(self, tests: str, passed: bool, output: str) -> None:
        """Check that tests pass without a mutation."""
        if not passed:
            raise commands.CloudError(f'{tests} fails without a mutation:\n{output}')
        self._tell(f'{tests}: passes without a mutation')

    def _end(self, mutation: table.Mutation, passed: bool, output: str) -> None:
        self._results.append(Result(mutation, not passed, output if passed else ''))
        self._tell(f'{mutation.name}: {"NOT noticed" if passed else "noticed"} by '
                   f'{mutation.test}')

    def _environment(self, *places: pathlib.Path) -> dict[str, str]:
        return {**os.environ, 'PYTHONPATH': os.pathsep.join(map(str, places))}

    def _test(self, copy: pathlib.Path, test: str) -> tuple[bool, str]:
        """Run a test in a process of its own; return whether it passed, and the output."""
        try:
            # A module that is changed twice in a second must not be read from its byte code.
            done = subprocess.run(
                [sys.executable, '-m', 'unittest', test.rpartition('.')[0],
                 *(word for pattern in forks.patterns(test) for word in ('-k', pattern))],
                cwd=copy, env={**self._environment(copy), **self._variables,
                               'PYTHONDONTWRITEBYTECODE': '1'},
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors='replace', timeout=forks.TIMEOUT)
        except subprocess.TimeoutExpired:
            return False, f'no end within {forks.TIMEOUT} s'
        output = done.stdout[-forks.OUTPUT:]
        # A test that is skipped, cannot be loaded, is not found or is killed proves nothing.
        if (done.returncode not in (0, 1) or 'skipped=' in done.stdout
                or 'unittest.loader._FailedTest' in done.stdout
                or not _RAN.search(done.stdout)):
            raise commands.CloudError(f'{test} says nothing, exit status {done.returncode}:\n'
                                      f'{output}')
        return done.returncode == 0, output


@contextlib.contextmanager
def _mutated(path: pathlib.Path, mutation: table.Mutation) -> Iterator[None]:
    original = path.read_text()
    path.write_text(mutation.apply(original))
    try:
        yield
    finally:
        path.write_text(original)
