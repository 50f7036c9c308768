# SPDX-License-Identifier: Apache-2.0
"""QEMU's processes, which must not be mistaken for others."""

import dataclasses
import pathlib
import subprocess
import sys

import fixtures
import testtools

from specreds_nova.sentinel import processes

_UUID = '6e1e5bd0-0000-4000-8000-000000000001'


class FindTestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.proc = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self._process(1, 'init')
        (self.proc / 'meminfo').touch()

    def _process(self, pid: int, *words: str) -> None:
        path = self.proc / str(pid)
        path.mkdir()
        (path / 'cmdline').write_bytes(b''.join(word.encode() + b'\0' for word in words))
        fields = ['S', *('0' for _ in range(18)), str(1000 + pid), *('0' for _ in range(30))]
        (path / 'stat').write_text(f'{pid} (a (b) c) {" ".join(fields)}\n')

    def test_found(self) -> None:
        self._process(7, 'qemu', '-uuid', _UUID, '-blockdev', '{"image":"x"}')
        self._process(8, 'qemu', '-uuid', _UUID.replace('1', '2'), '-blockdev', '{}')
        found = processes.qemu(_UUID, self.proc)
        self.assertEqual('7.1007', found and found.key)
        self.assertIn('"image":"x"', found.command if found else '')

    def test_none(self) -> None:
        self._process(7, 'grep', _UUID)
        self.assertIsNone(processes.qemu(_UUID, self.proc))

    def test_two_is_not_one(self) -> None:
        for pid in (7, 8):
            self._process(pid, 'qemu', '-uuid', _UUID, '-blockdev', '{}')
        self.assertIsNone(processes.qemu(_UUID, self.proc))


class EndTestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.child = subprocess.Popen(
            [sys.executable, '-c', 'import sys; sys.stdin.read()', '-uuid', _UUID, '-blockdev'],
            stdin=subprocess.PIPE)
        self.addCleanup(self.child.communicate)
        self.addCleanup(self.child.kill)
        found = None
        while found is None:
            # Until it has become what it was started as.
            found = processes.qemu(_UUID)
        self.process = found

    def test_kill(self) -> None:
        self.assertEqual(self.child.pid, self.process.pid)
        self.assertFalse(self.process.ended(0))
        self.process.kill()
        self.assertTrue(self.process.ended(30))

    def test_another_process_of_that_number(self) -> None:
        other = dataclasses.replace(self.process, started=self.process.started - 1)
        other.kill()
        self.assertTrue(other.ended(0))
        self.assertFalse(self.process.ended(0))
