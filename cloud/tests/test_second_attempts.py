# SPDX-License-Identifier: Apache-2.0
"""``./run test``: tests of emulated guests that fail are run a second time, and named."""

import pathlib
import subprocess
import sys

import fixtures
import testtools

from cloud.matrix import root as roots

# Test N passes from its attempt LEAST[N] on.
_TESTS = """\
import pathlib
import unittest

LEAST = {least}


class Guests(unittest.TestCase):

    def attempt(self, number):
        counter = pathlib.Path({counters!r}, str(number))
        attempts = len(counter.read_text()) + 1 if counter.exists() else 1
        counter.write_text('x' * attempts)
        self.assertGreaterEqual(attempts, LEAST[number])


for number in range(len(LEAST)):
    setattr(Guests, f'test_{{number}}', lambda self, number=number: self.attempt(number))
"""
_SCRIPT = """\
. {run} help >/dev/null
venv={venv} test_logs={directory}/logs
test_paths[{suite}]=guests
failures=() passed=0 failed=0 skipped=0
mkdir "$test_logs"
"$venv/bin/stestr" init
suite {suite} {arguments}
echo "result: $passed $failed $skipped ${{#failures[@]}}"
report_first_attempts
"""


class SecondAttemptTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (self.directory / 'guests').mkdir()
        (self.directory / 'guests/__init__.py').touch()

    def run_suite(self, *least: int, suite: str = 'engine', arguments: str = '--serial') -> str:
        (self.directory / 'guests/test_guests.py').write_text(
            _TESTS.format(least=least, counters=str(self.directory)))
        return subprocess.run(
            ['bash', '-c', _SCRIPT.format(
                run=roots.PROJECT / 'run', directory=self.directory, suite=suite,
                venv=pathlib.Path(sys.executable).parents[1], arguments=arguments)],
            cwd=self.directory, capture_output=True, text=True, check=True).stdout

    def test_test_that_passes_at_the_second_attempt_is_named_and_counted_once(self) -> None:
        output = self.run_suite(1, 2)
        self.assertIn('result: 2 0 0 0\n', output)
        self.assertIn('FAILED AT THE FIRST ATTEMPT', output)

    def test_test_that_fails_twice_fails(self) -> None:
        self.assertIn('result: 2 1 0 1\n', self.run_suite(1, 2, 3))

    def test_many_failures_are_no_accident(self) -> None:
        self.assertIn('result: 1 3 0 1\n', self.run_suite(1, 2, 2, 2))

    def test_other_suites_have_one_attempt(self) -> None:
        self.assertIn('result: 1 1 0 1\n', self.run_suite(1, 2, suite='functional'))

    def test_chosen_tests_have_one_attempt(self) -> None:
        self.assertIn('result: 0 1 0 1\n', self.run_suite(1, 2, arguments='--serial test_1'))

    def test_first_attempts_are_not_reported_if_all_passed(self) -> None:
        output = self.run_suite(1, 1)
        self.assertIn('result: 2 0 0 0\n', output)
        self.assertNotIn('FAILED', output)
