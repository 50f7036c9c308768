# SPDX-License-Identifier: Apache-2.0
"""The command lines of ``./run check`` and ``./run test``."""

import argparse
import os
import pathlib
import shutil
import signal
import sys
import time

from cloud import commands as cloud_commands
from cloud import directory
from testing.suites import declared
from testing.suites import search

_TOP = pathlib.Path(__file__).parents[2]

_CHECK = """\
Run all checks that need no Ceph: linters, types, unit tests, stories and generated simulations of
the engine, documents, and the mutations that unit tests notice.
"""
_TEST = """\
Without arguments: what ./run check runs, and beside it the tests on a Ceph, on a cloud of volumes,
and on a cloud with compute hosts, one of which dies. About half an hour on two processors.

"all" adds everything else, which takes hours: crashes at every step, long stories, Nova's own
tests of its driver, older releases of OpenStack, Debian 13, Tempest's own tests, models and all
mutations.

Other arguments choose tests: the name of a suite, a file or directory of tests, or a regular
expression that matches the names of tests.

  ./run test test_journal
  ./run test functional
  ./run test specreds_nova/tests/engine/test_deaths.py
  ./run test stories

The logs are in .data/test-logs. A test that fails is not repeated. A suite also fails if a test is
skipped that its suite.toml does not expect to be, or if fewer tests pass than that file says.

The suites:

"""


def main(argv: list[str]) -> int:
    """Return the exit status: 1 if something failed, 2 for wrong arguments."""
    suites = declared.load(_TOP)
    args = _parser(suites).parse_args(argv)
    if 'all' in (tests := getattr(args, 'tests', [])) and len(tests) > 1:
        _parser(suites).error('"all" stands alone')
    if unknown := [word for word in tests if tests != ['all']
                         and not search.find(_TOP, suites, [word])]:
        print(f'error: no test matches: {" ".join(unknown)}', file=sys.stderr)
        return 1
    tier = declared.CHECK if args.command == 'check' else \
        declared.ALL if tests == ['all'] else declared.TEST
    data = pathlib.Path(os.environ.get('SPECREDS_DATA') or _TOP / '.data').absolute()
    data.mkdir(parents=True, exist_ok=True)
    with directory.alone(data, data / 'test-lock', ' '.join(argv),
                         'set SPECREDS_DATA and SPECREDS_TEST_PORT'):
        return _run(suites, tier, tests, data)


def _run(suites: list[declared.Suite], tier: str, tests: list[str], data: pathlib.Path) -> int:
    """Run tests, print what came of them, and return the exit status."""
    # Help is printed where none of the packages is installed that these import.
    from testing.suites import report
    from testing.suites import tiers

    logs = data / 'test-logs'
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir()
    began = time.monotonic()

    def say(line: str) -> None:
        print(f'[{time.monotonic() - began:4.0f} s] {line}', file=sys.stderr, flush=True)

    run = tiers.Tier(_TOP, data, tier, say)

    def stop(number: int, _frame: object) -> None:
        run.stop(signal.Signals(number).name)
        # Who interrupts the tests twice does not want to wait. timeout(1) sends its signal twice.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    # What timeout(1) or a user ends gets the signal in all processes: what has ended is reported.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    if tests and tier != declared.ALL:
        ended = run.chosen(search.find(_TOP, suites, tests))
        if not any(each.tests or each.wrong for each in ended):
            print(f'error: no test matches: {" ".join(tests)}', file=sys.stderr)
            return 1
    else:
        ended = run.all(suites)
    # Last, so that it is not lost where only the end of the output is kept.
    failures = report.failures(ended)
    for line in [*report.table(ended), f'{time.monotonic() - began:.0f} s in all', *failures,
                 report.totals(ended)]:
        print(line)
    # Later than the lines, which a full disk does not stop.
    (logs / 'failed').write_text(''.join(f'{line}\n' for line in failures))
    report.keep(data, ended)
    return 1 if failures else 0


def _parser(suites: list[declared.Suite]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog='./run')
    modes = parser.add_subparsers(dest='command', required=True)
    modes.add_parser('check', description=_CHECK,
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ''.join(f'  {suite.name:22}{suite.tier:7}{suite.path}\n' for suite in suites)
    test = modes.add_parser('test', description=_TEST + names,
                            formatter_class=argparse.RawDescriptionHelpFormatter)
    test.add_argument('tests', nargs='*', metavar='TEST',
                      help='"all", a suite, a path or a regular expression')
    return parser


if __name__ == '__main__':
    sys.exit(cloud_commands.status(lambda: main(sys.argv[1:]),
                                   (cloud_commands.CloudError, declared.Invalid, search.Invalid)))
