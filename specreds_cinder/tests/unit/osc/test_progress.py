# SPDX-License-Identifier: Apache-2.0
"""What is said on stderr while something lasts."""

import contextlib
import io
from unittest import mock

import testtools

from specreds_cinder.osc import progress


class StatusLineTest(testtools.TestCase):

    def _said(self, terminal: bool, *times: float) -> str:
        stderr = io.StringIO()
        with contextlib.redirect_stderr(stderr), \
                mock.patch.object(stderr, 'isatty', return_value=terminal), \
                mock.patch('time.monotonic', side_effect=[0.0, *times]), \
                progress.StatusLine() as line:
            for number, _ in enumerate(times):
                line.say(f'step {number}')
        return stderr.getvalue()

    def test_terminal_is_told_at_once_and_left_clean(self) -> None:
        said = self._said(True, 0.1, 1.0)
        self.assertIn('step 0, 0 s', said)
        self.assertTrue(said.endswith('step 1, 1 s\r\x1b[K'), said)

    def test_file_gets_a_line_now_and_then(self) -> None:
        self.assertEqual('step 1, 2 s\nstep 3, 12 s\n', self._said(False, 1.9, 2.0, 11.9, 12.0))
