# SPDX-License-Identifier: Apache-2.0
"""The command line of the benchmarks."""

import os
import signal
from unittest import mock

import testtools

from bench import cli


class MainTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(signal.signal, signal.SIGTERM, signal.getsignal(signal.SIGTERM))

    def test_sigterm_runs_the_clean_up(self) -> None:
        cleaned = []

        def run(_args: object) -> int:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                signal.pause()
            finally:
                cleaned.append(True)
            return 0

        with mock.patch('sys.argv', ['bench', 'disk']), mock.patch.object(cli, '_run', run):
            self.assertEqual(1, cli.main())
        self.assertEqual([True], cleaned)
