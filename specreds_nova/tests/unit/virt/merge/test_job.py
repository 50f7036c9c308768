# SPDX-License-Identifier: Apache-2.0
"""The live merge of a server, also when it is interrupted at any point."""

from typing import Any
from unittest import mock

import libvirt
import testtools

from specreds_cinder.superposition import merge_rate
from specreds_nova.tests.unit.virt.merge import fakes
from specreds_nova.virt.disks import qmp
from specreds_nova.virt.merge import errors
from specreds_nova.virt.merge import job as merge_job
from specreds_nova.virt.merge import pivot

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
        self.record = fakes.Record(self.domain)
        self.stop = fakes.Stop(self.domain)
        self.owned = True
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
                               lambda: self.owned, 8 * MIB,
                               lambda progress: self.told.append(
                                   (progress.state, progress.error)),
                               self.stop)  # type: ignore[arg-type]
        work.run()
        return work

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


class WholeTest(MergingTestCase):
    """A merge without failures."""

    def test_steps_are_in_order(self) -> None:
        work = self.merge()
        self.assertEqual(ALL, self.domain.log)
        self.assert_merged()
        self.assertEqual('merged', work.progress.state)
        self.assertEqual((64 * MIB, 64 * MIB), (work.progress.done, work.progress.total))
        self.assertEqual({'copy', 'suspended', 'total'}, set(work.progress.timings_ms))
        self.assertEqual(['merging', 'switching', 'merged'],
                         list(dict.fromkeys(state for state, _error in self.told)))

    def test_merge_may_be_repeated(self) -> None:
        self.merge()
        del self.domain.log[:]
        self.merge()
        self.assertEqual([], self.domain.log)

    def test_merge_ends_under_writes(self) -> None:
        # As much as half of the limit.
        self.domain.writes = 4 * MIB // 10
        self.merge()
        self.assert_merged()

    def test_rate_is_limited(self) -> None:
        work = self.merge()
        # 32 MiB for each disk, at 8 MiB/s.
        self.assertGreaterEqual(work.progress.timings_ms['copy'], 2000.0)

    def test_merge_waits_for_an_earlier_job(self) -> None:
        began = self.moments()
        work = self.merge()
        self.assertEqual((3.0, 3.0), (began['reopen'], began['commit vda']))
        self.assertEqual(round(1e3 * (self.stop.clock - 3.0), 1),
                         work.progress.timings_ms['total'])

    def test_running_job_is_continued_at_once(self) -> None:
        pivot.commit(self.domain, 8 * MIB)
        began = self.moments()
        self.merge()
        self.assertEqual(0.0, began['record begin'])

    def test_rate_rises_if_the_guest_writes_faster(self) -> None:
        self.domain.writes = 2 * MIB
        speeds = set()
        tick = self.domain.tick

        def watch() -> None:
            speeds.add(self.domain.disks[0].speed)
            tick()
        self.domain.tick = watch  # type: ignore[method-assign]
        self.merge()
        self.assert_merged()
        # Of each disk 20 MiB/s.
        self.assertGreater(max(speeds), 20 * MIB)

    def test_server_paused_by_its_user_stays_paused(self) -> None:
        self.domain.power = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER)
        self.merge()
        self.assert_merged(running=False)
        self.assertNotIn('resume', self.domain.log)

    def test_merge_by_cinder_is_accepted(self) -> None:
        # Such as by a controller that was restarted.
        self.record.now = 'merged'
        self.merge()
        self.assertEqual([entry for entry in ALL if not entry.startswith('record')],
                         self.domain.log)
        self.assertEqual('merged', self.record.now)


class OvertakenTest(MergingTestCase):
    """The overlays on this host are obsolete: none of them is written to a volume."""

    def overtaken(self) -> None:
        """Run the merge, and assert that no disk is switched over and no copy continues."""
        self.assertRaises(errors.Overtaken, self.merge)
        self.assertEqual([], [what for what in self.domain.log if what.startswith('pivot')])
        self.assertEqual([None, None], [disk.job for disk in self.domain.disks])
        self.assertTrue(all(disk.overlay for disk in self.domain.disks))

    def vanish(self, after: str) -> None:
        """Remove the record after an operation."""
        self.domain.after = lambda what: (
            setattr(self.record, 'now', None) if what == after else None)

    def test_merge_without_a_record_changes_nothing(self) -> None:
        self.record.now = None
        self.overtaken()
        self.assertNotIn('commit vda', self.domain.log)

    def test_record_removed_during_the_copy_ends_the_merge(self) -> None:
        # 32 MiB take 40 s.
        self.domain.disks[0].size = 320 * MIB
        self.vanish('commit vda')
        self.overtaken()
        self.assertLess(self.stop.clock, 20.0)
        self.assertIn('cancel vda', self.domain.log)

    def test_record_removed_before_the_pause_ends_the_merge(self) -> None:
        self.vanish('commit vdb')
        self.overtaken()
        self.assertNotIn('suspend', self.domain.log)

    def test_record_removed_during_the_pause_ends_the_merge(self) -> None:
        self.vanish('suspend')
        self.record.answers['end'] = [errors.Refused('there is no such superposition')]
        self.overtaken()
        # Another one of it may run by now.
        self.assertFalse(self.domain.running)

    def test_server_that_moves_during_the_copy_ends_the_merge(self) -> None:
        self.domain.disks[0].size = 320 * MIB
        self.domain.after = lambda what: (
            setattr(self, 'owned', False) if what == 'commit vda' else None)
        self.overtaken()
        self.assertLess(self.stop.clock, 20.0)

    def test_unanswered_requests_do_not_end_the_merge(self) -> None:
        self.domain.disks[0].size = 320 * MIB
        answers: list[Exception | None] = [None, errors.Unknown('Cinder is down'),
                                           errors.Refused('no'), None]
        self.record.answers['state'] = answers
        self.merge()
        self.assertEqual([None], answers)
        self.assert_merged()

    def test_guest_paused_on_its_volumes_resumes(self) -> None:
        # nova-compute died between the switch and the end; Cinder has removed the overlays since.
        self.domain.after = lambda what: self.die() if what == 'pivot vdb' else None
        self.assertRaises(Died, self.merge)
        self.domain.after = lambda _what: None
        self.record.now = None
        self.merge()
        self.assertTrue(self.domain.running)
        self.assertIsNone(self.domain.note)

    def die(self) -> None:
        """End this nova-compute."""
        raise Died


class NotNowTest(MergingTestCase):
    """The merge is not possible at the moment: nothing changes."""

    def test_superposition_that_is_not_promoted_is_not_merged(self) -> None:
        self.record.now = 'collapsing'
        exc = self.assertRaises(errors.Interrupted, self.merge)
        self.assertIn('is collapsing', str(exc))
        self.assertNotIn('commit vda', self.domain.log)

    def test_server_is_not_merged_without_cinder(self) -> None:
        self.record.answers['state'] = [errors.Unknown('Cinder is down')]
        self.assertRaises(errors.Interrupted, self.merge)
        self.assertNotIn('commit vda', self.domain.log)

    def test_outage_of_cinder_during_the_copy_interrupts_the_merge(self) -> None:
        self.record.answers['state'] = [None, errors.Unknown('Cinder is down')]
        self.assertRaises(errors.Interrupted, self.merge)
        self.assertNotIn('suspend', self.domain.log)
        self.record.answers.clear()
        self.merge()
        self.assert_merged()

    def test_stopped_server_is_not_merged(self) -> None:
        self.domain.active = False
        self.assertRaises(errors.Gone, self.merge)

    def test_server_deleted_meanwhile_is_not_merged(self) -> None:
        def delete(what: str) -> None:
            if what == 'commit vda':
                raise fakes.Failure(libvirt.VIR_ERR_NO_DOMAIN, 'no domain with matching uuid')
        self.domain.after = delete
        self.assertRaises(errors.Gone, self.merge)
        # The merge is not tried again.
        self.assertEqual(3.0, self.stop.clock)

    def test_guest_stopped_by_a_disk_error_is_not_merged(self) -> None:
        self.domain.power = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_IOERROR)
        exc = self.assertRaises(errors.Interrupted, self.merge)
        self.assertIn('I/O error', str(exc))
        self.assertNotIn('record end', self.domain.log)

    def test_failed_job_fails_the_merge(self) -> None:
        def fail(what: str) -> None:
            if what == 'commit vdb':
                self.domain.disks[0].job = None
        self.domain.after = fail
        exc = self.assertRaises(errors.Interrupted, self.merge)
        self.assertIn('vda', str(exc))
        self.domain.after = lambda _what: None
        self.merge()
        self.assert_merged()

    def test_job_that_fails_at_the_end_fails_the_merge(self) -> None:
        def fail(what: str) -> None:
            if what == 'suspend':
                job = self.domain.disks[0].job
                assert job is not None
                job.update(error='no space')
        self.domain.after = fail
        exc = self.assertRaises(errors.Interrupted, self.merge)
        self.assertIn('no space', str(exc))
        self.assertEqual('merging', self.record.now)

    def test_stopped_process_leaves_the_merge(self) -> None:
        self.stop.set = True
        self.assertRaises(errors.Stopped, self.merge)
        self.assertTrue(self.domain.running)

    def test_disk_that_cannot_be_made_durable_fails_the_merge(self) -> None:
        self.domain.refused['blockdev-reopen'] = 'no'
        exc = self.assertRaises(errors.Interrupted, self.merge)
        self.assertIn('durable', str(exc))
        self.assertNotIn('record begin', self.domain.log)


class EndTest(MergingTestCase):
    """Events while the guest is paused."""

    def test_remaining_writes_are_copied_during_the_pause(self) -> None:
        # The job does not know of the write yet, and seems to be complete.
        def write(what: str) -> None:
            if what == 'note':
                self.domain.disks[1].unseen = 65536
        self.domain.after = write
        seen: list[int] = []
        record_step = self.record.step

        def look(step: str) -> None:
            seen.append(sum(disk.unseen for disk in self.domain.disks))
            record_step(step)
        self.record.step = look  # type: ignore[method-assign]
        self.merge()
        self.assertEqual(0, seen[-1])
        self.assert_merged()

    def test_guest_resumes_if_too_much_is_left_to_copy(self) -> None:
        # Ceph has become slow: the guest does not wait for it.
        tick = self.domain.tick
        self.domain.after = lambda what: (
            setattr(self.domain.disks[0], 'unseen', MIB) if what == 'suspend' else None)
        self.domain.tick = lambda: None if not self.domain.running else tick()  # type: ignore
        self.assertRaises(errors.Interrupted, self.merge)
        self.assertTrue(self.domain.running)
        self.assertIsNone(self.domain.note)
        self.assertEqual('merging', self.record.now)
        self.assertEqual({8 * MIB}, {disk.speed for disk in self.domain.disks})

    def test_refused_end_resumes_the_guest(self) -> None:
        self.record.answers['end'] = [errors.Refused('no')]
        self.assertRaises(errors.Interrupted, self.merge)
        self.assertTrue(self.domain.running)
        self.assertIsNone(self.domain.note)
        self.assertTrue(all(disk.overlay for disk in self.domain.disks))
        self.assertEqual(1, self.domain.log.count('resume'))
        self.record.answers.clear()
        self.merge()
        self.assert_merged()

    def test_end_refused_once_is_repeated(self) -> None:
        # Another client has changed the record in between.
        self.record.answers['end'] = [errors.Refused('changed'), None]
        self.merge()
        self.assertEqual(1, self.domain.log.count('suspend'))
        self.assert_merged()

    def test_unknown_end_keeps_the_guest_paused(self) -> None:
        calls = [0]

        def answer(_what: str) -> None:
            calls[0] += 1
            if calls[0] < 20:
                # It is unknown whether the end was recorded.
                self.assertFalse(self.domain.running)
                raise errors.Unknown('Cinder does not answer')
        record_step = self.record.step

        def unknown(step: str) -> None:
            if step == 'end':
                self.record.answers['state'] = [errors.Unknown('Cinder does not answer')]
                answer(step)
            record_step(step)
        self.record.step = unknown  # type: ignore[method-assign]
        self.merge()
        self.assert_merged()
        self.assert_paused_while_unclear()
        self.assertIn('is suspended', str([error for _state, error in self.told]))

    def test_unknown_end_that_was_recorded_is_completed(self) -> None:
        record_step = self.record.step

        def lost(step: str) -> None:
            record_step(step)
            if step == 'end':
                raise errors.Unknown('the answer was lost')
        self.record.step = lost  # type: ignore[method-assign]
        self.merge()
        self.assert_merged()
        self.assertEqual(1, self.domain.log.count('record end'))

    def test_refusal_after_an_unknown_end_does_not_resume_the_guest(self) -> None:
        # The first request may still be under way, whatever a later refusal says.
        self.record.answers['end'] = [errors.Unknown('?')] + [errors.Refused('no')] * 9 + [None]
        self.merge()
        self.assert_merged()
        self.assertEqual(1, self.domain.log.count('resume'))
        self.assert_paused_while_unclear()


class CutOffTest(MergingTestCase):
    """A process dies after each of the steps."""

    def die(self, count: int, how: Any) -> None:
        """Run a function after a number of steps."""
        left = [count]

        def after(_what: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                how()
        self.domain.after = after

    def test_merge_continues_after_the_death_of_nova_compute(self) -> None:
        def died() -> None:
            raise Died
        for count, what in enumerate(ALL, 1):
            self.domain.__init__()  # type: ignore[misc]
            self.record.now = 'promoted'
            self.die(count, died)
            self.assertRaises(Died, self.merge)
            self.assertEqual(what, self.domain.log[-1])
            self.domain.after = lambda _what: None
            self.merge()
            self.assert_merged()
            self.assert_paused_while_unclear()

    def test_merge_continues_after_repeated_deaths(self) -> None:
        def died() -> None:
            raise Died
        deaths = 0
        for _ in range(100):
            self.die(3, died)
            try:
                self.merge()
                break
            except Died:
                deaths += 1
        self.assert_merged()
        self.assert_paused_while_unclear()
        self.assertGreater(deaths, 3)

    def test_merge_continues_after_the_death_of_libvirtd(self) -> None:
        def broken() -> None:
            raise fakes.Failure(text='client socket is closed')
        for count in range(1, len(ALL) + 1):
            self.domain.__init__()  # type: ignore[misc]
            self.record.now = 'promoted'
            self.die(count, broken)
            self.merge()
            self.assert_merged()
            self.assert_paused_while_unclear()

    def test_record_names_the_right_version_after_the_death_of_qemu(self) -> None:
        def killed() -> None:
            self.domain.active = False
        for count, what in enumerate(ALL[:-1], 1):
            self.domain.__init__()  # type: ignore[misc]
            self.record.now = 'promoted'
            self.die(count, killed)
            self.assertRaises(errors.Gone, self.merge)
            # The volume may be opened only when both are equal, which they are after the
            # flush.
            expected = 'merged' if count >= ALL.index('record end') else (
                'merging' if count >= ALL.index('record begin') + 1 else 'promoted')
            self.assertEqual(expected, self.record.now, what)

    def test_merge_fails_without_libvirt(self) -> None:
        work = merge_job.MergeJob(
            mock.Mock(side_effect=errors.Unavailable('libvirt is down')), 'super-1', self.record,
            lambda: True, 0, lambda _progress: None, self.stop)  # type: ignore[arg-type]
        self.assertRaises(errors.Interrupted, work.run)

    def test_guest_resumed_by_others_is_paused_again(self) -> None:
        def died() -> None:
            raise Died
        self.die(ALL.index('suspend') + 1, died)
        self.assertRaises(Died, self.merge)
        self.domain.after = lambda _what: None
        self.domain.resume()
        self.domain.disks[0].unseen = 65536
        self.merge()
        self.assert_merged()
        self.assertEqual(2, self.domain.log.count('suspend'))

    def test_restarted_merge_waits_for_cinder(self) -> None:
        def died() -> None:
            raise Died
        self.die(ALL.index('record end') + 1, died)
        self.assertRaises(Died, self.merge)
        self.domain.after = lambda _what: None
        self.record.answers['state'] = [errors.Unknown('Cinder is down')] * 9 + [None]
        self.merge()
        self.assert_merged()
        self.assert_paused_while_unclear()
