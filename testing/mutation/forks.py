# SPDX-License-Identifier: Apache-2.0
"""A process that runs the tests of mutations, each in a child that loads one changed module.

The process itself loads what the tests import and the project does not define. So a child starts
with these libraries in memory, and loads only the project's modules, one of them changed.
"""

from collections.abc import Iterable, Sequence
import contextlib
import fnmatch
import gc
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import signal
import sys
import tempfile
import traceback
import types
from typing import IO, NoReturn
import unittest

import testtools

from testing.mutation import table

TIMEOUT = 900
OUTPUT = 2000
# Exit statuses of a child: a test has failed; something else has.
_FAILED, _BROKEN = 1, 2


class _Changed(importlib.machinery.SourceFileLoader):
    """Loads a module from a changed source."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._source = source

    def get_code(self, fullname: str) -> types.CodeType:
        """Return the code of the changed source. Byte code may be the unchanged file's."""
        return compile(self._source, self.path, 'exec', dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds one module, whose source a mutation changes."""

    def __init__(self, mutation: table.Mutation) -> None:
        self._name = mutation.path.removesuffix('.py').replace('/', '.')
        self._path = os.path.abspath(mutation.path)
        self._source = mutation.apply(pathlib.Path(mutation.path).read_text())
        if self._name in sys.modules:
            raise ValueError(f'{self._name} is loaded before it is changed')

    def find_spec(self, fullname: str, path: Sequence[str] | None,
                  target: types.ModuleType | None = None
                  ) -> importlib.machinery.ModuleSpec | None:
        """Return how to load the module; None for any other module."""
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(
            fullname, self._path, loader=_Changed(fullname, self._path, self._source))


def patterns(test: str) -> list[str]:
    """Return unittest's patterns of a test's name, and of the names that ddt makes of it.

    A pattern without an asterisk would be looked for anywhere in a name.
    """
    class_name, method = test.rsplit('.', 2)[1:]
    return [f'*.{class_name}.{method}', f'*.{class_name}.{method}_[0-9]*']


def _passes(tests: Sequence[str]) -> bool:
    """Run tests, and return whether all passed.

    :raises ValueError: a test cannot be loaded, does not exist or is skipped: that says nothing
    """
    loader = unittest.TestLoader()
    loader.testNamePatterns = [pattern for test in tests for pattern in patterns(test)]
    classes = dict.fromkeys(test.rpartition('.')[0] for test in tests)
    suite = loader.loadTestsFromNames(list(classes))
    if loader.errors:
        raise ValueError('\n'.join(map(str, loader.errors)))
    loaded = [each.id() for each in testtools.iterate_tests(suite)]
    for test in tests:
        if not any(fnmatch.fnmatchcase(name, pattern)
                   for name in loaded for pattern in patterns(test)):
            raise ValueError(f'there is no {test}')
    # The first failure is enough: a test of ddt's may have dozens of cases.
    result = unittest.TextTestRunner(failfast=True).run(suite)
    if result.skipped:
        raise ValueError(f'skipped: {result.skipped}')
    return result.wasSuccessful()


class _Children:
    """Children that run tests, as many at a time as there are processors."""

    def __init__(self) -> None:
        self._running: dict[int, tuple[str, IO[bytes]]] = {}
        self._most = len(os.sched_getaffinity(0))

    def start(self, name: str, tests: Sequence[str],
              *finders: importlib.abc.MetaPathFinder) -> None:
        """Have a child run tests, once a processor is free."""
        while len(self._running) >= self._most:
            self.wait()
        output = tempfile.TemporaryFile()  # noqa: SIM115 -- until the child has ended
        if pid := os.fork():
            self._running[pid] = name, output
        else:
            _be_child(tests, finders, output.fileno())

    def wait(self) -> bool:
        """Wait for the end of a child, tell what came of it, and return whether its tests passed.

        :raises ChildProcessError: the child ended for another reason than its tests
        """
        pid, status = os.wait()
        name, output = self._running.pop(pid)
        with output:
            output.seek(0)
            text = output.read().decode(errors='replace')
        if (code := os.waitstatus_to_exitcode(status)) not in (0, _FAILED, -signal.SIGALRM):
            raise ChildProcessError(f'{name or "child"}: exit status {code}:\n{text}')
        _tell(name, code == 0, text)
        return code == 0

    def end(self) -> None:
        """Wait for the end of all children."""
        while self._running:
            self.wait()


def _tell(name: str, passed: bool, output: str) -> None:
    """Write a line of JSON: a mutation, whether its tests passed, and the end of their output.

    The name is empty for the tests without a mutation.
    """
    print(json.dumps([name, passed, output[-OUTPUT:]]), flush=True)


def _be_child(tests: Sequence[str], finders: Iterable[importlib.abc.MetaPathFinder],
              output: int) -> NoReturn:
    """Run tests, and end this process."""
    status = _BROKEN
    try:
        signal.alarm(TIMEOUT)
        for stream in (1, 2):
            os.dup2(output, stream)
        sys.meta_path[:0] = finders
        status = 0 if _passes(tests) else _FAILED
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Threads that tests have left do not keep the process.
        os._exit(status)


def _load_libraries(modules: Sequence[str]) -> None:
    """Import what test modules import and the project does not define.

    The packages of the tests come first: some choose the kind of threads of a library.
    """
    for package in {module.rpartition('.')[0] for module in modules} - {''}:
        importlib.import_module(package)
    # Only a child loads the tests, and with them the modules that mutations change.
    with tempfile.TemporaryFile('w+') as names:
        if not (pid := os.fork()):
            with contextlib.suppress(ImportError):
                for module in modules:
                    importlib.import_module(module)
            names.write('\n'.join(sys.modules))
            names.flush()
            os._exit(0)
        os.waitpid(pid, 0)
        names.seek(0)
        loaded = names.read().split('\n')
    for name in loaded:
        top = pathlib.Path(name.partition('.')[0])
        if name not in sys.modules and not (top.is_dir() or top.with_suffix('.py').exists()):
            # Some are only names in another module.
            with contextlib.suppress(ImportError):
                importlib.import_module(name)


def main() -> int:
    """Run the tests of the mutations that standard input lists, without them, and with each."""
    mutations = [table.Mutation(**values) for values in json.load(sys.stdin)]
    tests = sorted({mutation.test for mutation in mutations})
    children = _Children()
    try:
        _load_libraries(sorted({test.rsplit('.', 2)[0] for test in tests}))
        # No child searches the libraries' objects for garbage: it would copy their memory.
        gc.freeze()
        children.start('', tests)
        if not children.wait():
            return 1
        for mutation in mutations:
            children.start(mutation.name, [mutation.test], _Finder(mutation))
        children.end()
    except (ImportError, OSError, ValueError) as exc:
        _tell('', False, str(exc))
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
