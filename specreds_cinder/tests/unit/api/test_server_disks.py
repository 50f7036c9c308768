# SPDX-License-Identifier: Apache-2.0
"""Requests for superpositions of disks that Nova keeps in RBD."""

from typing import Any

import ddt

from specreds_cinder import exception
from specreds_cinder.tests.unit.api import base

_ROOT, _EPH = f'{base.SERVER}_disk', f'{base.SERVER}_disk.eph0'


class ServerDisksTestCase(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.service(base.OTHER_HOST)
        self.flags(group='specreds', server_disks_backend=base.OTHER_HOST)

    def part(self, **changes: Any) -> dict[str, Any]:
        """Return a superposition of a disk as its back end describes it."""
        return base.view(volume_ids=(_ROOT,), host=base.OTHER_HOST, **{
            'project_id': None, 'members': [base.OTHER_HOST], 'lead': base.OTHER_HOST, **changes})


@ddt.ddt
class CreateTest(ServerDisksTestCase):

    def created(self, **request: Any) -> Any:
        """Create a superposition, and return the message to the volume service."""
        self.rpc.create.return_value = self.part()
        answer = self.done(201, 'POST', base.BASE, {'superposition': {
            'server_id': base.SERVER, **request}})['superposition']
        self.assertEqual(([_ROOT], []), (answer['disks'], answer['volume_ids']))
        return self.rpc.create.call_args

    def test_disks_are_superposed_with_all_volumes_of_the_server(self) -> None:
        call = self.created(disks=['disk', 'disk.eph0'])
        self.assertEqual([], call.kwargs['volumes'])
        self.assertEqual([_ROOT, _EPH], [disk['id'] for disk in call.kwargs['disks']])
        self.service()
        self.volume()
        self.attach()
        call = self.created(disks=['disk'])
        self.assertEqual([base.VOLUME], [volume['id'] for volume in call.kwargs['volumes']])

    def test_message_names_the_back_end_of_disks(self) -> None:
        messages = self.messages('create')
        messages.prepare.return_value.call.return_value = {'result': self.part()}
        self.done(201, 'POST', base.BASE, {'superposition': {
            'server_id': base.SERVER, 'disks': ['disk']}})
        sent = messages.prepare.return_value.call.call_args.kwargs
        self.assertEqual(([], [{'id': _ROOT, 'host': base.OTHER_HOST}]),
                         (sent['volumes'], sent['disks']))

    @ddt.data({'disks': ['disk']}, {'server_id': None, 'disks': ['disk']},
              *({'server_id': base.SERVER, 'disks': disks} for disks in (
                  [], ['disk', 'disk'], ['disk.rescue'], ['disk.eph'], ['../disk'],
                  ['disk@snap'], ['disk\n'], [_ROOT], [1], 'disk')))
    def test_other_disks_return_400(self, request: dict[str, Any]) -> None:
        self.refused(400, 'POST', base.BASE, {'superposition': request})
        self.rpc.create.assert_not_called()

    def test_only_admins_and_engines_may_name_disks(self) -> None:
        body = {'superposition': {'server_id': base.SERVER, 'disks': ['disk']}}
        for request in (('POST', base.BASE, body),
                        ('GET', f'{base.BASE}/eligibility?disk={_ROOT}')):
            for role in ('member', 'service'):
                self.assertIn('superposition:server_disks', self.refused(
                    403, *request, ctxt=base.caller(role)))
        self.rpc.create.assert_not_called()
        self.rpc.create.return_value = self.part()
        self.done(201, 'POST', base.BASE, body, ctxt=base.caller('specreds'))

    def test_cloud_without_such_a_back_end_returns_400(self) -> None:
        self.flags(group='specreds', server_disks_backend='')
        self.messages('create')
        body = {'superposition': {'server_id': base.SERVER, 'disks': ['disk']}}
        self.assertIn('server_disks_backend', self.refused(400, 'POST', base.BASE, body))


class FenceTest(ServerDisksTestCase):

    def ask_fence(self, step: str, status: int = 200, **request: Any) -> Any:
        """Send a request for a fence, and return the answer."""
        answer = self.ask('POST', f'{base.BASE}/fence', {'fence': {
            'fence_id': base.ID, 'host': 'cn1', 'step': step, 'server_id': base.SERVER,
            'disks': ['disk'], **request}})
        self.assertEqual(status, answer.status, answer.body)
        return answer.body

    def test_disks_are_fenced_by_their_back_end(self) -> None:
        self.rpc.fence_disks.return_value = [{'disk': _ROOT, 'clients': 1}]
        self.assertIsNone(self.ask_fence('observe')['fence']['volumes'])
        self.assertEqual([_ROOT], self.rpc.fence_disks_observe.call_args.kwargs['disks'])
        self.rpc.fence_disks.assert_not_called()
        self.assertEqual([{'disk': _ROOT, 'clients': 1}],
                         self.ask_fence('close')['fence']['volumes'])
        self.assertEqual([_ROOT], self.rpc.fence_disks.call_args.kwargs['disks'])

    def test_volumes_are_not_fenced_if_disks_cannot_be(self) -> None:
        self.service()
        self.volume()
        self.rpc.fence_disks.side_effect = exception.SuperpositionConflict('on its host')
        self.ask_fence('close', 409, volume_ids=[base.VOLUME])
        self.rpc.fence_host.assert_not_called()

    def test_fence_of_a_part_is_unavailable(self) -> None:
        self.service()
        self.volume()
        self.rpc.fence_disks.return_value = [{'disk': _ROOT, 'clients': 1}]
        self.rpc.fence_host.side_effect = exception.SuperpositionConflict('not attached')
        self.ask_fence('close', 503, volume_ids=[base.VOLUME])

    def test_only_admins_and_services_may_fence(self) -> None:
        self.refused(403, 'POST', f'{base.BASE}/fence', {'fence': {
            'fence_id': base.ID, 'host': 'cn1', 'step': 'close', 'server_id': base.SERVER,
            'disks': ['disk']}}, ctxt=base.caller('member'))
        self.ask_fence('close', 400, server_id='x')


class ReadTest(ServerDisksTestCase):

    def test_superposition_without_volumes_is_found_at_the_back_end_of_disks(self) -> None:
        self.rpc.get.return_value = self.part()
        seen = self.done(200, 'GET', base.MEMBER)['superposition']
        self.assertEqual(([_ROOT], [], [base.OTHER_HOST]),
                         (seen['disks'], seen['volume_ids'], seen['hosts']))
        self.refused(404, 'GET', base.MEMBER, ctxt=base.caller('member'))

    def test_back_end_of_disks_is_not_asked_for_sets_with_volumes(self) -> None:
        self.superposed()
        self.done(200, 'GET', base.MEMBER)
        self.assertEqual([base.HOST], [call.args[1] for call in self.rpc.get.call_args_list])

    def test_unknown_superposition_returns_404(self) -> None:
        self.rpc.get.side_effect = exception.SuperpositionNotFound('there is none')
        self.refused(404, 'GET', base.MEMBER)

    def test_silent_back_end_leaves_the_state_unknown(self) -> None:
        self.rpc.get.side_effect = exception.SuperpositionUnavailable('no answer')
        self.assertEqual('unknown', self.done(200, 'GET', base.MEMBER)['superposition']['state'])

    def test_list_has_superpositions_without_volumes(self) -> None:
        self.rpc.list.return_value = [self.part()]
        (seen,) = self.done(200, 'GET', f'{base.BASE}?all_tenants=1')['superpositions']
        self.assertEqual(([_ROOT], []), (seen['disks'], seen['volume_ids']))
        self.rpc.list.side_effect = exception.SuperpositionUnavailable('no answer')
        self.assertEqual([], self.done(
            200, 'GET', f'{base.BASE}?all_tenants=1')['superpositions'])

    def test_list_of_a_server_needs_the_back_end_of_disks(self) -> None:
        path = f'{base.BASE}?all_tenants=1&server_id={base.SERVER}'
        self.rpc.list.return_value = [self.part()]
        (seen,) = self.done(200, 'GET', path)['superpositions']
        self.assertEqual([_ROOT], seen['disks'])
        self.rpc.list.side_effect = exception.SuperpositionUnavailable('no answer')
        self.assertIn(base.OTHER_HOST, self.refused(503, 'GET', path))

    def test_connections_of_disks_are_returned_alone(self) -> None:
        self.rpc.get.return_value = self.part(state='promoted')
        self.rpc.connection.return_value = [{'disk': _ROOT, 'data': {}}]
        answer = self.done(200, 'POST', f'{base.MEMBER}/connection',
                           {'connector': {'host': 'h'}, 'disks_only': True})
        self.assertEqual([{'disk': _ROOT, 'data': {}}], answer['connections'])
        self.assertTrue(self.rpc.connection.call_args.kwargs['disks'])

    def test_eligibility_of_disks_follows_that_of_volumes(self) -> None:
        self.service()
        self.volume()
        self.rpc.eligibility.side_effect = lambda _ctxt, _host, volume_ids, disks=(): [
            {'disk': disk, 'eligible': True, 'reasons': []} for disk in disks] or [
            {'volume_id': volume_id, 'eligible': True, 'reasons': []}
            for volume_id in volume_ids]
        answer = self.done(200, 'GET',
                           f'{base.BASE}/eligibility?disk={_ROOT}&volume_id={base.VOLUME}')
        self.assertEqual([base.VOLUME, _ROOT], [
            each.get('volume_id', each.get('disk')) for each in answer['eligibility']])
        self.rpc.eligibility.side_effect = exception.SuperpositionUnavailable('no answer')
        answer = self.done(200, 'GET', f'{base.BASE}/eligibility?disk={_ROOT}')
        self.assertEqual([{'disk': _ROOT, 'eligible': False, 'reasons': ['no answer'],
                           'fenceable': True, 'movable': True}], answer['eligibility'])
