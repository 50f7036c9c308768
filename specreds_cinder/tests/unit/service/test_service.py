# SPDX-License-Identifier: Apache-2.0
"""Requests to the service: create, decide, read."""

import threading
from typing import Any

import ddt
import fixtures

from specreds_cinder import exception
from specreds_cinder.service import eligibility
from specreds_cinder.service import notifications
from specreds_cinder.service import threads
from specreds_cinder.tests.unit import backends
from specreds_cinder.tests.unit.service import base


@ddt.ddt
class CreateTest(base.ServiceTestCase):

    def test_create_returns_the_view_and_notes_the_volume(self) -> None:
        view = self.create()
        self.assertEqual(
            {'id': 's1', 'state': 'superposed', 'outcome': None, 'reason': 'why',
             'server_id': 'server', 'project_id': 'p1', 'user_id': 'u1', 'request_id': 'req-1',
             'members': [base.HOST], 'lead': base.HOST, 'host': base.HOST, 'overlay_bytes': None,
             'volumes': [{'id': 'vol-1', 'size_bytes': 100, 'overlay_bytes': None}]},
            {key: view[key] for key in (
                'id', 'state', 'outcome', 'reason', 'server_id', 'project_id', 'user_id',
                'request_id', 'members', 'lead', 'host', 'overlay_bytes', 'volumes')})
        self.assertEqual({'vol-1': 's1'}, self.back.notes)

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

    @ddt.data(
        ({'status': 'attaching'}, exception.SuperpositionConflict, 'attaching'),
        ({'migration_status': 'migrating'}, exception.SuperpositionConflict, 'migrating'),
        ({'multiattach': True}, exception.VolumesNotEligible, 'several times'),
    )
    @ddt.unpack
    def test_volume_that_is_not_eligible_is_refused(self, changes: dict[str, Any],
                                                    kind: type[Exception], why: str) -> None:
        error = self.assertRaises(kind, self.create, self.back.add_volume(base.HOST, **changes))
        self.assertIn(why, str(error))
        self.assertNotIn('super', self.worker.methods())
        self.assertEqual({}, self.back.notes)
        self.assertEqual(['create.start', 'create.error'], self.back.events())

    def test_encrypted_volumes_are_named(self) -> None:
        plain, encrypted = (self.back.add_volume(base.HOST, encryption_key_id=key)
                            for key in (None, 'key'))
        self.create(plain, encrypted)
        [arguments] = [arguments for method, arguments in self.worker.calls if method == 'super']
        self.assertEqual([f'volume-{encrypted["id"]}'], arguments['encrypted'])

    def test_status_is_read_under_the_lock(self) -> None:
        wanted = self.back.add_volume(base.HOST)
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
        wanted = self.back.add_volume(base.HOST)
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
class DecideTest(base.ServiceTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.create()
        self.back.emitted.clear()

    def test_decision_measures_no_overlay(self) -> None:
        self.worker.calls.clear()
        self.service.promote(self.context, 's1', True)
        self.service.merge(self.context, 's1', 'offline')
        briefs = [arguments['brief'] for method, arguments in self.worker.calls
                  if method == 'show']
        self.assertEqual([True, True], briefs)

    @ddt.data(True, False)
    def test_collapse_promotes(self, durable: bool) -> None:
        report = self.service.promote(self.context, 's1', durable)
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

    def test_decision_stands_if_the_state_of_a_volume_cannot_be_restored(self) -> None:
        volume = self.back.volumes['vol-1']
        volume.status = 'detaching'
        volume.conditional_update.side_effect = RuntimeError('the database is away')
        self.assertEqual('promoted', self.service.promote(self.context, 's1', True)['outcome'])

    def test_decision_is_not_made_twice_at_a_time(self) -> None:
        def repeat() -> None:
            self.assertRaises(exception.SuperpositionPending, self.service.promote,
                              self.context, 's1', True)
        self.worker.hooks['collapse'] = repeat
        self.service.promote(self.context, 's1', True)
        self.assertEqual(1, self.worker.methods().count('collapse'))
        self.assertEqual(['collapse.start', 'collapse.end'], self.back.events())
        self.assertEqual(set(), self.service.backend.deciding)

    @ddt.data('dirty', 'late-dirty')
    def test_dirty_collapse_removes_the_note(self, outcome: str) -> None:
        self.worker.outcome = outcome
        self.assertEqual(outcome, self.service.promote(self.context, 's1', False)['outcome'])
        self.assertEqual({}, self.back.notes)

    def test_decision_waits_for_no_notification(self) -> None:
        go, sent = threading.Event(), list[str]()
        self.addCleanup(go.set)

        def emit(_ctxt: Any, _host: str, event: str, _view: object, **_more: object) -> None:
            self.assertTrue(go.wait(base.SECONDS))
            sent.append(event)
        self.useFixture(fixtures.MockPatchObject(notifications, 'emit', emit))
        self.service.backend.notices = threads.Threads(1)
        self.assertEqual('promoted', self.service.promote(self.context, 's1', True)['outcome'])
        self.assertEqual([], sent)
        go.set()
        # The events of the merge follow.
        self.until(lambda: len(sent) >= 2)
        self.assertEqual(['superposition.collapse.start', 'superposition.collapse.end'], sent[:2])

    def test_refused_collapse_changes_nothing(self) -> None:
        self.worker.fail['collapse'] = exception.SuperpositionConflict('an overlay is open')
        self.assertRaises(exception.SuperpositionConflict, self.service.promote, self.context,
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
        self.assertEqual({'dirty': True, 'unproven': False, 'first': 'object 7', 'objects': 3,
                          'seconds': 0.25},
                         self.service.check(self.context, 's1'))


@ddt.ddt
class ReadTest(base.ServiceTestCase):

    def test_list_reads_no_details(self) -> None:
        self.create()
        self.worker.calls.clear()
        self.assertEqual(['s1'], [each['id'] for each in self.service.list(self.context)])
        self.assertEqual(['list'], self.worker.methods())

    def test_superposition_that_cinder_did_not_create_is_listed(self) -> None:
        self.worker.add('s9', 'superposed', {})
        (view,) = self.service.list(self.context)
        self.assertEqual(([base.HOST], base.HOST, ['other'], None),
                         (view['members'], view['lead'],
                          [volume['id'] for volume in view['volumes']], view['project_id']))

    def test_eligibility_has_reasons(self) -> None:
        for changes in ({}, {'multiattach': True}):
            self.back.add_volume(base.HOST, **changes)
        good, bad = self.service.eligibility(self.context, ['vol-1', 'vol-2'])
        self.assertEqual({'volume_id': 'vol-1', 'eligible': True, 'reasons': [],
                          'fenceable': True, 'movable': True, 'cluster': 'fsid/cinder'}, good)
        self.assertEqual(('vol-2', False, 1),
                         (bad['volume_id'], bad['eligible'], len(bad['reasons'])))

    @ddt.data(('detaching', False), ('error_extending', False), ('backing-up', True),
              ('uploading', True))
    @ddt.unpack
    def test_volume_is_restored_by_a_promotion(self, status: str, read: bool) -> None:
        wanted = self.back.add_volume(base.HOST, status=status)
        [answer] = self.service.eligibility(self.context, ['vol-1'])
        self.assertEqual((True, True), (answer['eligible'], answer['movable']))
        self.create(wanted)
        [images] = [call['read'] for method, call in self.worker.calls if method == 'super']
        # The client of a job is fenced with the primary.
        self.assertEqual(['volume-vol-1'] if read else [], images)
        restored = self.back.volumes['vol-1'].conditional_update
        # If the primary lives, its host or the job goes on.
        restored.assert_not_called()
        self.service.promote(self.context, 's1', True)
        restored.assert_called_once_with(
            {'status': 'in-use', 'attach_status': 'attached'},
            {'status': status, 'attach_status': 'attached'})

    @ddt.data({'status': 'maintenance'}, {'status': 'extending'}, {'status': 'retyping'},
              {'migration_status': 'migrating'}, {'multiattach': True}, 'superposed', 'snapshot')
    def test_every_reason_of_a_refusal_is_known_beforehand(self, obstacle: Any) -> None:
        wanted = self.back.add_volume(base.HOST, **obstacle if isinstance(obstacle, dict) else {})
        if obstacle == 'superposed':
            self.back.notes['vol-1'] = 's0'
        elif obstacle == 'snapshot':
            self.back.under_way.append('snapshot 7 is creating')
        [answer] = self.service.eligibility(self.context, ['vol-1'])
        error = self.assertRaises(exception.SuperpositionConflict, self.create, wanted)
        self.assertEqual((False, 1), (answer['eligible'], len(answer['reasons'])))
        self.assertEqual('status' not in obstacle, answer['movable'])
        # The error has the volume in place of the pronoun.
        self.assertIn(answer['reasons'][0].partition(' ')[2], error.msg)

    def test_connection_of_each_volume_is_returned(self) -> None:
        self.create()
        self.back.drivers[base.HOST].child_connection.return_value = {'driver_volume_type': 'x'}
        self.assertEqual([{'volume_id': 'vol-1', 'driver_volume_type': 'x'}],
                         self.service.connection(self.context, 's1', {'host': 'h'}))
        driver = self.back.drivers[base.HOST]
        volume, connector, superposition = driver.child_connection.call_args.args
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
        self.back.add_volume(base.HOST)
        current = self.back.drivers[base.HOST].current_connection
        current.return_value = {'data': 1}
        self.assertEqual({'data': 1}, self.service.current_connection(
            self.context, 'vol-1', {}, hand_out))
        current.assert_called_once_with(self.back.volumes['vol-1'], {}, hand_out=hand_out)


class DirtyTest(base.ServiceTestCase):

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
