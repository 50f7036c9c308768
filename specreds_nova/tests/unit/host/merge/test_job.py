# SPDX-License-Identifier: Apache-2.0
"""A live merge: its steps, and when it must not run."""

from collections.abc import Callable
import itertools

import libvirt

from specreds_cinder.superposition.truth import states
from specreds_nova import exception
from specreds_nova.host.merge import errors
from specreds_nova.tests.unit.host.merge import base
from specreds_nova.tests.unit.host.merge import fakes


class WholeTest(base.MergingTestCase):
    """A merge without failures."""

    def test_steps_are_in_order(self) -> None:
        work = self.merge()
        self.assertEqual(base.ALL, self.domain.log)
        self.assert_merged()
        self.assertEqual('merged', work.progress.state)
        self.assertEqual((64 * base.MIB, 64 * base.MIB), (work.progress.done, work.progress.total))
        self.assertEqual({'copy', 'suspended', 'total'}, set(work.progress.timings_ms))
        self.assertEqual(['merging', 'switching', 'merged'],
                         list(dict.fromkeys(state for state, _error in self.told)))

    def test_read_only_disk_is_merged(self) -> None:
        self.domain.disks[1].read_only = True
        self.merge()
        self.assertEqual(base.ALL, self.domain.log)
        self.assert_merged()

    def test_cdrom_is_merged(self) -> None:
        self.domain.disks[1].device, self.domain.disks[1].read_only = 'cdrom', True
        self.merge()
        self.assertEqual(base.ALL, self.domain.log)
        self.assert_merged()

    def test_merge_may_be_repeated(self) -> None:
        self.merge()
        del self.domain.log[:]
        self.merge()
        self.assertEqual([], self.domain.log)

    def test_merge_ends_under_writes(self) -> None:
        # As much as half of the limit.
        self.domain.writes = 4 * base.MIB // 10
        self.merge()
        self.assert_merged()

    def _speeds(self) -> list[int]:
        """Return the limits of the first disk, filled in later."""
        speeds: list[int] = []
        tick = self.domain.tick

        def watch() -> None:
            speeds.append(self.domain.disks[0].speed)
            tick()
        self.domain.tick = watch  # type: ignore[method-assign]
        return speeds

    def test_merge_begins_at_once(self) -> None:
        began = self.moments()
        work = self.merge()
        self.assertEqual((0.0, 0.0), (began['reopen'], began['commit vda']))
        self.assertEqual(round(1e3 * self.stop.clock, 1), work.progress.timings_ms['total'])

    def test_small_overlay_is_merged_without_a_limit(self) -> None:
        self.domain.latency = 1.0
        speeds = self._speeds()
        self.merge()
        self.assertEqual({0}, set(speeds))

    def test_large_overlay_is_merged_as_fast_as_its_guest_allows(self) -> None:
        self.domain.disks[0].size = 2048 * base.MIB
        tick = self.domain.tick

        def respond() -> None:
            # The guest is disturbed by more than 40 MiB/s.
            self.domain.latency = 0.05 if self.domain.disks[0].speed > 40 * base.MIB else 0.001
            tick()
        self.domain.tick = respond  # type: ignore[method-assign]
        self.domain.fastest = 100 * base.MIB
        speeds = self._speeds()
        self.merge()
        self.assert_merged()
        limited = [speed for speed in speeds[30:] if speed > 0]
        self.assertLess(sum(limited) / len(limited), 60 * base.MIB)
        self.assertGreater(min(limited), 8 * base.MIB)
        self.assertEqual(0, speeds[-1])

    def test_guest_that_writes_as_fast_as_the_copy_is_slowed_down_for_a_moment(self) -> None:
        for disk in self.domain.disks:
            limits = {'total_iops_sec': 5000, 'total_iops_sec_max': 9000}
            disk.own |= limits
            # libvirt has chosen a length.
            disk.tune |= {**limits, 'total_iops_sec_max_length': 1}
        self.domain.writes = 5 * base.MIB
        self.merge()
        self.assert_merged()
        log = self.domain.log
        self.assertLess(log.index('tune vda'), log.index('suspend'))
        # The guest has its own limits again before its disks are switched over.
        self.assertLess(len(log) - log[::-1].index('tune vdb'), log.index('record end') + 1)
        self.assertEqual([{**disk.own, 'total_iops_sec_max_length': 1}
                          for disk in self.domain.disks],
                         [disk.tune for disk in self.domain.disks])
        self.assertLess(self.stop.clock, 10.0)

    def test_guest_is_not_slowed_down_before_the_adoption(self) -> None:
        self.adopted, self.domain.writes = False, 5 * base.MIB
        tick = self.domain.tick

        def adopt() -> None:
            self.adopted = self.stop.clock > 60.0
            self.assertTrue(self.adopted or 'tune vda' not in self.domain.log)
            tick()
        self.domain.tick = adopt  # type: ignore[method-assign]
        self.merge()
        self.assert_merged()
        self.assertIn('tune vda', self.domain.log)

    def test_guest_that_stays_slow_at_the_death_of_nova_compute_is_freed(self) -> None:
        self.domain.writes = 5 * base.MIB
        self.domain.after = lambda what: self.die() if what == 'note' else None
        self.assertRaises(base.Died, self.merge)
        self.domain.after = lambda _what: None
        for disk in self.domain.disks:
            disk.tune['write_bytes_sec'] = 1
        self.domain.writes = 0
        self.merge()
        self.assert_merged()
        self.assertEqual([disk.own for disk in self.domain.disks],
                         [disk.tune for disk in self.domain.disks])

    def test_guest_is_freed_if_the_merge_does_not_end(self) -> None:
        self.domain.writes, self.leaving = 5 * base.MIB, True
        self.assertRaises(errors.Interrupted, self.merge)
        self.assertIn('tune vda', self.domain.log)
        self.assertEqual([disk.own for disk in self.domain.disks],
                         [disk.tune for disk in self.domain.disks])

    def die(self) -> None:
        """End this nova-compute."""
        raise base.Died

    def test_server_paused_by_its_user_stays_paused(self) -> None:
        self.domain.power = (libvirt.VIR_DOMAIN_PAUSED, libvirt.VIR_DOMAIN_PAUSED_USER)
        self.merge()
        self.assert_merged(running=False)
        self.assertNotIn('resume', self.domain.log)

    def test_merge_by_cinder_is_accepted(self) -> None:
        # Such as by a controller that was restarted.
        self.record.now = 'merged'
        self.merge()
        self.assertEqual([entry for entry in base.ALL if not entry.startswith('record')],
                         self.domain.log)
        self.assertEqual('merged', self.record.now)


class UnadoptedTest(base.MergingTestCase):
    """A merge beside the adoption by Nova."""

    def setUp(self) -> None:
        super().setUp()
        self.adopted = False

    def at(self, seconds: float, what: str, value: bool, owner: object = None) -> None:
        """Set an attribute, by default of this test, after some seconds."""
        tick = self.domain.tick

        def change() -> None:
            if self.stop.clock >= seconds:
                setattr(owner or self, what, value)
            tick()
        self.domain.tick = change  # type: ignore[method-assign]

    def test_merge_copies_before_the_adoption_and_ends_after_it(self) -> None:
        # What the guest writes meanwhile is copied as well.
        self.domain.writes = base.MIB // 10
        self.at(60.0, 'adopted', True)
        began = self.moments()
        work = self.merge()
        self.assert_merged()
        self.assertEqual(base.ALL, self.domain.log)
        self.assertEqual(0.0, began['commit vda'])
        self.assertLess(work.progress.timings_ms['copy'], 10e3)
        self.assertGreaterEqual(began['suspend'], 60.0)
        self.assertLess(began['resume'], 62.0)
        self.assertEqual(['merging', 'copied', 'switching', 'merged'],
                         list(dict.fromkeys(state for state, _error in self.told)))

    def test_other_hosts_are_kept_out_until_the_adoption(self) -> None:
        # They start no server whose record says promoted or merging.
        self.at(60.0, 'adopted', True)
        self.domain.after = lambda what: self.assertTrue(
            self.adopted or self.record.now in states.THROUGH_OVERLAY, what)
        self.merge()
        self.assert_merged()

    def test_death_of_nova_compute_before_the_adoption_leaves_the_merge_to_the_next(self) -> None:
        self.at(30.0, 'set', True, self.stop)
        self.assertRaises(errors.Stopped, self.merge)
        self.assertEqual(('merging', True), (self.record.now, self.domain.running))
        self.domain.tick = lambda: None  # type: ignore[method-assign]
        self.stop.set, self.adopted = False, True
        self.merge()
        self.assert_merged()
        self.assertEqual(1, self.domain.log.count('commit vda'))

    def test_server_that_nova_starts_elsewhere_is_not_merged(self) -> None:
        self.at(30.0, 'owned', False)
        self.assertRaises(errors.Overtaken, self.merge)
        self.assertNotIn('suspend', self.domain.log)
        self.assertEqual([None, None], [disk.job for disk in self.domain.disks])


class OvertakenTest(base.MergingTestCase):
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
        self.domain.disks[0].size = 1600 * base.MIB
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
        self.record.answers['end'] = [
            exception.SuperpositionRefused('there is no such superposition')]
        self.overtaken()
        # Another one of it may run by now.
        self.assertFalse(self.domain.running)

    def test_many_merges_of_a_host_check_less_often(self) -> None:
        self.domain.disks[0].size, self.domain.fastest = 1600 * base.MIB, base.MIB // 2
        moments: list[float] = []
        state: Callable[[], str | None] = self.record.state

        def look() -> str | None:
            moments.append(self.stop.clock)
            return state()
        self.patch(self.record, 'state', look)
        with self.shared.copying(58):
            self.merge()
        self.assert_merged()
        # Without the first one, which precedes the copy, and those of the end.
        gaps = [after - before for before, after in itertools.pairwise(moments[1:-2])]
        self.assertGreater(len(gaps), 3)
        self.assertGreaterEqual(min(gaps), 30.0)

    def test_server_that_moves_during_the_copy_ends_the_merge(self) -> None:
        self.domain.disks[0].size = 1600 * base.MIB
        self.domain.after = lambda what: (
            setattr(self, 'owned', False) if what == 'commit vda' else None)
        self.overtaken()
        self.assertLess(self.stop.clock, 20.0)

    def test_unanswered_requests_do_not_end_the_merge(self) -> None:
        self.domain.disks[0].size = 1600 * base.MIB
        answers: list[Exception | None] = [None, exception.SuperpositionUnknown('Cinder is down'),
                                           exception.SuperpositionRefused('no'), None]
        self.record.answers['state'] = answers
        self.merge()
        self.assertEqual([None], answers)
        self.assert_merged()

    def test_guest_paused_on_its_volumes_resumes(self) -> None:
        # nova-compute died between the switch and the end; Cinder has removed the overlays since.
        self.domain.after = lambda what: self.die() if what == 'pivot vdb' else None
        self.assertRaises(base.Died, self.merge)
        self.domain.after = lambda _what: None
        self.record.now = None
        self.merge()
        self.assertTrue(self.domain.running)
        self.assertIsNone(self.domain.note)

    def die(self) -> None:
        """End this nova-compute."""
        raise base.Died


class NotNowTest(base.MergingTestCase):
    """The merge is not possible at the moment: nothing changes."""

    def test_superposition_that_is_not_promoted_is_not_merged(self) -> None:
        self.record.now = 'collapsing'
        exc = self.assertRaises(errors.Interrupted, self.merge)
        self.assertIn('is collapsing', str(exc))
        self.assertNotIn('commit vda', self.domain.log)

    def test_server_is_not_merged_without_cinder(self) -> None:
        self.record.answers['state'] = [exception.SuperpositionUnknown('Cinder is down')]
        self.assertRaises(errors.Interrupted, self.merge)
        self.assertNotIn('commit vda', self.domain.log)

    def test_outage_of_cinder_during_the_copy_interrupts_the_merge(self) -> None:
        self.record.answers['state'] = [None, exception.SuperpositionUnknown('Cinder is down')]
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
        self.assertEqual(0.0, self.stop.clock)

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
