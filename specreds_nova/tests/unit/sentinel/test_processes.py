# SPDX-License-Identifier: Apache-2.0
"""QEMU's process of a domain, which must not be mistaken for another one."""

import dataclasses
import pathlib
import subprocess
import sys
import uuid

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

    def test_process_is_found_by_uuid(self) -> None:
        self._process(7, 'qemu', '-uuid', _UUID, '-blockdev', '{"image":"x"}')
        self._process(8, 'qemu', '-uuid', _UUID.replace('1', '2'), '-blockdev', '{}')
        process = processes.qemu(_UUID, self.proc)
        self.assertEqual('7.1007', process and process.key)
        self.assertIn('"image":"x"', process.command if process else '')

    def test_program_that_only_names_the_uuid_is_not_found(self) -> None:
        self._process(7, 'grep', _UUID)
        self.assertIsNone(processes.qemu(_UUID, self.proc))

    def test_two_processes_are_ambiguous(self) -> None:
        for pid in (7, 8):
            self._process(pid, 'qemu', '-uuid', _UUID, '-blockdev', '{}')
        self.assertIsNone(processes.qemu(_UUID, self.proc))


class EndTestCase(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        # Its own, because tests may run at the same time.
        server = str(uuid.uuid4())
        self.child = subprocess.Popen(
            [sys.executable, '-c', 'import sys; sys.stdin.read()', '-uuid', server, '-blockdev'],
            stdin=subprocess.PIPE)
        self.addCleanup(self.child.communicate)
        self.addCleanup(self.child.kill)
        process = None
        while process is None:
            # The child has the command line of its parent until it has executed the program.
            process = processes.qemu(server)
        self.process = process

    def test_killed_process_has_ended(self) -> None:
        self.assertEqual(self.child.pid, self.process.pid)
        self.assertFalse(self.process.ended(0))
        self.process.kill()
        self.assertTrue(self.process.ended(30))

    def test_another_process_with_the_pid_is_not_killed(self) -> None:
        other = dataclasses.replace(self.process, started=self.process.started - 1)
        other.kill()
        self.assertTrue(other.ended(0))
        self.assertFalse(self.process.ended(0))
