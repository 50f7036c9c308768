# SPDX-License-Identifier: Apache-2.0
"""Apply mutations to a copy of the checkout, and run the tests that must notice them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
import contextlib
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

from cloud import commands
from testing.mutation import table

_TIMEOUT = 900.0
_OUTPUT = 2000
_RAN = re.compile(r'^Ran (\d+) test', re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Result:
    """Whether a test noticed a mutation.

    :param output: end of the test's output if it did not
    """

    mutation: table.Mutation
    noticed: bool
    output: str = ''


class Runner:
    """Runs tests on a copy of the files that git tracks.

    :param checkout: the project's directory
    :param copy: an empty directory for the copy
    :param variables: further environment variables of the tests
    """

    def __init__(self, checkout: pathlib.Path, copy: pathlib.Path,
                 variables: Mapping[str, str]) -> None:
        self._copy = copy
        self._environment = {**os.environ, **variables, 'PYTHONPATH': str(copy),
                             'PYTHONDONTWRITEBYTECODE': '1'}
        for name in commands.run(['git', '-C', str(checkout), 'ls-files', '-z']).split('\0'):
            if name and (checkout / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(checkout / name, copy / name)

    def run(self, mutations: Iterable[table.Mutation],
            tell: Callable[[str], None]) -> list[Result]:
        """Run each mutation's test without the mutation, and with it.

        :raises CloudError: a test fails without a mutation, so that it proves nothing
        """
        chosen = list(mutations)
        # The tests of a package that need no Ceph share one process, whose start takes longer than
        # most of them. Tests of both packages cannot: each package has another kind of threads.
        groups: dict[str, list[str]] = {}
        for test, needs_ceph in sorted({(each.test, each.needs_ceph) for each in chosen}):
            groups.setdefault(test if needs_ceph else test.partition('.')[0], []).append(test)
        for name, tests in groups.items():
            tell(f'{name}: {len(tests)} without a mutation')
            passed, output = self._test(*tests)
            if not passed:
                raise commands.CloudError(f'{name} fails without a mutation:\n{output}')
        results = []
        for mutation in chosen:
            with self._mutated(mutation):
                passed, output = self._test(mutation.test)
            results.append(Result(mutation, not passed, output if passed else ''))
            tell(f'{mutation.name}: {"NOT noticed" if passed else "noticed"} by {mutation.test}')
        return results

    @contextlib.contextmanager
    def _mutated(self, mutation: table.Mutation) -> Iterator[None]:
        path = self._copy / mutation.path
        original = path.read_text()
        path.write_text(mutation.apply(original))
        try:
            yield
        finally:
            path.write_text(original)

    def _test(self, *tests: str) -> tuple[bool, str]:
        """Run tests in a process of their own; return whether all passed, and the output.

        A test for which ddt has made several methods passes if all of them do.
        """
        names, patterns = dict[str, None](), list[str]()
        for test in tests:
            module, class_name, method = test.rsplit('.', 2)
            names[f'{module}.{class_name}'] = None
            # unittest looks for a pattern without an asterisk anywhere in a name.
            pattern = f'*.{class_name}.{method}'
            patterns += ['-k', pattern, '-k', f'{pattern}_[0-9]*']
        try:
            done = subprocess.run(
                [sys.executable, '-m', 'unittest', *names, *patterns], cwd=self._copy,
                env=self._environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors='replace', timeout=_TIMEOUT)
        except subprocess.TimeoutExpired:
            return False, f'no end within {_TIMEOUT:g} s'
        # A test that is skipped or not found proves nothing.
        ran = _RAN.search(done.stdout)
        passed = (done.returncode == 0 and 'skipped=' not in done.stdout
                  and ran is not None and int(ran[1]) >= len(tests))
        return passed, done.stdout[-_OUTPUT:]
