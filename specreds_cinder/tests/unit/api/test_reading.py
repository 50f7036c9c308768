# SPDX-License-Identifier: Apache-2.0
"""Superpositions are shown and listed, through Cinder's own routing and policies."""

from typing import Any
from urllib import parse

import ddt
from oslo_utils import timeutils

from specreds_cinder import exception
from specreds_cinder.service import hints
from specreds_cinder.tests.unit.api import base

_DOWN = timeutils.utcnow().replace(year=2020)


class TestRead(base.APITestCase):

    def test_show_returns_all_fields(self) -> None:
        self.superposed()
        superposition = self.done(200, 'GET', base.MEMBER)['superposition']
        self.assertEqual(('superposed', [base.VOLUME], 1 << 20, 61.5, [base.HOST], []),
                         (superposition['state'], superposition['volume_ids'],
                          superposition['overlay_bytes'], superposition['age_seconds'],
                          superposition['hosts'], superposition['unreachable_hosts']))
        self.assertEqual([{'id': base.VOLUME, 'size_bytes': base.GIB, 'overlay_bytes': 1 << 20}],
                         superposition['volumes'])

    def test_reader_sees_no_hosts(self) -> None:
        self.superposed()
        answer = self.done(200, 'GET', base.MEMBER, ctxt=base.caller('reader'))
        superposition = answer['superposition']
        self.assertNotIn('hosts', superposition)
        self.assertNotIn('unreachable_hosts', superposition)

    def test_other_project_gets_404_on_each_request(self) -> None:
        self.superposed()
        others = base.caller('member', base.OTHER_PROJECT)
        for request in (('GET', base.MEMBER), ('DELETE', base.MEMBER),
                        ('POST', f'{base.MEMBER}/check'),
                        ('POST', f'{base.MEMBER}/collapse', {'collapse': {'decision': 'abort'}})):
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
        self.refused(404, 'GET', base.MEMBER)

    def test_service_that_is_down_is_not_asked(self) -> None:
        self.service(created_at=_DOWN, updated_at=_DOWN)
        self.volume(superposition=base.ID)
        messages = self.messages('get')
        superposition = self.done(200, 'GET', base.MEMBER)['superposition']
        self.assertEqual(('unknown', [base.VOLUME], None, [base.HOST]),
                         (superposition['state'], superposition['volume_ids'],
                          superposition['overlay_bytes'], superposition['unreachable_hosts']))
        messages.prepare.assert_not_called()

    def test_only_a_look_measures_overlays(self) -> None:
        self.superposed()
        self.rpc.check.return_value = {'dirty': False, 'unproven': False, 'first': None,
                                       'objects': 7, 'seconds': 0.1}
        self.done(200, 'GET', base.MEMBER)
        self.done(200, 'GET', f'{base.MEMBER}?sizes=0')
        self.done(200, 'POST', f'{base.MEMBER}/check')
        self.assertEqual([False, True, True], [call.kwargs['brief']
                                               for call in self.rpc.get.call_args_list])
        self.refused(400, 'GET', f'{base.MEMBER}?sizes=no')

    def answers(self, *silent: str) -> dict[str, Any]:
        """Return a set on two back ends, whose leader is noted last, as the API shows it."""
        members = [base.OTHER_HOST, base.HOST]
        self.service()
        self.service(base.OTHER_HOST)
        self.volume(superposition=base.ID)
        self.volume(base.SECOND, host=base.OTHER_HOST, superposition=base.ID)

        def get(_ctxt: Any, host: str, **_more: Any) -> dict[str, Any]:
            if host in silent:
                raise exception.SuperpositionUnavailable('no answer')
            return base.view(volume_ids=(base.SECOND, base.VOLUME), members=members, host=host,
                             lead=base.OTHER_HOST, dirty=host == base.OTHER_HOST or None)
        self.rpc.get.side_effect = get
        shown: dict[str, Any] = self.done(200, 'GET', base.MEMBER)['superposition']
        return shown

    def test_answer_of_the_back_end_that_leads_is_shown(self) -> None:
        shown = self.answers()
        self.assertEqual(
            ([base.SECOND, base.VOLUME], True, [base.OTHER_HOST, base.HOST], []),
            (shown['volume_ids'], shown['dirty'], shown['hosts'], shown['unreachable_hosts']))

    def test_another_back_end_shows_the_set_of_one_that_is_silent(self) -> None:
        shown = self.answers(base.OTHER_HOST)
        self.assertEqual(
            ('superposed', [base.SECOND, base.VOLUME], None, [base.OTHER_HOST]),
            (shown['state'], shown['volume_ids'], shown['dirty'], shown['unreachable_hosts']))

    def test_superposition_of_two_back_ends_is_listed_once(self) -> None:
        self.answers()
        self.rpc.list.side_effect = lambda _ctxt, host: [base.view(
            host=host, lead=base.OTHER_HOST, state='merging' if host == base.HOST else 'merged')]
        [listed] = self.done(200, 'GET', base.BASE)['superpositions']
        self.assertEqual('merged', listed['state'])


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
        self.rpc.get.side_effect = lambda _ctxt, host, **_: self.views[host][0]

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

    def test_detail_has_sizes_of_overlays_on_request(self) -> None:
        superpositions = self.done(200, 'GET', f'{base.BASE}/detail?sizes=1')['superpositions']
        self.assertEqual([1 << 20, 1 << 20], [each['overlay_bytes'] for each in superpositions])
        self.refused(400, 'GET', f'{base.BASE}/detail?sizes=no')

    @ddt.data('', '?sizes=0')
    def test_detail_asks_each_back_end_once(self, query: str) -> None:
        superpositions = self.done(200, 'GET', f'{base.BASE}/detail{query}')['superpositions']
        self.assertEqual(['promoted', 'superposed'], [each['state'] for each in superpositions])
        self.assertEqual(2, self.rpc.list.call_count)
        # Each size takes a sweep of the overlay.
        self.rpc.get.assert_not_called()

    def test_detail_keeps_a_superposition_that_ends_meanwhile(self) -> None:
        self.rpc.get.side_effect = exception.SuperpositionNotFound('gone')
        superpositions = self.done(200, 'GET', f'{base.BASE}/detail?sizes=1')['superpositions']
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

    def test_state_is_unknown_where_a_record_cannot_be_read(self) -> None:
        self.views[base.HOST] = [{'id': base.ID, 'state': 'unknown'}]
        query = f'?volume_id={base.VOLUME}'
        for superpositions, expected in ((self.done(200, 'GET', base.BASE), 2),
                                         (self.done(200, 'GET', base.BASE + query), 1)):
            states = {each['id']: each['state'] for each in superpositions['superpositions']}
            self.assertEqual((expected, 'unknown'), (len(states), states[base.ID]))

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
