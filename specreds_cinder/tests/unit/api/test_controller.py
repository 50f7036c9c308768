# SPDX-License-Identifier: Apache-2.0
"""The REST resource, through Cinder's own routing and policies."""

import datetime
from typing import Any
from urllib import parse

import ddt
from oslo_utils import fixture as utils_fixture
from oslo_utils import timeutils

from specreds_cinder import exception
from specreds_cinder import hints
from specreds_cinder.tests.unit.api import base

_DOWN = timeutils.utcnow().replace(year=2020)
_MEMBER = f'{base.BASE}/{base.ID}'
_PROMOTE = {'collapse': {'decision': 'promote'}}
_ABORT = {'collapse': {'decision': 'abort'}}


class TestRead(base.APITestCase):

    def test_show_returns_all_fields(self) -> None:
        self.superposed()
        superposition = self.done(200, 'GET', _MEMBER)['superposition']
        self.assertEqual(('superposed', [base.VOLUME], 1 << 20, 61.5, [base.HOST], []),
                         (superposition['state'], superposition['volume_ids'],
                          superposition['overlay_bytes'], superposition['age_seconds'],
                          superposition['hosts'], superposition['unreachable_hosts']))
        self.assertEqual([{'id': base.VOLUME, 'size_bytes': base.GIB, 'overlay_bytes': 1 << 20}],
                         superposition['volumes'])

    def test_reader_sees_no_hosts(self) -> None:
        self.superposed()
        superposition = self.done(200, 'GET', _MEMBER, ctxt=base.caller('reader'))['superposition']
        self.assertNotIn('hosts', superposition)
        self.assertNotIn('unreachable_hosts', superposition)

    def test_other_project_gets_404_on_each_request(self) -> None:
        self.superposed()
        others = base.caller('member', base.OTHER_PROJECT)
        for request in (('GET', _MEMBER), ('DELETE', _MEMBER), ('POST', f'{_MEMBER}/check'),
                        ('POST', f'{_MEMBER}/collapse', _ABORT)):
            self.assertIn(base.ID, self.refused(404, *request, ctxt=others))
        self.rpc.abort.assert_not_called()

    def test_unknown_id_returns_404(self) -> None:
        for name in (base.UNKNOWN_ID, 'x', 'ä', '%00', 'new'):
            answer = self.ask('GET', f'{base.BASE}/{parse.quote(name)}')
            self.assertEqual(404, answer.status, answer.body)
        self.rpc.get.assert_not_called()

    def test_stale_note_returns_404(self) -> None:
        self.superposed()
        self.rpc.get.side_effect = exception.SuperpositionNotFound('gone')
        self.refused(404, 'GET', _MEMBER)

    def test_service_that_is_down_is_not_asked(self) -> None:
        self.service(created_at=_DOWN, updated_at=_DOWN)
        self.volume(superposition=base.ID)
        messages = self.messages('get')
        superposition = self.done(200, 'GET', _MEMBER)['superposition']
        self.assertEqual(('unknown', [base.VOLUME], None, [base.HOST]),
                         (superposition['state'], superposition['volume_ids'],
                          superposition['overlay_bytes'], superposition['unreachable_hosts']))
        messages.prepare.assert_not_called()

    def test_only_a_look_measures_overlays(self) -> None:
        self.superposed()
        self.done(200, 'GET', _MEMBER)
        self.done(200, 'POST', f'{_MEMBER}/check')
        self.assertEqual([False, True], [call.kwargs['brief']
                                         for call in self.rpc.get.call_args_list])

    def test_unknown_state_cannot_be_decided(self) -> None:
        self.superposed()
        self.rpc.get.side_effect = exception.SuperpositionUnavailable('no answer')
        self.assertIn('unknown', self.refused(503, 'POST', f'{_MEMBER}/collapse', _PROMOTE))
        self.rpc.collapse.assert_not_called()

    def test_parts_on_several_back_ends_are_joined(self) -> None:
        members = [base.HOST, base.OTHER_HOST]
        self.service()
        self.service(base.OTHER_HOST)
        self.volume(superposition=base.ID)
        self.volume(base.SECOND, host=base.OTHER_HOST, superposition=base.ID)
        views = {base.HOST: base.view(members=members),
                 base.OTHER_HOST: base.view(volume_ids=(base.SECOND,), members=members,
                                            host=base.OTHER_HOST, dirty=True,
                                            dirty_object='rbd_data.1')}
        self.rpc.get.side_effect = lambda _ctxt, host, _id, brief: views[host]
        superposition = self.done(200, 'GET', _MEMBER)['superposition']
        self.assertEqual(({base.VOLUME, base.SECOND}, 2 << 20, True, 'rbd_data.1', members),
                         (set(superposition['volume_ids']), superposition['overlay_bytes'],
                          superposition['dirty'], superposition['dirty_object'],
                          superposition['hosts']))


@ddt.ddt
class TestList(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.service()
        self.service(base.OTHER_HOST)
        self.volume(superposition=base.ID)
        self.volume(base.SECOND, host=base.OTHER_HOST, superposition=base.OTHER_ID)
        self.views = {
            base.HOST: [base.view()],
            base.OTHER_HOST: [base.view(
                base.OTHER_ID, (base.SECOND,), host=base.OTHER_HOST, lead=base.OTHER_HOST,
                members=[base.OTHER_HOST], created_at='2026-01-02T03:04:04Z', server_id=None,
                state='promoted')]}
        self.rpc.list.side_effect = lambda _ctxt, host: self.views[host]
        self.rpc.get.side_effect = lambda _ctxt, host, _id, brief: self.views[host][0]

    def ids(self, query: str = '', **how: Any) -> list[str]:
        return [each['id'] for each in
                self.done(200, 'GET', f'{base.BASE}{query}', **how)['superpositions']]

    def test_list_is_ordered_by_creation(self) -> None:
        answer = self.done(200, 'GET', base.BASE)
        self.assertEqual([base.OTHER_ID, base.ID],
                         [each['id'] for each in answer['superpositions']])
        self.assertEqual({'id', 'state', 'volume_ids', 'disks', 'server_id', 'project_id',
                          'created_at'},
                         set(answer['superpositions'][0]))
        self.assertEqual([], answer['unreachable_hosts'])
        self.assertNotIn('superpositions_links', answer)

    def test_back_end_without_notes_is_not_asked(self) -> None:
        hints.remove([base.VOLUME], base.ID)
        self.assertEqual([base.OTHER_ID], self.ids())
        self.rpc.list.assert_called_once()

    @ddt.data(('state=promoted', [base.OTHER_ID]), ('state=merging', []),
              (f'server_id={base.SERVER}', [base.ID]), (f'volume_id={base.SECOND}',
                                                        [base.OTHER_ID]),
              (f'volume_id={base.SECOND}&state=superposed', []), ('limit=1', [base.OTHER_ID]),
              (f'marker={base.OTHER_ID}', [base.ID]), (f'marker={base.ID}', []))
    @ddt.unpack
    def test_filter_selects(self, query: str, expected: list[str]) -> None:
        self.assertEqual(expected, self.ids(f'?{query}'))

    @ddt.data('state=gone', 'server_id=x', 'all_tenants=yes', 'limit=-1', 'limit=x', 'colour=red',
              'marker=x', f'marker={base.UNKNOWN_ID}', 'limit=1&limit=2',
              f'volume_id={base.VOLUME}%0A')
    def test_malformed_query_returns_400(self, query: str) -> None:
        self.refused(400, 'GET', f'{base.BASE}?{query}')
        self.refused(400, 'GET', f'{base.BASE}/detail?{query}')

    @ddt.data('', '/detail')
    def test_links_lead_through_all_pages(self, path: str) -> None:
        answer = self.done(200, 'GET', f'{base.BASE}{path}?limit=1&server_id={base.SERVER}')
        self.assertNotIn('superpositions_links', answer)
        seen, url = [], f'{base.BASE}{path}?limit=1'
        while url:
            answer = self.done(200, 'GET', url)
            seen += [each['id'] for each in answer['superpositions']]
            (link,) = answer.get('superpositions_links', [{'href': ''}])
            url = link['href'].partition(f'/v3/{base.PROJECT}')[2]
        self.assertEqual([base.OTHER_ID, base.ID], seen)

    def test_detail_has_sizes_of_overlays(self) -> None:
        superpositions = self.done(200, 'GET', f'{base.BASE}/detail')['superpositions']
        self.assertEqual([1 << 20, 1 << 20], [each['overlay_bytes'] for each in superpositions])

    def test_detail_keeps_a_superposition_that_ends_meanwhile(self) -> None:
        self.rpc.get.side_effect = exception.SuperpositionNotFound('gone')
        superpositions = self.done(200, 'GET', f'{base.BASE}/detail')['superpositions']
        self.assertEqual([base.OTHER_ID, base.ID], [each['id'] for each in superpositions])

    def test_list_is_limited_to_the_project(self) -> None:
        self.views[base.HOST][0]['project_id'] = base.OTHER_PROJECT
        self.assertEqual([base.OTHER_ID], self.ids(ctxt=base.caller('reader')))
        self.assertEqual([base.OTHER_ID], self.ids())
        self.assertEqual([base.OTHER_ID, base.ID], self.ids('?all_tenants=1'))
        self.assertEqual([base.OTHER_ID, base.ID],
                         self.ids('?all_tenants=1', ctxt=base.caller('service')))
        self.refused(403, 'GET', f'{base.BASE}?all_tenants=1', ctxt=base.caller('member'))

    def test_token_of_the_system_is_refused(self) -> None:
        ctxt = base.caller()
        ctxt.system_scope = 'all'
        self.refused(403, 'GET', f'{base.BASE}?all_tenants=1', ctxt=ctxt)
        self.refused(404, 'GET', f'{base.BASE}/{base.ID}', ctxt=ctxt)

    def test_state_is_unknown_where_a_back_end_does_not_answer(self) -> None:
        def listed(_ctxt: Any, host: str) -> Any:
            if host == base.HOST:
                raise exception.SuperpositionUnavailable('no answer')
            return self.views[host]
        self.rpc.list.side_effect = listed
        answer = self.done(200, 'GET', base.BASE)
        self.assertEqual({base.OTHER_ID: 'promoted', base.ID: 'unknown'},
                         {each['id']: each['state'] for each in answer['superpositions']})
        self.assertEqual([base.HOST], answer['unreachable_hosts'])
        answer = self.done(200, 'GET', base.BASE, ctxt=base.caller('reader'))
        self.assertEqual(2, len(answer['superpositions']))
        self.assertNotIn('unreachable_hosts', answer)


class TestCreate(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.service()
        self.volume()
        self.rpc.create.side_effect = lambda _ctxt, superposition_id, volumes, *_more: base.view(
            superposition_id, tuple(volume.id for volume in volumes), durations={'storage': 0.1})

    def created(self, **request: Any) -> Any:
        return self.done(201, 'POST', base.BASE, {'superposition': request})['superposition']

    def test_named_volumes_are_superposed(self) -> None:
        superposition = self.created(volume_ids=[base.VOLUME], server_id=None, reason='why')
        self.assertEqual([base.VOLUME], superposition['volume_ids'])
        self.assertEqual({'rpc', 'storage'}, set(superposition['durations']))
        _ctxt, superposition_id, volumes, server_id, reason = self.rpc.create.call_args.args
        self.assertEqual((superposition['id'], [base.VOLUME], None, 'why'),
                         (superposition_id, [volume.id for volume in volumes], server_id, reason))

    def test_service_role_may_create_for_another_project(self) -> None:
        body = {'superposition': {'volume_ids': [base.VOLUME]}}
        self.done(201, 'POST', base.BASE, body,
                  ctxt=base.caller('service', base.OTHER_PROJECT))

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
            self.assertEqual((status, {kind: {'code': status, 'message': error.msg}}),
                             (answer.status, answer.body))
            self.assertEqual('superposition 1.0', answer.headers[base.HEADER])


@ddt.ddt
class TestDecide(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.superposed()

    def test_check_returns_the_report(self) -> None:
        report = {'dirty': False, 'first': None, 'objects': 7, 'seconds': 0.1}
        self.rpc.check.return_value = report
        bodies: tuple[Any, ...] = (None, {})
        for body in bodies:
            self.assertEqual(report, self.done(200, 'POST', f'{_MEMBER}/check', body)['check'])
        self.refused(400, 'POST', f'{_MEMBER}/check', {'deep': True})

    def test_promote_returns_outcome_and_durations(self) -> None:
        self.rpc.collapse.return_value = {'outcome': 'promoted', 'durations': {'total': 0.2}}
        body = {'collapse': {'decision': 'promote', 'backup_durable': True}}
        answer = self.done(200, 'POST', f'{_MEMBER}/collapse', body)['collapse']
        self.assertEqual(('promoted', 0.2, {'total', 'rpc'}), (
            answer['outcome'], answer['durations']['total'], set(answer['durations'])))
        self.assertEqual((base.HOST, base.ID, True), self.rpc.collapse.call_args.args[1:])
        self.done(200, 'POST', f'{_MEMBER}/collapse', _PROMOTE)
        self.assertEqual((base.HOST, base.ID, False), self.rpc.collapse.call_args.args[1:])

    def test_pending_decision_returns_202(self) -> None:
        self.rpc.collapse.side_effect = exception.SuperpositionPending('goes on')
        self.rpc.get.side_effect = [base.view(), base.view(state='collapsing')]
        self.assertEqual({'collapse': {'outcome': None, 'state': 'collapsing'}},
                         self.done(202, 'POST', f'{_MEMBER}/collapse', _PROMOTE))
        self.rpc.get.side_effect = [base.view(), exception.SuperpositionNotFound('gone')]
        self.assertEqual({'collapse': {'outcome': None, 'state': 'superposed'}},
                         self.done(202, 'POST', f'{_MEMBER}/collapse', _PROMOTE))

    def test_abort_reaches_the_back_end(self) -> None:
        answer = self.done(200, 'POST', f'{_MEMBER}/collapse', _ABORT)['collapse']
        self.assertEqual('aborted', answer['outcome'])
        self.assertEqual((base.HOST, base.ID), self.rpc.abort.call_args.args[1:])

    def test_conflicting_decision_returns_409(self) -> None:
        self.rpc.collapse.side_effect = exception.SuperpositionConflict(
            'it is aborting', state='aborting')
        self.assertIn('aborting', self.refused(409, 'POST', f'{_MEMBER}/collapse', _PROMOTE))

    def test_delete_aborts(self) -> None:
        self.assertEqual('', self.done(204, 'DELETE', _MEMBER))
        self.assertEqual((base.HOST, base.ID), self.rpc.abort.call_args.args[1:])
        self.rpc.abort.side_effect = exception.SuperpositionPending('goes on')
        self.done(202, 'DELETE', _MEMBER)

    @ddt.data('begin', 'end', 'offline')
    def test_each_step_of_a_merge_reaches_the_back_end(self, step: str) -> None:
        self.done(202, 'POST', f'{_MEMBER}/merge', {'merge': {'step': step}})
        self.assertEqual(((base.HOST,), base.ID, step), self.rpc.merge.call_args.args[1:])

    def test_connection_is_returned(self) -> None:
        connections = [{'volume_id': base.VOLUME, 'driver_volume_type': 'rbd_super', 'data': {}}]
        self.rpc.connection.return_value = connections
        connector = {'host': 'node3', 'ip': '10.0.0.3'}
        self.assertEqual({'connections': connections}, self.done(
            200, 'POST', f'{_MEMBER}/connection', {'connector': connector}))
        self.assertEqual((base.HOST, base.ID, connector), self.rpc.connection.call_args.args[1:])

    @ddt.data(('check', None), ('collapse', _PROMOTE), ('collapse', _ABORT),
              ('merge', {'merge': {'step': 'end'}}), ('connection', {'connector': {'ip': '1'}}))
    @ddt.unpack
    def test_member_may_not_decide(self, action: str, body: Any) -> None:
        self.refused(403, 'POST', f'{_MEMBER}/{action}', body, ctxt=base.caller('member'))
        self.refused(403, 'DELETE', _MEMBER, ctxt=base.caller('member'))
        self.assertEqual(0, sum(getattr(self.rpc, name).call_count for name in (
            'check', 'collapse', 'abort', 'merge', 'connection')))

    @ddt.data(b'', b'{', b'[]', b'null', b'{"collapse": null}', b'{"collapse": {}}',
              b'{"collapse": {"decision": "both"}}', b'{"collapse": {"decision": ["abort"]}}',
              b'{"collapse": {"decision": "abort", "backup_durable": "yes"}}',
              b'{"collapse": {"decision": "abort"}, "more": 1}',
              b'{"collapse": {"decision": "abort", "force": true}}')
    def test_malformed_body_returns_400(self, body: bytes) -> None:
        self.refused(400, 'POST', f'{_MEMBER}/collapse', body)


class TestEligibility(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.service()
        self.volume()
        self.volume(base.SECOND, host=base.OTHER_HOST)
        self.messages('eligibility').prepare.return_value.call.side_effect = (
            lambda _ctxt, _method, volume_ids: {'result': [
                {'volume_id': volume_id, 'eligible': True, 'reasons': []}
                for volume_id in volume_ids]})

    def test_answers_are_in_the_order_of_the_query(self) -> None:
        path = f'{base.BASE}/eligibility?volume_id={base.SECOND}&volume_id={base.VOLUME}'
        second, first = self.done(200, 'GET', path, ctxt=base.caller('reader'))['eligibility']
        self.assertEqual({'volume_id': base.VOLUME, 'eligible': True, 'reasons': []}, first)
        self.assertEqual((base.SECOND, False), (second['volume_id'], second['eligible']))
        self.assertIn(f'{base.OTHER_HOST} is down', second['reasons'][0])

    def test_other_project_needs_the_service_role(self) -> None:
        path = f'{base.BASE}/eligibility?volume_id={base.VOLUME}'
        self.refused(404, 'GET', path, ctxt=base.caller('member', base.OTHER_PROJECT))
        self.done(200, 'GET', path, ctxt=base.caller('service', base.OTHER_PROJECT))

    def test_malformed_query_returns_400(self) -> None:
        for query in ('', '?volume_id=x', f'?volume_id={base.VOLUME}&volume_id={base.VOLUME}',
                      f'?volume_id={base.VOLUME}&more=1'):
            self.refused(400, 'GET', f'{base.BASE}/eligibility{query}')


class ReleaseTest(base.APITestCase):

    def release(self, **changes: Any) -> dict[str, Any]:
        """Return the body of a request."""
        return {'release': {'boots': [{'addresses': ['192.0.2.1'], 'age_seconds': 3600,
                                       **changes}]}}

    def test_time_of_a_boot_is_that_of_cinders_clock(self) -> None:
        self.service(base.HOST)
        self.rpc.release_booted.return_value = []
        self.useFixture(utils_fixture.TimeFixture(
            datetime.datetime(2026, 11, 24, 10, tzinfo=datetime.UTC)))
        self.done(200, 'POST', f'{base.BASE}/release', self.release())
        self.assertEqual([{'addresses': ['192.0.2.1'], 'booted_at': '2026-11-24T09:00:00+00:00'}],
                         self.rpc.release_booted.call_args.args[2])

    def test_every_back_end_releases_clients(self) -> None:
        for host in (base.HOST, base.OTHER_HOST, 'compute@lvm'):
            self.service(host)
        self.rpc.release_booted.side_effect = [
            ['192.0.2.1:0/2'], exception.SuperpositionInvalid('no'), ['192.0.2.1:0/1']]
        answer = self.done(200, 'POST', f'{base.BASE}/release', self.release())
        self.assertEqual(['192.0.2.1:0/1', '192.0.2.1:0/2'], answer['release']['clients'])

    def test_silent_back_end_does_not_keep_others_from_releasing(self) -> None:
        self.service(base.HOST)
        self.service(base.OTHER_HOST)
        self.rpc.release_booted.side_effect = [exception.SuperpositionUnavailable('down'), []]
        self.refused(503, 'POST', f'{base.BASE}/release', self.release())
        self.assertEqual(2, self.rpc.release_booted.call_count)

    def test_only_admins_and_services_may_release(self) -> None:
        self.refused(403, 'POST', f'{base.BASE}/release', self.release(),
                     ctxt=base.caller('member'))

    def test_malformed_request_returns_400(self) -> None:
        malformed: list[dict[str, Any]] = [
            {'addresses': ['compute-1']}, {'addresses': ['1.2.3.4.5']}, {'age_seconds': -1},
            {'age_seconds': 0.5}, {'age_seconds': '3600'}, {'age_seconds': float('inf')},
            {'age_seconds': float('nan')}, {'age_seconds': 1 << 40},
            {'booted_at': '2026-11-24T09:00:00+00:00'}, {'more': 1}]
        for changes in malformed:
            self.refused(400, 'POST', f'{base.BASE}/release', self.release(**changes))
        self.rpc.release_booted.assert_not_called()


class FenceTest(base.APITestCase):

    def fence(self, step: str = 'close', **changes: Any) -> dict[str, Any]:
        """Return the body of a request."""
        return {'fence': {'fence_id': base.ID, 'host': 'compute-1', 'step': step,
                          'volume_ids': [base.VOLUME], **changes}}

    def setUp(self) -> None:
        super().setUp()
        self.volume()
        self.rpc.fence_host.return_value = [{'volume_id': base.VOLUME, 'clients': 1}]

    def test_all_back_ends_observe_before_one_fences(self) -> None:
        self.volume(base.SECOND, host=base.OTHER_HOST)
        self.rpc.fence_observe.side_effect = [None, exception.SuperpositionInvalid('no')]
        self.refused(400, 'POST', f'{base.BASE}/fence', self.fence(
            volume_ids=[base.VOLUME, base.SECOND]))
        self.assertEqual(2, self.rpc.fence_observe.call_count)
        self.rpc.fence_host.assert_not_called()

    def test_observation_fences_no_client(self) -> None:
        self.assertEqual({'fence_id': base.ID, 'host': 'compute-1', 'step': 'observe',
                          'volumes': None},
                         self.done(200, 'POST', f'{base.BASE}/fence',
                                   self.fence('observe'))['fence'])
        self.rpc.fence_host.assert_not_called()

    def test_only_admins_and_services_may_fence(self) -> None:
        self.refused(403, 'POST', f'{base.BASE}/fence', self.fence(),
                     ctxt=base.caller('member'))
        self.done(200, 'POST', f'{base.BASE}/fence', self.fence(),
                  ctxt=base.caller('service', base.OTHER_PROJECT))

    def test_malformed_request_returns_400(self) -> None:
        malformed: list[dict[str, Any]] = [{'host': ''}, {'volume_ids': []}, {'step': 'open'},
                                           {'more': 1}]
        for changes in malformed:
            self.refused(400, 'POST', f'{base.BASE}/fence', self.fence(**changes))
