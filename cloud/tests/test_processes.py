# SPDX-License-Identifier: Apache-2.0
"""One supervisord, with nobody who reaps it."""

import ctypes
import os
import pathlib

import fixtures
import testtools

from cloud import processes

_PR_SET_CHILD_SUBREAPER = 36


class UnreapedTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        # As in a container whose first process reaps no orphans: supervisord is this process's.
        self.adopt(True)
        self.addCleanup(self.adopt, False)
        data = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        self.supervisor = processes.Supervisor(data, data)

    def adopt(self, orphans: bool) -> None:
        """Become the parent of orphans, or do not."""
        self.assertEqual(0, ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(orphans)))

    def test_supervisord_that_nobody_reaps_has_ended(self) -> None:
        self.supervisor.start({})
        [pid] = self.supervisor.members()
        self.supervisor.stop()
        self.assertFalse(self.supervisor.running())
        # It was still there.
        self.assertEqual(pid, os.waitpid(pid, 0)[0])
