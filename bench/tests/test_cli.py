# SPDX-License-Identifier: Apache-2.0
"""The command line of the benchmarks."""

import os
import signal
import subprocess
import sys
from unittest import mock

import testtools

from bench import cli
from bench import options


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

        with mock.patch.object(cli, '_run', run):
            self.assertEqual(1, cli.main(options.parser().parse_args(['disk'])))
        self.assertEqual([True], cleaned)


class HelpTest(testtools.TestCase):

    def test_help_imports_no_part_of_openstack_or_ceph(self) -> None:
        shown = subprocess.run(
            [sys.executable, '-X', 'importtime', '-m', 'bench', '--help'],
            capture_output=True, text=True, check=True)
        self.assertIn('falsepositives', shown.stdout)
        imported = {line.rpartition('|')[2].strip() for line in shown.stderr.splitlines()}
        self.assertEqual(set(), imported & {'nova', 'cinder', 'rados', 'matplotlib', 'sqlalchemy',
                                            'keystoneauth1'})
