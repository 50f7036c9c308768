# SPDX-License-Identifier: Apache-2.0
"""Progress on stderr."""

import contextlib
import io
from unittest import mock

import testtools

from specreds_cinder.osc import progress


class StatusLineTest(testtools.TestCase):

    def _printed(self, terminal: bool, *times: float) -> str:
        stderr = io.StringIO()
        with contextlib.redirect_stderr(stderr), \
                mock.patch.object(stderr, 'isatty', return_value=terminal), \
                mock.patch('time.monotonic', side_effect=[0.0, *times]), \
                progress.StatusLine() as line:
            for number, _ in enumerate(times):
                line.say(f'step {number}')
        return stderr.getvalue()

    def test_terminal_shows_each_step_and_is_cleared(self) -> None:
        printed = self._printed(True, 0.1, 1.0)
        self.assertIn('step 0, 0 s', printed)
        self.assertTrue(printed.endswith('step 1, 1 s\r\x1b[K'), printed)

    def test_file_gets_a_line_every_10_s(self) -> None:
        self.assertEqual('step 1, 2 s\nstep 3, 12 s\n', self._printed(False, 1.9, 2.0, 11.9, 12.0))
