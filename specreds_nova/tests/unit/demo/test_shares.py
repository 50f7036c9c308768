# SPDX-License-Identifier: Apache-2.0
"""Who may use which processors."""

import os
import subprocess

import testtools

from cloud import shares


class ConfineTest(testtools.TestCase):
    """A process that stands for a guest."""

    def test_one_processor(self) -> None:
        there = os.sched_getaffinity(0)
        process = subprocess.Popen(['sleep', '60'])
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        shares.confine(process.pid)
        self.assertEqual({max(there)}, os.sched_getaffinity(process.pid))
        self.assertEqual(there, os.sched_getaffinity(0))

    def test_one_that_has_ended(self) -> None:
        process = subprocess.Popen(['true'])
        process.wait()
        shares.confine(process.pid)
        self.assertRaises(ProcessLookupError, os.sched_getaffinity, process.pid)
