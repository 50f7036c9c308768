# SPDX-License-Identifier: Apache-2.0
"""What the tests of live merges share."""

from typing import Any
from unittest import mock

import testtools

from specreds_cinder.superposition.overlay import merge_rate
from specreds_nova.host.disks import qmp
from specreds_nova.host.merge import job as merge_job
from specreds_nova.host.merge import pivot
from specreds_nova.tests.unit.host.merge import fakes

MIB = 1 << 20
ALL = ['reopen', 'reopen', 'record begin', 'commit vda', 'commit vdb', 'note', 'suspend', 'reopen',
       'record end', 'pivot vda', 'pivot vdb', 'resume', 'forget']


class Died(BaseException):
    """The death of nova-compute."""


class MergingTestCase(testtools.TestCase):
    """A merge of two disks."""

    def setUp(self) -> None:
        super().setUp()
        self.domain = fakes.Domain()
        self.record: Any = fakes.Record(self.domain)
        self.stop = fakes.Stop(self.domain)
        self.shared = merge_job.Turns()
        self.owned = self.adopted = True
        self.leaving: bool | Exception = False
        self.told: list[tuple[str, str | None]] = []
        self.patch(qmp, 'run', self.domain.qmp)
        for module in (merge_job, merge_rate, pivot):
            clock = mock.patch.object(module, 'time', mock.Mock(
                monotonic=lambda: self.stop.clock, sleep=self.stop.wait))
            clock.start()
            self.addCleanup(clock.stop)

    def merge(self) -> merge_job.MergeJob:
        """Run the merge as one process does."""
        work = merge_job.MergeJob(lambda: self.domain, 'super-1', self.record,
                               lambda: self.owned, lambda: self.adopted, self.shared,
                               lambda progress: self.told.append(
                                   (progress.state, progress.error)),
                               self.stop, self._leaving)  # type: ignore[arg-type]
        work.run()
        return work

    def _leaving(self) -> bool:
        if isinstance(self.leaving, Exception):
            raise self.leaving
        return self.leaving

    def moments(self) -> dict[str, float]:
        """Return the times of the first occurrence of each operation, filled in later."""
        times: dict[str, float] = {}

        def note(what: str) -> None:
            times.setdefault(what, self.stop.clock)
        self.domain.after = note
        return times

    def assert_merged(self, *, running: bool = True) -> None:
        """Assert that the merge is complete."""
        self.assertEqual('merged', self.record.now)
        self.assertEqual([None, None], [disk.overlay for disk in self.domain.disks])
        self.assertIsNone(self.domain.note)
        self.assertEqual(running, self.domain.running)

    def assert_paused_while_unclear(self) -> None:
        """Assert that the guest did not run while it was unclear which version counts."""
        log = self.domain.log
        for index, what in enumerate(log):
            if what == 'resume' and 'record end' in log[:index]:
                self.assertEqual(2, sum(entry.startswith('pivot') for entry in log[:index]))
