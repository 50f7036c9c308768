# SPDX-License-Identifier: Apache-2.0
"""``.ci/run``: its commands, the conditions for leaving a platform out, and its exit status."""

import os
import pathlib
import shutil
import subprocess

import ddt
import fixtures
import testtools

from cloud.matrix import root as roots

# A stand-in for ./run and for `id -u`: notes its arguments, and ends as the test says.
_PROGRAM = """\
#!/bin/sh
echo "$(basename "$0") $*" >>"$NOTES"
case "$*" in
-u) echo "$USER_ID" ;;
*) if echo "$*" | grep -q "^${FAILS:-nothing}"; then echo broken; exit 1; fi ;;
esac
"""
_PLATFORM = 'matrix shell debian-13 ./run test functional'
# A stand-in for timeout: ends tests on the platform at once, as if their time were over.
_TIMEOUT = """\
#!/bin/sh
case "$*" in *'matrix shell'*) echo "limit $3" >>"$NOTES"; exit 124 ;; esac
shift 3
exec "$@"
"""
# Another: ends nothing, and lasts three seconds.
_CLOCK = """\
#!/bin/sh
shift 3
sleep 3
exec "$@"
"""
# A stand-in for ./run whose tests hang until they are ended.
_HANGING = """\
#!/bin/bash
[ "$1" = test ] || exit 0
trap 'echo "FAILED what was running" >.data/test-logs/failed; exit 1' TERM
sleep 600 &
wait
"""


@ddt.ddt
class ContinuousIntegrationTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.notes = self.directory / 'notes'
        (self.directory / '.ci').mkdir()
        shutil.copy(roots.PROJECT / '.ci/run', self.directory / '.ci/run')
        for name in ('run', 'bin/id'):
            path = self.directory / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(_PROGRAM)
            path.chmod(0o755)

    def run_script(self, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ['bash', str(self.directory / '.ci/run')], capture_output=True, text=True,
            env={'PATH': f'{self.directory}/bin:{os.environ["PATH"]}', 'NOTES': str(self.notes),
                 'USER_ID': '0', **variables})

    def calls(self) -> list[str]:
        return [line.removeprefix('run ') for line in self.notes.read_text().splitlines()
                if line.startswith('run ')]

    def test_tests_run_here_and_then_on_the_platform(self) -> None:
        done = self.run_script(CI='true')
        self.assertEqual((0, ''), (done.returncode, done.stderr))
        self.assertEqual(['setup', 'test', 'matrix up --setup debian-13', _PLATFORM],
                         self.calls())

    @ddt.data('setup', 'test', 'matrix up', 'matrix shell')
    def test_failure_of_any_command_fails_the_run(self, command: str) -> None:
        self.assertEqual(1, self.run_script(CI='true', FAILS=command).returncode)

    def test_tests_that_failed_here_are_named_last(self) -> None:
        failed = self.directory / '.data/test-logs/failed'
        failed.parent.mkdir(parents=True)
        failed.write_text('--- a.test\n' + 1000 * '    noted\n'
                          + '    the cause\nFAILED a.test\n')
        self.assertNotIn('FAILED a.test', self.run_script().stdout)
        done = self.run_script(FAILS='test')
        _, last = done.stdout.rsplit('\nfailed before the tests on debian-13:\n', 1)
        self.assertTrue(last.endswith('    the cause\nFAILED a.test\n'), last)
        self.assertEqual(1500, len(last))

    def test_platform_is_tested_after_a_failure_here(self) -> None:
        self.run_script(FAILS='test')
        self.assertIn(_PLATFORM, self.calls())

    def test_root_that_cannot_be_made_fails_with_its_error(self) -> None:
        done = self.run_script(FAILS='matrix up')
        self.assertIn('broken\nFAILED functional tests on debian-13: its root could not be made',
                      done.stdout)
        self.assertNotIn(_PLATFORM, self.calls())

    def test_platform_is_left_out_without_root(self) -> None:
        done = self.run_script(USER_ID='1000')
        self.assertIn('LEFT OUT functional tests on debian-13: only root', done.stdout)
        self.assertEqual(0, done.returncode)
        done = self.run_script(USER_ID='1000', CI='true')
        self.assertIn('FAILED functional tests on debian-13: only root', done.stdout)
        self.assertEqual(1, done.returncode)

    def test_platform_without_enough_time_is_a_failure(self) -> None:
        # What makes the tests here last long enough.
        (self.directory / 'bin/timeout').write_text(_CLOCK)
        (self.directory / 'bin/timeout').chmod(0o755)
        done = self.run_script(CI='true', SECONDS='4199')
        self.assertIn('FAILED functional tests on debian-13: 420', done.stdout)
        self.assertEqual(1, done.returncode)
        self.assertNotIn(_PLATFORM, self.calls())

    def test_tests_here_are_ended_in_time(self) -> None:
        (self.directory / 'run').write_text(_HANGING)
        (self.directory / '.data/test-logs').mkdir(parents=True)
        done = self.run_script(CI='true', SECONDS='4198')
        self.assertIn('FAILED ./run test: not ended after 4200 s\n', done.stdout)
        self.assertIn('FAILED functional tests on debian-13: 420', done.stdout)
        self.assertTrue(done.stdout.endswith('\nFAILED what was running\n'), done.stdout)
        self.assertEqual(1, done.returncode)

    def test_tests_on_the_platform_are_ended_in_time(self) -> None:
        (self.directory / 'bin/timeout').write_text(_TIMEOUT)
        (self.directory / 'bin/timeout').chmod(0o755)
        done = self.run_script(CI='true', SECONDS='1000')
        self.assertIn('FAILED functional tests on debian-13: not ended after 5160 s in all\n',
                      done.stdout)
        self.assertEqual(1, done.returncode)
        _, limit = self.notes.read_text().rsplit('limit ', 1)
        self.assertTrue(0 < int(limit) <= 4160, limit)
