# SPDX-License-Identifier: Apache-2.0
"""Superpositions on one back end, as a volume service creates, decides and looks after them."""

import threading
import time
from typing import Any

from cinder import context
import ddt
import fixtures
from oslo_config import cfg
from oslo_config import fixture as config_fixture
import testtools

from specreds_cinder import eligibility
from specreds_cinder import exception
from specreds_cinder.tests.unit import backends
from specreds_cinder.volume import service

HOST = 'node@rbd'
_SECONDS = 30


class ServiceTestCase(testtools.TestCase):

    hosts: tuple[str, ...] = (HOST,)

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.conf = self.useFixture(config_fixture.Config(cfg.CONF))
        self.back = self.useFixture(backends.Backends(*self.hosts))
        self.context = context.RequestContext('u1', 'p1', is_admin=False,
                                              request_id='req-1')
        self.service = self.back.services[self.hosts[0]]
        self.worker = self.back.workers[self.hosts[0]]

    def create(self, *volumes: dict[str, str], **changes: Any) -> dict[str, Any]:
        """Superpose volumes, by default a new one on each host."""
        wanted = volumes or tuple(self.back.add_volume(host) for host in self.hosts)
        view: dict[str, Any] = self.service.create(self.context, **{
            'superposition_id': 's1', 'volumes': wanted, 'server_id': 'server', 'reason': 'why',
            'expires_at': time.time() + 60, **changes})
        return view

    def merged(self, other: service.BackendSuperpositions | None = None) -> None:
        """Wait until no merge runs."""
        merging = (other or self.service)._merging
        waiting = threading.Event()
        for _ in range(_SECONDS * 100):
            if not merging:
                return
            waiting.wait(0.01)
        self.fail('a merge does not end')


@ddt.ddt
class CreateTest(ServiceTestCase):

    def test_create_returns_the_view_and_notes_the_volume(self) -> None:
        view = self.create()
        self.assertEqual(
            {'id': 's1', 'state': 'superposed', 'outcome': None, 'reason': 'why',
             'server_id': 'server', 'project_id': 'p1', 'user_id': 'u1', 'request_id': 'req-1',
             'members': [HOST], 'lead': HOST, 'host': HOST, 'overlay_bytes': None,
             'volumes': [{'id': 'vol-1', 'size_bytes': 100, 'overlay_bytes': None}]},
            {key: view[key] for key in (
                'id', 'state', 'outcome', 'reason', 'server_id', 'project_id', 'user_id',
                'request_id', 'members', 'lead', 'host', 'overlay_bytes', 'volumes')})
        self.assertEqual({'vol-1': 's1'}, self.back.notes)
        self.assertFalse(self.worker.records['s1']['joint'])

    def test_create_emits_start_and_end(self) -> None:
        self.create()
        self.assertEqual(['create.start', 'create.end'], self.back.events())
        (_, started, _), (_, ended, more) = self.back.emitted
        self.assertEqual([{'id': 'vol-1'}], started['volumes'])
        self.assertEqual('superposed', ended['state'])
        self.assertEqual({'storage', 'total'}, set(more['durations']))

    def test_note_is_written_first_and_under_the_lock(self) -> None:
        def look() -> None:
            self.assertEqual({'vol-1': 's1'}, self.back.notes)
            self.assertEqual({'vol-1'}, self.back.locked)
        self.worker.hooks['super'] = look
        self.create()
        self.assertEqual(set(), self.back.locked)
        self.assertIn('super', self.worker.methods())

    def test_expired_request_changes_nothing(self) -> None:
        self.assertRaises(exception.SuperpositionUnavailable, self.create,
                          expires_at=time.time() - 1)
        self.assertEqual([], self.worker.calls)
        self.assertEqual({}, self.back.notes)

    @ddt.data(
        ({'status': 'attaching'}, exception.SuperpositionConflict, 'attaching'),
        ({'migration_status': 'migrating'}, exception.SuperpositionConflict, 'migrating'),
        ({'multiattach': True}, exception.VolumesNotEligible, 'several times'),
    )
    @ddt.unpack
    def test_volume_that_is_not_eligible_is_refused(self, changes: dict[str, Any],
                                                    kind: type[Exception], why: str) -> None:
        error = self.assertRaises(kind, self.create, self.back.add_volume(HOST, **changes))
        self.assertIn(why, str(error))
        self.assertNotIn('super', self.worker.methods())
        self.assertEqual({}, self.back.notes)
        self.assertEqual(['create.start', 'create.error'], self.back.events())

    def test_encrypted_volumes_are_named(self) -> None:
        plain, encrypted = (self.back.add_volume(HOST, encryption_key_id=key)
                            for key in (None, 'key'))
        self.create(plain, encrypted)
        [arguments] = [arguments for method, arguments in self.worker.calls if method == 'super']
        self.assertEqual([f'volume-{encrypted["id"]}'], arguments['encrypted'])

    def test_status_is_read_under_the_lock(self) -> None:
        wanted = self.back.add_volume(HOST)
        read = eligibility.volumes

        def look(volume_ids: list[str]) -> list[Any]:
            self.assertEqual({'vol-1'}, self.back.locked)
            self.back.volumes['vol-1'].status = 'extending'
            return read(volume_ids)
        self.useFixture(fixtures.MockPatchObject(eligibility, 'volumes', look))
        self.assertRaises(exception.SuperpositionConflict, self.create, wanted)

    def test_unfinished_operation_is_a_conflict(self) -> None:
        self.back.under_way.append('snapshot 7 is creating')
        error = self.assertRaises(exception.SuperpositionConflict, self.create)
        self.assertIn('snapshot 7 is creating', error.msg)

    def test_superposed_volume_is_refused(self) -> None:
        wanted = self.back.add_volume(HOST)
        self.back.notes['vol-1'] = 's0'
        error = self.assertRaises(exception.VolumeSuperposed, self.create, wanted)
        self.assertIn('s0', str(error))
        self.assertEqual({'vol-1': 's0'}, self.back.notes)

    def test_refusal_of_the_storage_removes_the_note(self) -> None:
        self.worker.fail['super'] = exception.VolumesNotEligible('no', reasons=('no map',))
        self.assertRaises(exception.VolumesNotEligible, self.create)
        self.assertEqual({}, self.back.notes)
        self.assertEqual('no', self.back.emitted[-1][2]['error'])

    def test_note_stays_while_the_outcome_is_unknown(self) -> None:
        self.worker.fail['super'] = exception.SuperpositionUnavailable('no answer')
        self.worker.fail['drop'] = exception.SuperpositionUnavailable('no answer')
        error = self.assertRaises(exception.SuperpositionUnavailable, self.create)
        self.assertEqual('no answer', error.msg)
        # The note stays until Ceph confirms that there is no record.
        self.assertEqual({'vol-1': 's1'}, self.back.notes)
        self.service.look_after()
        self.assertEqual({}, self.back.notes)


@ddt.ddt
class DecideTest(ServiceTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.back.emitted.clear()

    def test_decision_measures_no_overlay(self) -> None:
        self.worker.calls.clear()
        self.service.collapse(self.context, 's1', True)
        self.service.merge(self.context, 's1', 'begin')
        briefs = [arguments['brief'] for method, arguments in self.worker.calls
                  if method == 'show']
        self.assertEqual([True, True], briefs)

    @ddt.data(True, False)
    def test_collapse_promotes(self, durable: bool) -> None:
        report = self.service.collapse(self.context, 's1', durable)
        self.assertEqual(('promoted', 3.0), (report['outcome'], report['durations']['total']))
        self.assertEqual({'sweep1', 'durable', 'fence', 'window', 'sweep2', 'commit', 'total'},
                         set(report['durations']))
        self.assertEqual({'superposition': 's1', 'durable': durable},
                         dict(self.worker.calls)['collapse'])
        # A promoted volume keeps its overlay until it is merged.
        self.assertEqual({'vol-1': 's1'}, self.back.notes)
        self.assertEqual(['collapse.start', 'collapse.end'], self.back.events())
        _, view, more = self.back.emitted[-1]
        self.assertEqual(('promoted', 'promote'), (view['outcome'], more['decision']))

    @ddt.data('dirty', 'late-dirty')
    def test_dirty_collapse_removes_the_note(self, outcome: str) -> None:
        self.worker.outcome = outcome
        self.assertEqual(outcome, self.service.collapse(self.context, 's1', False)['outcome'])
        self.assertEqual({}, self.back.notes)

    def test_refused_collapse_changes_nothing(self) -> None:
        self.worker.fail['collapse'] = exception.SuperpositionConflict('an overlay is open')
        self.assertRaises(exception.SuperpositionConflict, self.service.collapse, self.context,
                          's1', False)
        self.assertEqual({'vol-1': 's1'}, self.back.notes)
        self.assertEqual(['collapse.start', 'collapse.error'], self.back.events())

    def test_abort_removes_record_and_note(self) -> None:
        self.service.abort(self.context, 's1')
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))
        self.assertEqual(['collapse.start', 'collapse.end'], self.back.events())
        self.assertEqual(('aborted', 'abort'), (self.back.emitted[-1][1]['outcome'],
                                                self.back.emitted[-1][2]['decision']))

    @ddt.data('promoted', 'merging', 'merged')
    def test_abort_after_promotion_is_a_conflict(self, state: str) -> None:
        self.worker.records['s1']['state'] = state
        error = self.assertRaises(exception.SuperpositionConflict, self.service.abort,
                                  self.context, 's1')
        self.assertEqual(state, error.state)
        self.assertEqual([], self.back.emitted)
        self.assertIn('s1', self.worker.records)

    @ddt.data('abort', 'get')
    def test_unknown_superposition_is_not_found(self, method: str) -> None:
        self.assertRaises(exception.SuperpositionNotFound, getattr(self.service, method),
                          self.context, 's2')

    def test_check_returns_the_sweep(self) -> None:
        self.worker.report = backends.DIRTY
        self.assertEqual({'dirty': True, 'first': 'object 7', 'objects': 3, 'seconds': 0.25},
                         self.service.check(self.context, 's1'))


@ddt.ddt
class ReadTest(ServiceTestCase):

    def test_brief_list_reads_no_details(self) -> None:
        self.create()
        self.worker.calls.clear()
        self.assertEqual(['s1'], [each['id'] for each in self.service.list(self.context, True)])
        self.assertEqual(['list'], self.worker.methods())
        self.service.list(self.context, False)
        self.assertEqual(['list', 'list', 'show'], self.worker.methods())

    def test_superposition_that_cinder_did_not_create_is_listed(self) -> None:
        self.worker.add('s9', 'superposed', {})
        (view,) = self.service.list(self.context, True)
        self.assertEqual(([HOST], HOST, ['other'], None),
                         (view['members'], view['lead'],
                          [volume['id'] for volume in view['volumes']], view['project_id']))

    def test_eligibility_has_reasons(self) -> None:
        for changes in ({}, {'multiattach': True}):
            self.back.add_volume(HOST, **changes)
        good, bad = self.service.eligibility(self.context, ['vol-1', 'vol-2'])
        self.assertEqual({'volume_id': 'vol-1', 'eligible': True, 'reasons': []}, good)
        self.assertEqual(('vol-2', False, 1),
                         (bad['volume_id'], bad['eligible'], len(bad['reasons'])))

    def test_connection_of_each_volume_is_returned(self) -> None:
        self.create()
        self.back.drivers[HOST].child_connection.return_value = {'driver_volume_type': 'x'}
        self.assertEqual([{'volume_id': 'vol-1', 'driver_volume_type': 'x'}],
                         self.service.connection(self.context, 's1', {'host': 'h'}))
        volume, connector, superposition = self.back.drivers[HOST].child_connection.call_args.args
        self.assertEqual(('vol-1', {'host': 'h'}, 's1'),
                         (volume.id, connector, superposition['id']))

    @ddt.data('creating', 'collapsing', 'promoted', 'merging', 'merged', 'aborting')
    def test_connection_needs_the_state_superposed(self, state: str) -> None:
        self.create()
        self.worker.records['s1']['state'] = state
        error = self.assertRaises(exception.SuperpositionConflict, self.service.connection,
                                  self.context, 's1', {})
        self.assertEqual(state, error.state)
        self.assertIn(state, error.msg)

    @ddt.data(True, False)
    def test_current_connection_is_the_drivers(self, hand_out: bool) -> None:
        self.back.add_volume(HOST)
        current = self.back.drivers[HOST].current_connection
        current.return_value = {'data': 1}
        self.assertEqual({'data': 1}, self.service.current_connection(
            self.context, 'vol-1', {}, hand_out))
        current.assert_called_once_with(self.back.volumes['vol-1'], {}, hand_out=hand_out)


@ddt.ddt
class MergeTest(ServiceTestCase):

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
        self.record['state'] = 'promoted'
        self.service.merge(self.context, 's1', step)
        self.assertEqual(f'{step}_merge', self.worker.methods()[-1])

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
        self.worker.hooks['merge'] = lambda: self.assertTrue(go.wait(_SECONDS))
        self.service.merge(self.context, 's1', 'offline')
        self.service.merge(self.context, 's1', 'offline')
        go.set()
        self.merged()
        self.assertEqual(1, self.worker.methods().count('merge'))

    def test_merge_is_skipped_while_another_service_merges(self) -> None:
        self.record['state'] = 'promoted'
        with self.back.locks[f'superposition-merge-{HOST}-s1']:
            self.service.merge(self.context, 's1', 'offline')
            self.merged()
        self.assertNotIn('merge', self.worker.methods())
        self.assertEqual([], self.back.events())
        self.service.merge(self.context, 's1', 'offline')
        self.merged()
        self.assertIn('merge', self.worker.methods())


class MergesTest(ServiceTestCase):

    def setUp(self) -> None:
        self.useFixture(config_fixture.Config(cfg.CONF)).config(group='specreds', merges=2)
        super().setUp()

    def test_concurrent_merges_are_limited(self) -> None:
        running, most = threading.Semaphore(0), []
        lock, go, at_work = threading.Lock(), threading.Event(), set[int]()
        self.addCleanup(go.set)

        def work() -> None:
            with lock:
                at_work.add(threading.get_ident())
                most.append(len(at_work))
            running.release()
            go.wait(_SECONDS)
            with lock:
                at_work.discard(threading.get_ident())
        self.worker.hooks['merge'] = work
        for number in range(4):
            wanted = self.back.add_volume(HOST)
            self.create(wanted, superposition_id=f's{number}')
            self.worker.records[f's{number}']['state'] = 'promoted'
            self.service.merge(self.context, f's{number}', 'offline')
        for _ in range(2):
            self.assertTrue(running.acquire(timeout=_SECONDS))
        go.set()
        self.merged()
        self.assertEqual({}, self.worker.records)
        self.assertEqual((4, 2), (len(most), max(most)))


@ddt.ddt
class LookAfterTest(ServiceTestCase):

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
        self.conf.config(group='specreds', merge_delay=60)
        self.record.update(state='promoted', unchanged_seconds=59.0)
        self.service.look_after()
        self.merged()
        self.assertEqual(['list', 'look_after', 'tidy'], self.worker.methods())
        self.record['unchanged_seconds'] = 60.0
        self.service.look_after()
        self.merged()
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))

    def test_failure_of_one_superposition_leaves_the_others_alone(self) -> None:
        second = self.back.add_volume(HOST)
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
        self.back.add_volume(HOST)
        self.back.notes['vol-2'] = 's0'
        self.worker.fail[method] = exception.SuperpositionUnavailable('no answer')
        self.service.look_after()
        self.assertEqual('s1', self.back.notes['vol-1'])
        del self.worker.fail[method]
        self.service.look_after()
        self.assertEqual({'vol-1': 's1'}, self.back.notes)

    def test_note_on_an_ended_superposition_is_removed(self) -> None:
        del self.worker.records['s1']
        self.service.look_after()
        self.assertEqual({}, self.back.notes)

    def test_note_is_removed_when_a_superposition_ends_meanwhile(self) -> None:
        self.worker.fail['look_after'] = exception.SuperpositionNotFound('it has ended')
        self.service.look_after()
        self.assertEqual({}, self.back.notes)


class DirtyTest(ServiceTestCase):

    def test_dirty_superposition_is_announced_once(self) -> None:
        self.create()
        self.back.emitted.clear()
        self.worker.dirty = [None, ('s1', 'object 7 was written'), ('s2', 'it is gone')]
        self.service.announce_dirty()
        self.assertEqual([], self.back.emitted)
        self.service.announce_dirty()
        self.assertEqual([('superposition.dirty', 's1')],
                         [(event, view['id']) for event, view, _ in self.back.emitted])
        self.service.announce_dirty()
        self.assertEqual(1, len(self.back.emitted))

    def test_decided_superposition_is_not_announced(self) -> None:
        self.create()
        self.back.emitted.clear()
        self.worker.records['s1']['state'] = 'promoted'
        self.worker.dirty = [('s1', 'object 7 was written')]
        self.service.announce_dirty()
        self.assertEqual([], self.back.emitted)
