# SPDX-License-Identifier: Apache-2.0
"""Offline merges, and the housekeeping of superpositions."""

import threading

import ddt
import fixtures

from specreds_cinder import exception
from specreds_cinder.service import backend as volume_backend
from specreds_cinder.service import decisions
from specreds_cinder.service import hints
from specreds_cinder.tests.unit.service import base
from specreds_cinder.tests.unit.service import test_threads as gauges


@ddt.ddt
class MergeTest(base.ServiceTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.record = self.worker.records['s1']
        self.back.emitted.clear()

    @ddt.data('begin', 'end', 'offline')
    def test_merge_before_promotion_is_a_conflict(self, step: str) -> None:
        error = self.assertRaises(exception.SuperpositionConflict, self.service.merge,
                                  self.context, 's1', step)
        self.assertEqual('superposed', error.state)

    @ddt.data('begin', 'end')
    def test_step_of_a_live_merge_reaches_the_worker(self, step: str) -> None:
        self.worker.calls.clear()
        self.record['state'] = 'promoted'
        self.service.merge(self.context, 's1', step)
        # The guest is suspended for the end.
        self.assertEqual([f'{step}_merge'], self.worker.methods())

    def test_offline_merge_removes_record_and_note(self) -> None:
        self.record['state'] = 'promoted'
        self.service.merge(self.context, 's1', 'offline')
        self.merged()
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))
        self.assertEqual(['merge.start', 'merge.end'], self.back.events())

    def test_merge_of_an_open_overlay_is_skipped_silently(self) -> None:
        self.record['state'] = 'promoted'
        self.worker.fail['unused'] = exception.SuperpositionConflict('an overlay is open')
        self.service.merge(self.context, 's1', 'offline')
        self.merged()
        self.assertNotIn('merge', self.worker.methods())
        self.assertEqual([], self.back.emitted)
        self.assertEqual({'vol-1': 's1'}, self.back.notes)

    def test_merge_of_an_overlay_that_is_opened_meanwhile_is_skipped_silently(self) -> None:
        self.record['state'] = 'promoted'

        def opened() -> None:
            # While the merge waits for its turn, after the first look.
            if self.worker.methods().count('unused') > 1:
                self.worker.fail['unused'] = exception.SuperpositionConflict('an overlay is open')
        self.worker.hooks['unused'] = opened
        self.service.merge(self.context, 's1', 'offline')
        self.merged()
        self.assertNotIn('merge', self.worker.methods())
        self.assertEqual([], self.back.emitted)

    def test_failed_merge_can_be_repeated(self) -> None:
        self.record['state'] = 'promoted'
        self.worker.fail['merge'] = exception.SuperpositionUnavailable('qemu-img says no')
        self.service.merge(self.context, 's1', 'offline')
        self.merged()
        self.assertEqual(['merge.start', 'merge.error'], self.back.events())
        self.assertEqual({'vol-1': 's1'}, self.back.notes)
        del self.worker.fail['merge']
        self.service.merge(self.context, 's1', 'offline')
        self.merged()
        self.assertEqual({}, self.back.notes)

    def test_superposition_is_merged_once_at_a_time(self) -> None:
        self.record['state'] = 'promoted'
        go = threading.Event()
        self.addCleanup(go.set)
        self.worker.hooks['merge'] = lambda: self.assertTrue(go.wait(base.SECONDS))
        self.service.merge(self.context, 's1', 'offline')
        self.service.merge(self.context, 's1', 'offline')
        go.set()
        self.merged()
        self.assertEqual(1, self.worker.methods().count('merge'))

    def test_merge_is_skipped_while_another_service_merges(self) -> None:
        self.record['state'] = 'promoted'
        with self.back.locks[f'superposition-merge-{base.HOST}-s1']:
            self.service.merge(self.context, 's1', 'offline')
            self.merged()
        self.assertNotIn('merge', self.worker.methods())
        self.assertEqual([], self.back.events())
        self.service.merge(self.context, 's1', 'offline')
        self.merged()
        self.assertIn('merge', self.worker.methods())


class MergesTest(base.ServiceTestCase):

    def test_concurrent_merges_are_limited(self) -> None:
        running, most = threading.Semaphore(0), []
        lock, go, at_work = threading.Lock(), threading.Event(), set[int]()
        self.addCleanup(go.set)

        def work() -> None:
            with lock:
                at_work.add(threading.get_ident())
                most.append(len(at_work))
            running.release()
            go.wait(base.SECONDS)
            with lock:
                at_work.discard(threading.get_ident())
        self.worker.hooks['merge'] = work
        for number in range(4):
            wanted = self.back.add_volume(base.HOST)
            self.create(wanted, superposition_id=f's{number}')
            self.worker.records[f's{number}']['state'] = 'promoted'
            self.service.merge(self.context, f's{number}', 'offline')
        for _ in range(2):
            self.assertTrue(running.acquire(timeout=base.SECONDS))
        go.set()
        self.merged()
        self.assertEqual({}, self.worker.records)
        self.assertEqual((4, 2), (len(most), max(most)))


@ddt.ddt
class LookAfterTest(base.ServiceTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.record = self.worker.records['s1']
        self.worker.calls.clear()
        self.back.emitted.clear()

    def test_lost_note_is_written_again(self) -> None:
        self.back.notes.clear()
        self.service.look_after()
        self.assertEqual(['list', 'look_after', 'tidy'], self.worker.methods())
        # The lost note is written again.
        self.assertEqual({'vol-1': 's1'}, self.back.notes)

    def test_note_that_is_there_is_not_written_again(self) -> None:
        written = self.useFixture(fixtures.MockPatchObject(hints, 'put')).mock
        self.service.look_after()
        written.assert_not_called()
        self.back.notes['vol-1'] = 's0'
        self.service.look_after()
        written.assert_called_once_with(['vol-1'], 's1')

    def test_superpositions_that_wait_for_a_decision_go_first(self) -> None:
        self.create(self.back.add_volume(base.HOST), superposition_id='s2')
        self.create(self.back.add_volume(base.HOST), superposition_id='s3')
        self.worker.calls.clear()
        self.record['state'] = 'promoted'
        self.worker.records['s3'].update(state='collapsing', unchanged_seconds=61.0)
        self.useFixture(fixtures.MockPatch('specreds_cinder.service.backend.LOOKS', 1))
        self.service.look_after()
        self.assertEqual(['look_after', 'collapse', 'look_after'], [
            method for method in self.worker.methods() if method in ('look_after', 'collapse')])
        self.assertEqual('s1', [arguments for method, arguments in self.worker.calls
                                if method == 'look_after'][-1]['superposition'])

    def test_server_that_runs_takes_no_turn_of_a_merge(self) -> None:
        self.record.update(state='merging', unchanged_seconds=1e6)
        self.worker.fail['unused'] = exception.SuperpositionConflict('its overlay is open')
        self.occupy()
        self.service.look_after()
        self.merged()
        self.assertNotIn('merge', self.worker.methods())

    def occupy(self) -> None:
        """Take all turns of merges until the test ends."""
        go = threading.Event()
        self.addCleanup(go.set)
        for _ in range(volume_backend.MERGES):
            self.service.backend.merges.run(lambda: self.assertTrue(go.wait(base.SECONDS)))

    def test_merged_overlays_are_removed_while_others_are_merged(self) -> None:
        self.occupy()
        self.record.update(state='merged', unchanged_seconds=1e6)
        self.service.look_after()
        self.merged()
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))

    def look_at_many(self) -> gauges.Gauge:
        """Make a pass over eight superpositions, and count the looks."""
        for number in range(7):
            self.create(self.back.add_volume(base.HOST), superposition_id=f'other-{number}')
        gauge = gauges.Gauge(1 if self.service.backend.deciding else 4)
        self.worker.hooks['look_after'] = lambda: gauge.work(0)
        self.service.look_after()
        return gauge

    def test_several_superpositions_are_looked_at_at_a_time(self) -> None:
        gauge = self.look_at_many()
        self.assertEqual((4, 8), (gauge.most, len(gauge.items)))

    def test_pass_gives_way_to_a_decision_and_goes_on(self) -> None:
        with decisions._deciding_on(self.service.backend, 's9'):
            gauge = self.look_at_many()
        self.assertEqual((1, 8), (gauge.most, len(gauge.items)))

    def test_superposition_that_cinder_did_not_create_is_left_alone(self) -> None:
        self.worker.records.clear()
        self.worker.add('s9', 'aborting', {}, unchanged_seconds=1e6)
        self.service.look_after()
        self.assertIn('s9', self.worker.records)

    @ddt.data('creating', 'aborting')
    def test_interrupted_creation_or_abort_is_ended_after_60_s(self, state: str) -> None:
        self.record.update(state=state, unchanged_seconds=59.0)
        self.service.look_after()
        self.assertIn('s1', self.worker.records)
        self.record['unchanged_seconds'] = 61.0
        self.service.look_after()
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))

    @ddt.data('creating', 'aborting', 'collapsing')
    def test_interrupted_step_is_ended_at_once_after_a_restart(self, state: str) -> None:
        self.record['state'] = state
        self.worker.outcome = 'dirty'
        self.service.look_after(cut_off=True)
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))

    def test_interrupted_collapse_is_continued_after_60_s(self) -> None:
        self.record.update(state='collapsing', unchanged_seconds=59.0)
        self.service.look_after()
        self.assertEqual('collapsing', self.record['state'])
        self.record['unchanged_seconds'] = 61.0
        self.service.look_after()
        self.assertEqual('promoted', self.record['state'])
        self.assertEqual(['collapse.start', 'collapse.end'], self.back.events())

    def test_promoted_volume_is_merged_after_the_delay(self) -> None:
        self.record.update(state='promoted', unchanged_seconds=59.0)
        self.service.look_after()
        self.merged()
        self.assertEqual(['list', 'look_after', 'tidy'], self.worker.methods())
        self.record['unchanged_seconds'] = 60.0
        self.service.look_after()
        self.merged()
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))

    def test_failure_of_one_superposition_leaves_the_others_alone(self) -> None:
        second = self.back.add_volume(base.HOST)
        self.create(second, superposition_id='s2')
        self.record.update(state='aborting', unchanged_seconds=1e6)
        self.worker.records['s2'].update(state='promoted', unchanged_seconds=1e6)
        for error in (exception.SuperpositionUnavailable('no answer'), ValueError('a bug')):
            self.worker.fail['resume'] = error  # type: ignore[assignment]
            self.service.look_after()
            self.merged()
            self.assertEqual(['s1'], list(self.worker.records))
            self.assertEqual({'vol-1': 's1'}, self.back.notes)

    @ddt.data('list', 'find', 'tidy')
    def test_notes_are_kept_while_ceph_does_not_answer(self, method: str) -> None:
        self.back.add_volume(base.HOST)
        self.back.notes['vol-2'] = 's0'
        self.worker.fail[method] = exception.SuperpositionUnavailable('no answer')
        self.service.look_after()
        self.assertEqual('s1', self.back.notes['vol-1'])
        del self.worker.fail[method]
        self.service.look_after()
        self.assertEqual({'vol-1': 's1'}, self.back.notes)

    def test_note_that_cannot_be_looked_up_keeps_no_late_fence(self) -> None:
        self.back.add_volume(base.HOST)
        self.back.notes['vol-2'] = 's0'
        self.worker.fail['find'] = exception.SuperpositionUnavailable('no answer')
        self.service.look_after()
        self.assertIn('tidy', self.worker.methods())

    def test_superposition_that_cannot_be_read_keeps_its_note_and_no_other_from_being_looked_after(
            self) -> None:
        self.back.add_volume(base.HOST)
        self.back.notes['vol-2'] = 's0'
        self.worker.unreadable = ('s0',)
        self.service.look_after()
        self.assertEqual({'vol-1': 's1', 'vol-2': 's0'}, self.back.notes)
        self.assertEqual(['list', 'look_after', 'tidy'], self.worker.methods())
        self.assertEqual(['s1', 's0'], [view['id'] for view in
                                        self.service.list(self.context)])

    def test_note_on_an_ended_superposition_is_removed(self) -> None:
        del self.worker.records['s1']
        self.service.look_after()
        self.assertEqual({}, self.back.notes)

    def test_note_is_removed_when_a_superposition_ends_meanwhile(self) -> None:
        self.worker.fail['look_after'] = exception.SuperpositionNotFound('it has ended')
        self.service.look_after()
        self.assertEqual({}, self.back.notes)
