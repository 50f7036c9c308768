# SPDX-License-Identifier: Apache-2.0
"""How a live merge ends, and how one that was cut off goes on."""

from collections.abc import Iterator
import contextlib
from typing import Any
from unittest import mock

from specreds_nova import exception
from specreds_nova.host.merge import errors
from specreds_nova.host.merge import job as merge_job
from specreds_nova.tests.unit.host.merge import base
from specreds_nova.tests.unit.host.merge import fakes


def _died() -> None:
    """End a nova-compute."""
    raise base.Died



class EndTest(base.MergingTestCase):
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
        self.record.step = look
        self.merge()
        self.assertEqual(0, seen[-1])
        self.assert_merged()

    def test_guest_resumes_if_too_much_is_left_to_copy(self) -> None:
        # Ceph has become slow: the guest does not wait for it.
        tick = self.domain.tick
        self.domain.after = lambda what: (
            setattr(self.domain.disks[0], 'unseen', base.MIB) if what == 'suspend' else None)
        self.domain.tick = lambda: None if not self.domain.running else tick()  # type: ignore
        self.assertRaises(errors.Interrupted, self.merge)
        self.assertTrue(self.domain.running)
        self.assertIsNone(self.domain.note)
        self.assertEqual('merging', self.record.now)

    def test_refused_end_resumes_the_guest(self) -> None:
        self.record.answers['end'] = [exception.SuperpositionRefused('no')]
        self.assertRaises(errors.Interrupted, self.merge)
        self.assertTrue(self.domain.running)
        self.assertIsNone(self.domain.note)
        self.assertTrue(all(disk.overlay for disk in self.domain.disks))
        self.assertEqual(1, self.domain.log.count('resume'))
        self.record.answers.clear()
        self.merge()
        self.assert_merged()

    def test_end_is_not_recorded_for_a_domain_without_overlays(self) -> None:
        # The guest of a merge that was cut off. What its overlays hold is copied nowhere.
        self.domain.after = lambda what: _died() if what == 'suspend' else None
        self.assertRaises(base.Died, self.merge)
        self.domain.after = lambda _what: None
        for disk in self.domain.disks:
            disk.overlay = disk.job = None
        error = self.assertRaises(errors.Interrupted, self.merge)
        self.assertIn('no disk has its overlay open', str(error))
        self.assertEqual(('merging', False), (self.record.now, self.domain.running))
        self.assertNotIn('record end', self.domain.log)

    def test_end_refused_once_is_repeated(self) -> None:
        # Another client has changed the record in between.
        self.record.answers['end'] = [exception.SuperpositionRefused('changed'), None]
        self.merge()
        self.assertEqual(1, self.domain.log.count('suspend'))
        self.assert_merged()

    def test_guest_of_a_server_that_is_evacuated_is_not_suspended(self) -> None:
        for self.leaving in (True, errors.Interrupted('the database is down')):
            self.assertRaises(errors.Interrupted, self.merge)
            self.assertNotIn('suspend', self.domain.log)
            self.assertTrue(self.domain.running)
            self.assertEqual('merging', self.record.now)
        self.leaving = False
        self.merge()
        self.assert_merged()

    def test_guest_of_a_server_that_is_evacuated_during_the_end_does_not_run_on(self) -> None:
        # The other host waits for the end of this merge, and starts the server then.
        record_step = self.record.step

        def ended(step: str) -> None:
            record_step(step)
            if step == 'end':
                self.leaving = True
        self.record.step = ended
        for self.leaving in (False, True, errors.Interrupted('the database is down')):
            self.assertRaises(errors.Interrupted, self.merge)
            self.assertEqual(('merged', False), (self.record.now, self.domain.running))
            self.assertTrue(all(disk.overlay for disk in self.domain.disks))
        # The evacuation has failed.
        self.leaving = False
        self.merge()
        self.assert_merged()

    def test_unknown_end_keeps_the_guest_paused(self) -> None:
        calls = [0]

        def answer(_what: str) -> None:
            calls[0] += 1
            if calls[0] < 20:
                # It is unknown whether the end was recorded.
                self.assertFalse(self.domain.running)
                raise exception.SuperpositionUnknown('Cinder does not answer')
        record_step = self.record.step

        def unknown(step: str) -> None:
            if step == 'end':
                self.record.answers['state'] = [
                    exception.SuperpositionUnknown('Cinder does not answer')]
                answer(step)
            record_step(step)
        self.record.step = unknown
        self.merge()
        self.assert_merged()
        self.assert_paused_while_unclear()
        self.assertIn('is suspended', str([error for _state, error in self.told]))

    def test_unknown_end_that_was_recorded_is_completed(self) -> None:
        record_step = self.record.step

        def lost(step: str) -> None:
            record_step(step)
            if step == 'end':
                raise exception.SuperpositionUnknown('the answer was lost')
        self.record.step = lost
        self.merge()
        self.assert_merged()
        self.assertEqual(1, self.domain.log.count('record end'))

    def test_refusal_after_an_unknown_end_does_not_resume_the_guest(self) -> None:
        # The first request may still be under way, whatever a later refusal says.
        self.record.answers['end'] = [exception.SuperpositionUnknown('?'), *[
            exception.SuperpositionRefused('no')] * 9, None]
        self.merge()
        self.assert_merged()
        self.assertEqual(1, self.domain.log.count('resume'))
        self.assert_paused_while_unclear()


class CutOffTest(base.MergingTestCase):
    """A process dies after each of the steps."""

    def die(self, count: int, how: Any) -> None:
        """Run a function after a number of steps."""
        left = [count]

        def after(_what: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                how()
        self.domain.after = after

    def die_with_a_suspended_guest(self) -> None:
        """End nova-compute right after it has suspended the guest."""
        self.die(base.ALL.index('suspend') + 1, _died)
        self.assertRaises(base.Died, self.merge)
        self.domain.after = lambda _what: None

    def test_merge_continues_after_the_death_of_nova_compute(self) -> None:
        for count, what in enumerate(base.ALL, 1):
            self.domain.__init__()  # type: ignore[misc]
            self.record.now = 'promoted'
            self.die(count, _died)
            self.assertRaises(base.Died, self.merge)
            self.assertEqual(what, self.domain.log[-1])
            self.domain.after = lambda _what: None
            self.merge()
            self.assert_merged()
            self.assert_paused_while_unclear()

    def test_guest_that_is_suspended_already_needs_no_turn(self) -> None:
        self.die_with_a_suspended_guest()
        with self.turns(3):
            self.merge()
        self.assert_merged()

    def test_guest_is_suspended_in_a_turn(self) -> None:
        free: list[str] = []

        def take(what: str) -> None:
            with contextlib.suppress(TimeoutError), self.turns(3):
                free.append(what)
        self.domain.after = take
        self.merge()
        self.assertIn('commit vdb', free)
        self.assertEqual(['note', 'suspend', 'record end', 'pivot vda', 'pivot vdb', 'resume',
                          'forget'], [what for what in base.ALL if what not in free])

    @contextlib.contextmanager
    def turns(self, count: int) -> Iterator[None]:
        """Keep turns to suspend a guest."""
        def wait(_seconds: float) -> None:
            raise TimeoutError
        with contextlib.ExitStack() as taken:
            for _ in range(count):
                taken.enter_context(self.shared.turn(wait))
            yield

    def test_merge_continues_after_repeated_deaths(self) -> None:
        deaths = 0
        for _ in range(100):
            self.die(3, _died)
            try:
                self.merge()
                break
            except base.Died:
                deaths += 1
        self.assert_merged()
        self.assert_paused_while_unclear()
        self.assertGreater(deaths, 3)

    def test_merge_continues_after_the_death_of_libvirtd(self) -> None:
        def broken() -> None:
            raise fakes.Failure(text='client socket is closed')
        for count in range(1, len(base.ALL) + 1):
            self.domain.__init__()  # type: ignore[misc]
            self.record.now = 'promoted'
            self.die(count, broken)
            self.merge()
            self.assert_merged()
            self.assert_paused_while_unclear()

    def test_record_names_the_right_version_after_the_death_of_qemu(self) -> None:
        def killed() -> None:
            self.domain.active = False
        for count, what in enumerate(base.ALL[:-1], 1):
            self.domain.__init__()  # type: ignore[misc]
            self.record.now = 'promoted'
            self.die(count, killed)
            self.assertRaises(errors.Gone, self.merge)
            # The volume may be opened only when both are equal, which they are after the
            # flush.
            expected = 'merged' if count >= base.ALL.index('record end') else (
                'merging' if count >= base.ALL.index('record begin') + 1 else 'promoted')
            self.assertEqual(expected, self.record.now, what)

    def test_merge_fails_without_libvirt(self) -> None:
        work = merge_job.MergeJob(
            mock.Mock(side_effect=errors.Unavailable('libvirt is down')), 'super-1', self.record,
            lambda: True, lambda: True, self.shared, lambda _progress: None,
            self.stop, lambda: False)  # type: ignore[arg-type]
        self.assertRaises(errors.Interrupted, work.run)

    def test_guest_resumed_by_others_is_paused_again(self) -> None:
        self.die_with_a_suspended_guest()
        self.domain.resume()
        self.domain.disks[0].unseen = 65536
        self.merge()
        self.assert_merged()
        self.assertEqual(2, self.domain.log.count('suspend'))

    def test_restarted_merge_waits_for_cinder(self) -> None:
        self.die(base.ALL.index('record end') + 1, _died)
        self.assertRaises(base.Died, self.merge)
        self.domain.after = lambda _what: None
        self.record.answers['state'] = [
            *[exception.SuperpositionUnknown('Cinder is down')] * 9, None]
        self.merge()
        self.assert_merged()
        self.assert_paused_while_unclear()
