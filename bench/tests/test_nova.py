# SPDX-License-Identifier: Apache-2.0
"""A failed benchmark of compute hosts leaves no client behind."""

import pathlib
import subprocess
import sys
from typing import Any
from unittest import mock

import fixtures
import testtools

from bench import nova
from cloud import shares

_SLEEP = [sys.executable, '-c', 'import time; time.sleep(600)']


class UsersTest(testtools.TestCase):
    """The clients of a server, which are processes of their own."""

    def setUp(self) -> None:
        super().setUp()
        self.patch(shares, 'prefer', mock.Mock())
        self.processes: list[subprocess.Popen[bytes]] = []
        self.drill = mock.Mock()
        self.drill.cloud.tenant.popen = self._popen
        self.bench = nova._Bench(self.drill, pathlib.Path(
            self.useFixture(fixtures.TempDir()).path))

    def _popen(self, _argv: list[str], **options: Any) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(_SLEEP, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.processes.append(process)
        return process

    def _fail(self) -> None:
        with self.bench.server('g1') as server:
            self.bench.pinger().start('192.0.2.1')
            self.bench.pinger()
            self.assertIsNone(self.processes[0].poll())
            raise ZeroDivisionError(server)

    def test_clients_end_with_the_server(self) -> None:
        self.assertRaises(ZeroDivisionError, self._fail)
        self.assertEqual(1, len(self.processes))
        self.assertIsNotNone(self.processes[0].poll())
        self.drill.delete.assert_called_once()
