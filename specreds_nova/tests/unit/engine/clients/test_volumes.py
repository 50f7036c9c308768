# SPDX-License-Identifier: Apache-2.0
"""The client of Cinder's superpositions."""

from typing import Any

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import volumes
from specreds_nova.tests.unit.engine.clients import base
from specreds_nova.tests.unit.engine.recovery import base as recovery_base

_BASE = '/os-superpositions'
_MINE = '11111111-1111-4111-8111-111111111111'
_OTHER = '22222222-2222-4222-8222-222222222222'


def _shown(state: str, recovery: str | None = _MINE, **values: Any) -> dict[str, Any]:
    reason = 'by hand' if recovery is None else f'recovery {recovery}: host h1 is suspected'
    return {'id': 's1', 'state': state, 'reason': reason, 'outcome': None, 'overlay_bytes': None,
            **values}


@ddt.ddt
class VolumesTest(base.ServiceTest):
    """Calls may be repeated, and a decision is final."""

    def setUp(self) -> None:
        super().setUp()
        self.volumes = volumes.Volumes(self.session)
        self.server = recovery_base.make_server('a', volumes=('v1', 'v2'))

    def _superpose(self) -> str:
        return self.volumes.superpose(self.server, _MINE, 'host h1 is suspected')

    def _list(self, *shown: dict[str, Any]) -> None:
        self.session.answer('GET', f'{_BASE}/detail', {'superpositions': list(shown)})

    def test_warming_up_lists_no_superpositions(self) -> None:
        self.session.answer('GET', f'{_BASE}/none', {'itemNotFound': {'message': 'no'}},
                            status=404)
        self.volumes.warm_up()
        self.assertEqual([('GET', f'{_BASE}/none', None)], self.session.calls)

    def test_warming_up_fails_if_cinder_has_no_superpositions(self) -> None:
        self.session.fail('GET', f'{_BASE}/none', 404)
        self.assertRaises(exception.NotFound, self.volumes.warm_up)

    def test_superpose_creates_a_superposition(self) -> None:
        self.session.answer('POST', _BASE, {'superposition': {'id': 's1'}}, status=201)
        self.assertEqual('s1', self._superpose())
        [(_, _, body)] = self.session.calls
        self.assertEqual(['v1', 'v2'], body['superposition']['volume_ids'])
        self.assertEqual(f'recovery {_MINE}: host h1 is suspected',
                         body['superposition']['reason'])

    def test_host_that_is_dead_as_a_fact_is_named(self) -> None:
        self.session.answer('POST', _BASE, {'superposition': {'id': 's1'}}, status=201)
        self._superpose()
        self.volumes.superpose(self.server, _MINE, 'h1 has booted', 'h1')
        self.assertEqual([None, 'h1'], [body['superposition'].get('dead_host')
                                        for _, _, body in self.session.calls])

    @ddt.data(409, 503)
    def test_superpose_returns_the_superposition_of_the_same_recovery(self, status: int) -> None:
        self.session.fail('POST', _BASE, status)
        self._list(_shown('superposed'))
        self.assertEqual('s1', self._superpose())

    @ddt.data((409, exception.Refused), (400, exception.Refused), (503, exception.Unreachable))
    @ddt.unpack
    def test_failed_superpose_raises_with_the_reason(
            self, status: int, kind: type[Exception]) -> None:
        self.session.fail('POST', _BASE, status, 'it is encrypted')
        self._list()
        self.assertIn('encrypted', self.raised(kind, self._superpose))

    def test_fence_returns_the_number_of_clients(self) -> None:
        self.session.answer('POST', f'{_BASE}/fence', {'fence': {'volumes': [
            {'volume_id': 'v1', 'clients': 2}, {'volume_id': 'v2', 'clients': 1}]}})
        self.assertEqual(3, self.volumes.fence(self.server, 'h1', _MINE))
        self.assertEqual({'fence_id': _MINE, 'host': 'h1', 'step': 'close',
                          'volume_ids': ['v1', 'v2']}, self.session.calls[-1][2]['fence'])

    def test_disks_in_rbd_are_fenced_with_the_volumes(self) -> None:
        self.session.answer('POST', f'{_BASE}/fence', {'fence': {'volumes': [
            {'disk': 'a_disk', 'clients': 2}]}})
        for volume_ids in (('v1',), ()):
            self.server = recovery_base.make_server('a', volumes=volume_ids,
                                                    disks=('disk', 'disk.swap'))
            self.assertEqual(2, self.volumes.fence(self.server, 'h1', _MINE))
            sent = self.session.calls[-1][2]['fence']
            self.assertEqual(('a', ['disk', 'disk.swap'], list(volume_ids)),
                             (sent['server_id'], sent['disks'], sent.get('volume_ids', [])))

    def test_back_end_that_fences_disks_superposes_them(self) -> None:
        for fenceable in (True, False):
            self.session.answer('GET', f'{_BASE}/eligibility', {'eligibility': [
                {'disk': '00000000-0000-0000-0000-000000000000_disk', 'reasons': ['no such disk'],
                 'fenceable': fenceable, 'movable': True, 'cluster': None}]})
            self.assertEqual(fenceable, self.volumes.superposes_disks())
        for status in (400, 404):
            self.session.fail('GET', f'{_BASE}/eligibility', status)
            self.assertFalse(self.volumes.superposes_disks())
        self.session.fail('GET', f'{_BASE}/eligibility', 503)
        self.raised(exception.Unreachable, self.volumes.superposes_disks)

    def test_disks_in_rbd_are_superposed(self) -> None:
        self.session.answer('POST', _BASE, {'superposition': {'id': 's1'}})
        for volume_ids in (('v1',), ()):
            self.server = recovery_base.make_server(
                'a', volumes=volume_ids, disks=('disk', 'disk.swap'))
            self.assertEqual('s1', self._superpose())
            sent = self.session.calls[-1][2]['superposition']
            # Cinder accepts no empty list.
            self.assertEqual(('a', ['disk', 'disk.swap'], list(volume_ids) or None),
                             (sent['server_id'], sent['disks'], sent.get('volume_ids')))
        self.server = recovery_base.make_server('a', volumes=('v1',))
        self._superpose()
        self.assertNotIn('disks', self.session.calls[-1][2]['superposition'])

    def test_observation_fences_no_client(self) -> None:
        self.session.answer('POST', f'{_BASE}/fence', {'fence': {'volumes': None}})
        self.volumes.observe(self.server, 'h1', _MINE)
        self.assertEqual('observe', self.session.calls[-1][2]['fence']['step'])

    @ddt.data((404, exception.Refused), (409, exception.Refused), (400, exception.Refused),
              (503, exception.Unreachable))
    @ddt.unpack
    def test_failed_fence_raises(self, status: int, kind: type[Exception]) -> None:
        self.session.fail('POST', f'{_BASE}/fence', status, 'no')
        self.raised(kind, self.volumes.fence, self.server, 'h1', _MINE)

    def test_release_names_boots_and_returns_clients(self) -> None:
        self.session.answer('POST', f'{_BASE}/release', {'release': {'clients': ['c:0/1']}})
        boots = [{'addresses': ['192.0.2.1'], 'age_seconds': 3600.1}]
        self.assertEqual(['c:0/1'], self.volumes.release(boots))
        # By so much later may Cinder receive the request.
        age = 3601 + volumes.PATIENCE_S
        self.assertEqual({'boots': [{'addresses': ['192.0.2.1'], 'age_seconds': age}]},
                         self.session.calls[-1][2]['release'])

    def test_superpose_of_a_server_without_volumes_is_refused(self) -> None:
        self.server = recovery_base.make_server('a', volumes=())
        self.raised(exception.Refused, self._superpose)
        self.assertEqual([], self.session.calls)

    @ddt.data('promoted', 'merging', 'merged')
    def test_superpose_during_a_merge_raises_merging(self, state: str) -> None:
        self.session.fail('POST', _BASE, 409)
        self._list(_shown(state, _OTHER))
        self.raised(exception.Merging, self._superpose)

    @ddt.data(('promoted', _OTHER), ('merging', None), ('merged', None))
    @ddt.unpack
    def test_promoted_version_that_may_serve_has_its_recovery(
            self, state: str, recovery: str | None) -> None:
        self.session.fail('POST', _BASE, 409)
        self._list(_shown(state, _OTHER))
        error = self.assertRaises(exception.Merging, self._superpose)
        self.assertEqual(recovery, error.promoted_by)

    @ddt.data('creating', 'aborting', 'collapsing')
    def test_superpose_during_another_operation_raises_unreachable(self, state: str) -> None:
        self.session.fail('POST', _BASE, 409)
        self._list(_shown(state))
        self.raised(exception.Unreachable, self._superpose)

    def test_superpose_drops_the_superposition_of_another_recovery(self) -> None:
        self.session.fail('POST', _BASE, 409)
        self._list(_shown('superposed', _OTHER))
        self.session.answer('DELETE', f'{_BASE}/s1', None, status=204)
        self.raised(exception.Unreachable, self._superpose)
        self.assertEqual(('DELETE', f'{_BASE}/s1', None), self.session.calls[-1])

    def test_superpose_of_what_an_operator_has_superposed_is_refused(self) -> None:
        self.session.fail('POST', _BASE, 409)
        self._list(_shown('superposed', None))
        self.raised(exception.Refused, self._superpose)

    def test_state_of_a_missing_superposition_is_none(self) -> None:
        self.session.answer('GET', f'{_BASE}/s1', {'superposition': _shown('superposed')})
        self.assertEqual('superposed', self.volumes.state('s1'))
        self.session.fail('GET', f'{_BASE}/s1', 404)
        self.assertIsNone(self.volumes.state('s1'))
        self.session.answer('GET', f'{_BASE}/s1', {'superposition': _shown('unknown')})
        self.raised(exception.Unreachable, self.volumes.state, 's1')
        # Sizes take a sweep of each overlay.
        self.assertEqual([{'sizes': '0'}] * 3,
                         [request['params'] for request in self.session.requests])

    def test_check_of_a_decided_superposition_is_refused(self) -> None:
        self.session.answer('POST', f'{_BASE}/s1/check', {'check': {'dirty': True}})
        self.assertTrue(self.volumes.dirty('s1'))
        self.session.answer('POST', f'{_BASE}/s1/check', {
            'check': {'dirty': False, 'unproven': True}})
        self.assertFalse(self.volumes.dirty('s1'))
        for status in (404, 409):
            self.session.fail('POST', f'{_BASE}/s1/check', status)
            self.raised(exception.Refused, self.volumes.dirty, 's1')

    @ddt.data('promoted', 'dirty', 'late-dirty', 'unproven')
    def test_collapse_returns_the_outcome(self, outcome: str) -> None:
        self.session.answer('POST', f'{_BASE}/s1/collapse', {'collapse': {'outcome': outcome}})
        self.assertEqual(outcome, self.volumes.collapse('s1'))
        [(_, _, body)] = self.session.calls
        self.assertEqual({'decision': 'promote', 'backup_durable': True}, body['collapse'])

    def test_collapse_of_a_missing_superposition_is_gone(self) -> None:
        self.session.fail('POST', f'{_BASE}/s1/collapse', 404)
        self.assertEqual('gone', self.volumes.collapse('s1'))

    def test_slow_collapse_is_polled_by_repetition(self) -> None:
        self.session.answer('POST', f'{_BASE}/s1/collapse',
                            {'collapse': {'outcome': None, 'state': 'collapsing'}}, status=202)
        self.session.answer('GET', f'{_BASE}/s1', {'superposition': _shown('collapsing')})
        self.raised(exception.Unreachable, self.volumes.collapse, 's1')
        self.session.answer('GET', f'{_BASE}/s1', {
            'superposition': _shown('aborting', outcome='late-dirty')})
        self.assertEqual('late-dirty', self.volumes.collapse('s1'))
        self.session.fail('GET', f'{_BASE}/s1', 404)
        self.assertEqual('gone', self.volumes.collapse('s1'))

    def test_outcome_of_a_slow_collapse_counts_once_it_is_final(self) -> None:
        self.session.answer('POST', f'{_BASE}/s1/collapse',
                            {'collapse': {'outcome': None, 'state': 'collapsing'}}, status=202)
        self.session.answer('GET', f'{_BASE}/s1', {
            'superposition': _shown('collapsing', outcome='late-dirty')})
        self.raised(exception.Unreachable, self.volumes.collapse, 's1')
        # An operator has ended it meanwhile.
        self.session.answer('GET', f'{_BASE}/s1', {
            'superposition': _shown('aborting', outcome='aborted')})
        self.assertEqual('gone', self.volumes.collapse('s1'))

    def test_drop_of_a_decided_superposition_is_refused(self) -> None:
        self.session.answer('DELETE', f'{_BASE}/s1', None, status=204)
        self.volumes.drop('s1')
        self.session.fail('DELETE', f'{_BASE}/s1', 404)
        self.volumes.drop('s1')
        self.session.fail('DELETE', f'{_BASE}/s1', 409)
        self.raised(exception.Refused, self.volumes.drop, 's1')

    def test_written_bytes_are_those_of_the_overlay(self) -> None:
        self.session.answer('GET', f'{_BASE}/s1', {
            'superposition': _shown('merging', overlay_bytes=4096)})
        self.assertEqual(4096, self.volumes.written('s1'))
        self.session.fail('GET', f'{_BASE}/s1', 404)
        self.raised(exception.NotFound, self.volumes.written, 's1')

    def test_superpositions_of_operators_are_not_ours(self) -> None:
        self._list(_shown('superposed'), _shown('superposed', None, id='s2'))
        self.assertEqual({'s1': _MINE}, self.volumes.ours())

    def test_superpositions_on_all_pages_are_ours(self) -> None:
        first, second = _shown('superposed'), _shown('superposed', _OTHER, id='s2')
        self.session.answer(
            'GET', f'{_BASE}/detail',
            {'superpositions': [first], 'superpositions_links': [{'rel': 'next', 'href': '…'}]},
            {'superpositions': [second]})
        self.assertEqual({'s1': _MINE, 's2': _OTHER}, self.volumes.ours())
        self.assertEqual('s1', self.session.requests[-1]['params']['marker'])

    def test_eligibility_of_volumes_and_disks_of_a_server(self) -> None:
        server = recovery_base.make_server('a', host='h1', volumes=('v1', 'v2'))
        self.session.answer('GET', f'{_BASE}/eligibility', {'eligibility': [
            {'volume_id': 'v1', 'reasons': [], 'fenceable': True, 'movable': True,
             'cluster': 'fsid'},
            {'volume_id': 'v2', 'reasons': ['LVM'], 'fenceable': False, 'movable': False,
             'cluster': None}]})
        self.assertEqual({'v1': model.Eligibility(),
                          'v2': model.Eligibility(('LVM',), fenceable=False, movable=False)},
                         self.volumes.eligibility(server))
        request = self.session.requests[-1]
        self.assertEqual({'volume_id': ['v1', 'v2'], 'host': 'h1'}, request['params'])
        self.assertIn('superposition 1.0', request['version'])
        self.session.answer('GET', f'{_BASE}/eligibility', {'eligibility': [
            {'disk': 'a_disk', 'reasons': ['it is mirrored'], 'fenceable': True,
             'movable': True, 'cluster': 'fsid'}]})
        server = recovery_base.make_server('a', volumes=(), disks=('disk',))
        self.assertEqual({'a_disk': model.Eligibility(('it is mirrored',))},
                         self.volumes.eligibility(server))
        self.session.fail('GET', f'{_BASE}/eligibility', 404)
        self.raised(exception.Refused, self.volumes.eligibility, server)

    def test_volume_in_another_ceph_cluster_than_the_first_one_has_no_backup(self) -> None:
        server = recovery_base.make_server('a', host='h1', volumes=('v1', 'v2', 'v3', 'v4'))
        self.session.answer('GET', f'{_BASE}/eligibility', {'eligibility': [
            {'volume_id': volume, 'reasons': [], 'fenceable': True, 'movable': True,
             'cluster': cluster}
            for volume, cluster in (('v1', 'near'), ('v2', 'far'), ('v3', None), ('v4', 'near'))]})
        eligible = self.volumes.eligibility(server)
        self.assertEqual([0, 1, 0, 0], [len(each.reasons) for each in eligible.values()])
        self.assertIn('another Ceph cluster', eligible['v2'].reasons[0])
        # The server is evacuated instead.
        self.assertEqual({(True, True)}, {
            (each.fenceable, each.movable) for each in eligible.values()})
