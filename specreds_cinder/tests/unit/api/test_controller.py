# SPDX-License-Identifier: Apache-2.0
"""Superpositions are created and decided, through Cinder's own routing and policies."""

from typing import Any

import ddt
import oslo_messaging as messaging

from specreds_cinder import exception
from specreds_cinder.service import rpcapi
from specreds_cinder.tests.unit.api import base

_PROMOTE = {'collapse': {'decision': 'promote'}}
_ABORT = {'collapse': {'decision': 'abort'}}


class TestCreate(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.service()
        self.volume()
        self.rpc.create.side_effect = self.create

    @staticmethod
    def create(_ctxt: Any, _host: str, superposition_id: str, volumes: Any, **_more: Any) -> Any:
        """Return what the back end of the volumes returns."""
        return base.view(superposition_id, tuple(volume['id'] for volume in volumes),
                         durations={'storage': 0.1})

    def created(self, **request: Any) -> Any:
        return self.done(201, 'POST', base.BASE, {'superposition': request})['superposition']

    def test_named_volumes_are_superposed(self) -> None:
        superposition = self.created(volume_ids=[base.VOLUME], server_id=None, reason='why')
        self.assertEqual([base.VOLUME], superposition['volume_ids'])
        self.assertEqual({'rpc', 'storage'}, set(superposition['durations']))
        self.assertEqual(base.HOST, self.rpc.create.call_args.args[1])
        self.assertEqual({
            'superposition_id': superposition['id'], 'server_id': None, 'reason': 'why',
            'volumes': [{'id': base.VOLUME, 'host': base.HOST}], 'disks': []},
            self.rpc.create.call_args.kwargs)

    def test_dead_host_is_named_by_whoever_may_fence(self) -> None:
        self.created(volume_ids=[base.VOLUME], dead_host='node7')
        self.assertEqual('node7', self.rpc.create.call_args.kwargs['dead_host'])

    def test_role_of_the_engine_creates_for_another_project(self) -> None:
        body = {'superposition': {'volume_ids': [base.VOLUME]}}
        self.refused(404, 'POST', base.BASE, body,
                     ctxt=base.caller('service', base.OTHER_PROJECT))
        self.done(201, 'POST', base.BASE, body,
                  ctxt=base.caller('specreds', base.OTHER_PROJECT))

    def test_member_may_not_create(self) -> None:
        body = {'superposition': {'volume_ids': [base.VOLUME]}}
        self.refused(403, 'POST', base.BASE, body, ctxt=base.caller('member'))
        self.refused(404, 'POST', base.BASE, body,
                     ctxt=base.caller('member', base.OTHER_PROJECT))
        self.rpc.create.assert_not_called()

    def test_server_stands_for_its_attached_volumes(self) -> None:
        self.volume(base.SECOND)
        self.volume(base.UNKNOWN_ID)
        for volume_id in (base.SECOND, base.VOLUME):
            self.attach(volume_id)
        self.attach(base.UNKNOWN_ID, attach_status='reserved')
        self.assertEqual([base.VOLUME, base.SECOND],
                         self.created(server_id=base.SERVER)['volume_ids'])
        self.assertEqual([base.SECOND], self.created(
            server_id=base.SERVER, volume_ids=[base.SECOND])['volume_ids'])

    def test_volume_that_is_not_of_the_server_returns_400(self) -> None:
        body: dict[str, Any] = {'superposition': {'server_id': base.SERVER}}
        self.assertIn('no volumes', self.refused(400, 'POST', base.BASE, body))
        body['superposition']['volume_ids'] = [base.VOLUME]
        self.assertIn(base.VOLUME, self.refused(400, 'POST', base.BASE, body))

    def test_volumes_of_several_projects_return_400(self) -> None:
        self.volume(base.SECOND, project_id=base.OTHER_PROJECT)
        body = {'superposition': {'volume_ids': [base.VOLUME, base.SECOND]}}
        self.assertIn('projects', self.refused(400, 'POST', base.BASE, body))

    def test_unknown_volume_returns_404(self) -> None:
        body = {'superposition': {'volume_ids': [base.UNKNOWN_ID]}}
        self.assertIn(base.UNKNOWN_ID, self.refused(404, 'POST', base.BASE, body))

    def test_error_of_the_back_end_has_its_status(self) -> None:
        body = {'superposition': {'volume_ids': [base.VOLUME]}}
        for error, status, kind in (
                (exception.VolumesNotEligible('it is encrypted'), 409, 'conflictingRequest'),
                (exception.SuperpositionInvalid('no such back end'), 400, 'badRequest'),
                (exception.SuperpositionUnavailable('no answer'), 503, 'serviceUnavailable'),
                (exception.SuperpositionError('its log says why'), 500, 'computeFault')):
            self.rpc.create.side_effect = error
            answer = self.ask('POST', base.BASE, body)
            code = {} if error.error_code is None else {'error_code': error.error_code}
            self.assertEqual((status, {kind: {'code': status, 'message': error.msg, **code}}),
                             (answer.status, answer.body))
            self.assertEqual('superposition 1.0', answer.headers[base.HEADER])


@ddt.ddt
class TestDecide(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.superposed()

    def test_check_returns_the_report(self) -> None:
        bodies: tuple[Any, ...] = (None, {})
        for unproven, first in ((False, None), (True, 'merged')):
            report = {'dirty': False, 'unproven': unproven, 'first': first, 'objects': 7,
                      'seconds': 0.1}
            self.rpc.check.return_value = report
            for body in bodies:
                self.assertEqual(report, self.done(
                    200, 'POST', f'{base.MEMBER}/check', body)['check'])
        self.refused(400, 'POST', f'{base.MEMBER}/check', {'deep': True})

    def test_promotion_of_what_is_unproven_returns_that(self) -> None:
        self.rpc.promote.return_value = {'outcome': 'unproven', 'durations': {'total': 0.2}}
        body = {'collapse': {'decision': 'promote', 'backup_durable': True}}
        self.assertEqual('unproven', self.done(
            200, 'POST', f'{base.MEMBER}/collapse', body)['collapse']['outcome'])

    def test_promote_returns_outcome_and_durations(self) -> None:
        self.rpc.promote.return_value = {'outcome': 'promoted', 'durations': {'total': 0.2}}
        body = {'collapse': {'decision': 'promote', 'backup_durable': True}}
        answer = self.done(200, 'POST', f'{base.MEMBER}/collapse', body)['collapse']
        self.assertEqual(('promoted', 0.2, {'total', 'rpc'}), (
            answer['outcome'], answer['durations']['total'], set(answer['durations'])))
        self.assertEqual(base.HOST, self.rpc.promote.call_args.args[1])
        self.assertEqual({'superposition_id': base.ID, 'durable': True},
                         self.rpc.promote.call_args.kwargs)
        self.done(200, 'POST', f'{base.MEMBER}/collapse', _PROMOTE)
        self.assertFalse(self.rpc.promote.call_args.kwargs['durable'])

    @ddt.data(exception.SuperpositionPending('goes on'), rpcapi.TookTooLong('no answer'))
    def test_pending_decision_returns_202(self, error: Exception) -> None:
        self.rpc.promote.side_effect = error
        self.rpc.get.side_effect = [base.view(), base.view(state='collapsing')]
        self.assertEqual({'collapse': {'outcome': None, 'state': 'collapsing'}},
                         self.done(202, 'POST', f'{base.MEMBER}/collapse', _PROMOTE))
        self.rpc.get.side_effect = [base.view(), exception.SuperpositionNotFound('gone')]
        self.assertEqual({'collapse': {'outcome': None, 'state': 'superposed'}},
                         self.done(202, 'POST', f'{base.MEMBER}/collapse', _PROMOTE))

    def test_unknown_state_cannot_be_decided(self) -> None:
        self.rpc.get.side_effect = exception.SuperpositionUnavailable('no answer')
        self.assertIn('unknown', self.refused(503, 'POST', f'{base.MEMBER}/collapse', _PROMOTE))
        self.rpc.promote.assert_not_called()

    def test_abort_reaches_the_back_end(self) -> None:
        answer = self.done(200, 'POST', f'{base.MEMBER}/collapse', _ABORT)['collapse']
        self.assertEqual('aborted', answer['outcome'])
        self.assert_aborted()

    def test_conflicting_decision_returns_409(self) -> None:
        self.rpc.promote.side_effect = exception.SuperpositionConflict(
            'it is aborting', state='aborting')
        self.assertIn('aborting', self.refused(409, 'POST', f'{base.MEMBER}/collapse', _PROMOTE))

    def test_delete_aborts(self) -> None:
        self.assertEqual('', self.done(204, 'DELETE', base.MEMBER))
        self.assert_aborted()
        for error in (exception.SuperpositionPending('goes on'), rpcapi.TookTooLong('no answer')):
            self.rpc.abort.side_effect = error
            self.done(202, 'DELETE', base.MEMBER)

    def assert_aborted(self) -> None:
        self.assertEqual((base.HOST, {'superposition_id': base.ID}), (
            self.rpc.abort.call_args.args[1], self.rpc.abort.call_args.kwargs))

    @ddt.data('begin', 'end', 'offline')
    def test_each_step_of_a_merge_reaches_the_back_end(self, step: str) -> None:
        self.done(202, 'POST', f'{base.MEMBER}/merge', {'merge': {'step': step}})
        self.assertEqual((base.HOST, {'superposition_id': base.ID, 'step': step}), (
            self.rpc.merge.call_args.args[1], self.rpc.merge.call_args.kwargs))

    def test_connection_is_returned(self) -> None:
        connections = [{'volume_id': base.VOLUME, 'driver_volume_type': 'rbd_super', 'data': {}}]
        self.rpc.connection.return_value = connections
        connector = {'host': 'node3', 'ip': '10.0.0.3'}
        self.assertEqual({'connections': connections}, self.done(
            200, 'POST', f'{base.MEMBER}/connection', {'connector': connector}))
        self.assertEqual((base.HOST, {'superposition_id': base.ID, 'connector': connector}), (
            self.rpc.connection.call_args.args[1], self.rpc.connection.call_args.kwargs))

    @ddt.data(('check', None), ('collapse', _PROMOTE), ('collapse', _ABORT),
              ('merge', {'merge': {'step': 'end'}}), ('connection', {'connector': {'ip': '1'}}))
    @ddt.unpack
    def test_member_may_not_decide(self, action: str, body: Any) -> None:
        self.refused(403, 'POST', f'{base.MEMBER}/{action}', body, ctxt=base.caller('member'))
        self.refused(403, 'DELETE', base.MEMBER, ctxt=base.caller('member'))
        self.assertEqual(0, sum(getattr(self.rpc, name).call_count for name in (
            'check', 'promote', 'abort', 'merge', 'connection')))

    @ddt.data(b'', b'{', b'[]', b'null', b'{"collapse": null}', b'{"collapse": {}}',
              b'{"collapse": {"decision": "both"}}', b'{"collapse": {"decision": ["abort"]}}',
              b'{"collapse": {"decision": "abort", "backup_durable": "yes"}}',
              b'{"collapse": {"decision": "abort"}, "more": 1}',
              b'{"collapse": {"decision": "abort", "force": true}}')
    def test_malformed_body_returns_400(self, body: bytes) -> None:
        self.refused(400, 'POST', f'{base.MEMBER}/collapse', body)


class TestEligibility(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.service()
        self.volume()
        self.volume(base.SECOND, host=base.OTHER_HOST)
        self.messages('eligibility').prepare.return_value.call.side_effect = (
            lambda _ctxt, _method, volume_ids: {'result': [
                {'volume_id': volume_id, 'eligible': True, 'reasons': [], 'cluster': 'fsid'}
                for volume_id in volume_ids]})

    def test_answers_are_in_the_order_of_the_query(self) -> None:
        path = f'{base.BASE}/eligibility?volume_id={base.SECOND}&volume_id={base.VOLUME}'
        second, first = self.done(200, 'GET', path, ctxt=base.caller('reader'))['eligibility']
        self.assertEqual({'volume_id': base.VOLUME, 'eligible': True, 'reasons': [],
                          'fenceable': True, 'movable': True}, first)
        self.assertEqual((base.SECOND, False), (second['volume_id'], second['eligible']))
        self.assertIn(f'{base.OTHER_HOST} is down', second['reasons'][0])

    def test_answers_say_of_what_a_host_can_be_shut_out(self) -> None:
        def fenceable(path: str) -> list[bool]:
            answer = self.done(200, 'GET', path)
            return [entry['fenceable'] for entry in answer['eligibility']]
        query = f'{base.BASE}/eligibility?volume_id={base.VOLUME}'
        # The other back end does not answer, which says nothing.
        self.assertEqual([True, True], fenceable(f'{query}&volume_id={base.SECOND}'))
        self.messages('eligibility').prepare.return_value.call.side_effect = (
            messaging.UnsupportedVersion('1.0'))
        self.assertEqual([False], fenceable(query))

    def test_host_to_be_shut_out_is_for_those_who_may_do_that(self) -> None:
        call = self.messages('eligibility').prepare.return_value.call
        call.side_effect = lambda _ctxt, _method, volume_ids, fenced_host: {'result': [
            {'volume_id': volume_id, 'eligible': True, 'reasons': [], 'fenceable': False,
             'movable': True, 'cluster': 'fsid'} for volume_id in volume_ids]}
        path = f'{base.BASE}/eligibility?volume_id={base.VOLUME}&host=h1'
        [answer] = self.done(200, 'GET', path)['eligibility']
        self.assertEqual((False, True, 'fsid'), (
            answer['fenceable'], answer['movable'], answer['cluster']))
        self.assertEqual('h1', call.call_args.kwargs['fenced_host'])
        self.refused(403, 'GET', path, ctxt=base.caller('member'))

    def test_other_project_needs_a_role_for_all_projects(self) -> None:
        path = f'{base.BASE}/eligibility?volume_id={base.VOLUME}'
        self.refused(404, 'GET', path, ctxt=base.caller('member', base.OTHER_PROJECT))
        for role in ('specreds', 'service'):
            self.done(200, 'GET', path, ctxt=base.caller(role, base.OTHER_PROJECT))

    def test_malformed_query_returns_400(self) -> None:
        for query in ('', '?volume_id=x', f'?volume_id={base.VOLUME}&volume_id={base.VOLUME}',
                      f'?volume_id={base.VOLUME}&more=1'):
            self.refused(400, 'GET', f'{base.BASE}/eligibility{query}')
