# SPDX-License-Identifier: Apache-2.0
"""How a command ends: its exit status, the error that it prints, and its time limit."""

from collections.abc import Callable
import subprocess
from unittest import mock

import fixtures
import testtools

from cloud import commands


class StatusTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.printed = self.useFixture(fixtures.StringStream('stderr')).stream
        self.useFixture(fixtures.MonkeyPatch('sys.stderr', self.printed))

    def end(self, error: BaseException) -> Callable[[], int]:
        """Return work that ends with an error."""
        def work() -> int:
            raise error
        return work

    def assert_printed(self, text: str) -> None:
        self.printed.seek(0)
        self.assertEqual(text, self.printed.read())

    def test_status_is_that_of_the_work(self) -> None:
        self.assertEqual(3, commands.status(lambda: 3))
        self.assert_printed('')

    def test_failure_is_printed(self) -> None:
        self.assertEqual(1, commands.status(self.end(ValueError('no')), (ValueError, OSError)))
        self.assert_printed('error: no\n')

    def test_unexpected_error_is_raised(self) -> None:
        self.assertRaises(ValueError, commands.status, self.end(ValueError('no')))

    def test_interruption_says_how_to_continue(self) -> None:
        work = self.end(KeyboardInterrupt())
        self.assertEqual(1, commands.main(lambda progress: work(), 'continue so'))
        self.assert_printed('error: interrupted; continue so\n')


class RunTest(testtools.TestCase):

    def test_busy_machine_extends_the_limit(self) -> None:
        self.useFixture(fixtures.MonkeyPatch('cloud.deadline.extended', lambda limit: 4 * limit))
        late = subprocess.TimeoutExpired('slow', 120)
        with mock.patch.object(subprocess, 'run', side_effect=late) as run:
            error = self.assertRaises(commands.CloudError, commands.run, ['slow', '-x'], 30)
        self.assertEqual(120, run.call_args.kwargs['timeout'])
        self.assertEqual('no answer within 120 s: slow -x', str(error))
