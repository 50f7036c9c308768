# SPDX-License-Identifier: Apache-2.0
"""A set over several pools is one record, which the back end of its first volume leads."""

from typing import Any

import ddt

from specreds_cinder import driver as drivers
from specreds_cinder import exception
from specreds_cinder.tests.unit.service import base

LEAD, FIRST, SECOND = 'node@rbd', 'node@rbd2', 'node2@rbd3'


class SetTestCase(base.ServiceTestCase):

    hosts = (LEAD, FIRST, SECOND)

    def look_after(self, *hosts: str) -> None:
        """Run the periodic task of services, and wait for their merges."""
        for record in self.worker.records.values():
            record['unchanged_seconds'] = 1e6
        for host in hosts:
            self.back.services[host].look_after()
            self.merged(self.back.services[host])

    def methods(self, host: str) -> list[str]:
        """Return what a worker was asked since the last time, without what changes nothing."""
        made = [method for method in self.back.workers[host].methods()
                if method not in ('list', 'show', 'find', 'tidy')]
        self.back.workers[host].calls.clear()
        return made


@ddt.ddt
class CreateSetTest(SetTestCase):

    def test_leader_makes_one_record_of_the_volumes_of_all_pools(self) -> None:
        view = self.create()
        self.assertEqual(['vol-1', 'vol-2', 'vol-3'], [each['id'] for each in view['volumes']])
        self.assertEqual(([LEAD, FIRST, SECOND], LEAD, None),
                         (view['members'], view['lead'], view['overlay_bytes']))
        self.assertEqual({'vol-1': 's1', 'vol-2': 's1', 'vol-3': 's1'}, self.back.notes)
        self.assertEqual(
            ['volume-vol-1', f'{FIRST}/volume-vol-2', f'{SECOND}/volume-vol-3'],
            dict(self.worker.calls)['super']['images'])
        self.assertEqual([['super'], [], []], [self.methods(host) for host in self.hosts])
        self.assertEqual(['create.start', 'create.end'], self.back.events())

    def test_kinds_of_volumes_in_other_pools_are_named(self) -> None:
        self.create(self.back.add_volume(LEAD),
                    self.back.add_volume(FIRST, encryption_key_id='key'),
                    self.back.add_volume(SECOND, status='backing-up'))
        request = dict(self.worker.calls)['super']
        self.assertEqual(([f'{FIRST}/volume-vol-2'], [f'{SECOND}/volume-vol-3']),
                         (request['encrypted'], request['read']))

    def test_back_end_may_have_several_volumes_of_a_set(self) -> None:
        self.create(*(self.back.add_volume(host) for host in (LEAD, FIRST, LEAD)))
        self.assertEqual(['volume-vol-1', f'{FIRST}/volume-vol-2', 'volume-vol-3'],
                         dict(self.worker.calls)['super']['images'])

    @ddt.data(('far', 'cinder'), ('fsid', 'another'))
    @ddt.unpack
    def test_set_over_clusters_or_users_is_refused_and_changes_nothing(
            self, fsid: str, user: str) -> None:
        self.back.drivers[SECOND].location = drivers.Location(fsid, user, SECOND)
        error = self.assertRaises(exception.VolumesNotEligible, self.create)
        self.assertIn(f'back end {SECOND} is in another Ceph cluster than {LEAD}', error.msg)
        self.assertEqual(1, len(error.reasons))
        self.assertEqual([[], [], []], [self.back.workers[host].calls for host in self.hosts])
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))
        self.assertEqual(['create.start', 'create.error'], self.back.events())

    def test_refusal_of_the_storage_leaves_nothing(self) -> None:
        self.worker.fail['super'] = exception.VolumesNotEligible(
            'no', reasons=('no object map',))
        error = self.assertRaises(exception.VolumesNotEligible, self.create)
        self.assertEqual(('no object map',), error.reasons)
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))
        self.assertEqual(['create.start', 'create.error'], self.back.events())

    def test_back_end_that_does_not_answer_leaves_nothing(self) -> None:
        self.back.away.add(SECOND)
        self.assertRaises(exception.SuperpositionUnavailable, self.create)
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))


@ddt.ddt
class LedSetTest(SetTestCase):

    def setUp(self) -> None:
        super().setUp()
        for driver in self.back.drivers.values():
            driver.child_connection.side_effect = lambda volume, *_more: {
                'data': {'image': volume.name}}
        self.create()
        for host in self.hosts:
            self.methods(host)

    @ddt.data(('promoted', 3), ('dirty', 0), ('late-dirty', 0))
    @ddt.unpack
    def test_leader_decides_alone(self, outcome: str, notes: int) -> None:
        self.worker.outcome = outcome
        # The other back ends need not be there.
        self.back.away |= {FIRST, SECOND}
        report: Any = self.service.promote(self.context, 's1', True)
        self.assertEqual((outcome, notes), (report['outcome'], len(self.back.notes)))
        self.assertEqual([['collapse'], [], []], [self.methods(host) for host in self.hosts])

    def test_abort_removes_the_record_and_all_notes(self) -> None:
        self.back.away |= {FIRST, SECOND}
        self.service.abort(self.context, 's1')
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))

    def test_other_back_ends_leave_the_record_to_the_leader(self) -> None:
        for state in ('creating', 'superposed', 'collapsing', 'promoted', 'merged', 'aborting'):
            self.worker.records['s1']['state'] = state
            self.look_after(FIRST, SECOND)
            self.assertEqual([[], []], [self.methods(host) for host in (FIRST, SECOND)], state)
        self.assertEqual(3, len(self.back.notes))

    def test_leader_goes_on_with_an_interrupted_decision_and_merges(self) -> None:
        self.worker.records['s1']['state'] = 'collapsing'
        self.look_after(LEAD)
        self.assertIn('collapse', self.methods(LEAD))
        self.look_after(LEAD)
        self.assertEqual(({}, {}), (self.worker.records, self.back.notes))

    def test_leader_writes_lost_notes_of_all_volumes_again(self) -> None:
        self.back.notes.clear()
        self.look_after(LEAD)
        self.assertEqual({'vol-1': 's1', 'vol-2': 's1', 'vol-3': 's1'}, self.back.notes)

    def test_back_end_removes_the_notes_on_its_volumes_of_a_record_that_is_gone(self) -> None:
        self.worker.records.clear()
        self.look_after(FIRST)
        self.assertEqual({'vol-1': 's1', 'vol-3': 's1'}, self.back.notes)

    def test_each_back_end_shows_the_whole_set_and_connects_its_own_volumes(self) -> None:
        for host, volume_id in ((LEAD, 'vol-1'), (FIRST, 'vol-2'), (SECOND, 'vol-3')):
            service = self.back.services[host]
            view = service.get(self.context, 's1')
            self.assertEqual((['vol-1', 'vol-2', 'vol-3'], LEAD), (
                sorted(each['id'] for each in view['volumes']), view['lead']))
            self.assertEqual([volume_id], [each['volume_id'] for each in service.connection(
                self.context, 's1', {})])


class RenamedTest(SetTestCase):
    """A back end whose name has changed since the superposition was made."""

    def test_back_end_with_all_volumes_leads_under_any_name(self) -> None:
        view = self.create(self.back.add_volume(LEAD))
        record = self.worker.records[view['id']]
        record['labels']['members'] = ['former@rbd']
        backend = self.back.services[LEAD].backend
        self.assertTrue(backend.leads(record))
        self.assertFalse(backend.leads({'labels': {'members': ['former@rbd', LEAD]}}))
        self.assertEqual(LEAD, backend.view(backend.show(None, view['id']))['lead'])
