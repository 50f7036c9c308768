# SPDX-License-Identifier: Apache-2.0
"""The shares of the processors."""

import os
import subprocess
import sys

import testtools

from cloud import shares

# Says which processors a process that it starts may use.
_STARTER = ("import os, subprocess, sys\n"
            "sys.stdin.readline()\n"
            "subprocess.run([sys.executable, '-c',"
            " 'import os; print(sorted(os.sched_getaffinity(0)))'])\n")


class ConfinedTest(testtools.TestCase):
    """Processes in the place of a control plane."""

    def setUp(self) -> None:
        super().setUp()
        self.there = os.sched_getaffinity(0)
        self.process = subprocess.Popen([sys.executable, '-c', _STARTER], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(self.process.communicate)
        self.addCleanup(self.process.kill)

    def test_control_plane_is_limited_to_one_processor_for_a_while(self) -> None:
        with shares.confined(lambda: [self.process.pid]):
            self.assertEqual({max(self.there)}, os.sched_getaffinity(self.process.pid))
            self.assertEqual(self.there, os.sched_getaffinity(0))
        self.assertEqual(self.there, os.sched_getaffinity(self.process.pid))

    def test_child_processes_are_limited(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        with shares.confined(lambda: [self.process.pid]):
            self.process.stdin.write('go on\n')
            self.process.stdin.flush()
            self.assertEqual(f'[{max(self.there)}]\n', self.process.stdout.readline())

    def test_ended_process_is_tolerated(self) -> None:
        with shares.confined(lambda: [self.process.pid]):
            self.process.kill()
            self.process.wait()
        self.assertRaises(ProcessLookupError, os.sched_getaffinity, self.process.pid)
