# SPDX-License-Identifier: Apache-2.0
"""Checks that are no suites of tests: commands that have to end with status 0."""

import dataclasses
import pathlib
import sys

from testing.suites import declared


@dataclasses.dataclass(frozen=True)
class Command:
    """One check.

    :param argv: words; ``{data}`` is replaced by the directory for clusters and logs, ``{cloud}``
        by the first port for clouds of the command's own
    :param tier: the first tier that runs the command
    :param fast: whether the command takes a second: those come first, alone
    :param alone: whether the command brings up clusters: those come last, one at a time
    """

    name: str
    argv: tuple[str, ...]
    tier: str = declared.CHECK
    fast: bool = False
    alone: bool = False

    def words(self, data: pathlib.Path, port: int) -> list[str]:
        """Return the command line."""
        return [word.format(data=data, port=port) for word in self.argv]


PYTHON = (sys.executable, '-W', 'ignore', '-m')
BIN = str(pathlib.Path(sys.executable).parent)

COMMANDS = (
    Command('ruff', (f'{BIN}/ruff', 'check', '.'), fast=True),
    Command('shellcheck', ('tools/check-shell',)),
    Command('check-uuid', ('tools/check-uuid',)),
    Command('mypy', (f'{BIN}/mypy',)),
    # All anew: Sphinx warns only of the pages that it reads, and reads no page twice.
    Command('docs', (f'{BIN}/sphinx-build', '-q', '-E', '-a', '-W', '--keep-going', '-b', 'html',
                     'doc/source', '{data}/docs/html')),
    Command('mutations', (*PYTHON, 'testing.mutation', '--without-ceph')),
    Command('mutations-ceph', (*PYTHON, 'testing.mutation', '--with-ceph'), declared.ALL,
            alone=True),
    Command('models', ('./run', 'model'), declared.ALL, alone=True),
    Command('tempest', (*PYTHON, 'cloud', 'tempest', '--data', '{data}/test-tempest',
                        '--port', '{port}'), declared.ALL, alone=True),
    Command('tempest-compare', (*PYTHON, 'cloud', 'tempest', '--compare', '--data',
                                '{data}/test-compare', '--port', '{port}'), declared.ALL,
            alone=True),
    Command('debian-13', ('./run', 'matrix', 'test', 'debian-13'), declared.ALL, alone=True),
)
