# SPDX-License-Identifier: Apache-2.0
"""Superpositions of disks that Nova keeps in RBD, alone and together with volumes."""

from typing import Any

from specreds_cinder import exception
from specreds_cinder.tests.unit.service import base

_VOLUMES, _NOVA = 'node@rbd', 'node@nova'
_SERVER = '9c1e6c6a-5a0f-4f0b-9a2e-0d5b1c2f3e04'
_ROOT, _SWAP = f'{_SERVER}_disk', f'{_SERVER}_disk.swap'


class ServerDisksTestCase(base.ServiceTestCase):

    hosts = (_VOLUMES, _NOVA)
    backend = _NOVA

    def setUp(self) -> None:
        super().setUp()
        self.conf.config(group='specreds', server_disks_backend=self.backend)
        for driver in self.back.drivers.values():
            driver.disk_image.side_effect = lambda disk: f'vms/{disk.name}'
            driver.disk_connection.side_effect = lambda disk, _connector, shown: {
                'data': {'image': disk.name, 'state': shown['state']}}
            driver.child_connection.side_effect = lambda volume, *_more: {
                'data': {'image': volume.name}}
        self.nova = self.back.services[_NOVA]

    def disks(self, *ids: str) -> list[dict[str, str]]:
        """Return disks as an argument of ``create``."""
        return [{'id': disk, 'host': self.backend} for disk in ids]

    def images(self, host: str) -> list[str]:
        """Return the images of the superposition on a back end."""
        return [volume['image'] for volume in self.back.workers[host].records['s1']['volumes']]


class OneBackEndTest(ServerDisksTestCase):

    backend = _VOLUMES

    def test_disks_and_volumes_share_one_record(self) -> None:
        view = self.create(self.back.add_volume(_VOLUMES), disks=self.disks(_ROOT, _SWAP))
        self.assertEqual(['vol-1', _ROOT, _SWAP], [each['id'] for each in view['volumes']])
        self.assertEqual(['volume-vol-1', f'vms/{_ROOT}', f'vms/{_SWAP}'], self.images(_VOLUMES))
        self.assertEqual({'vol-1': 's1'}, self.back.notes)
        self.assertEqual([{'id': 'vol-1'}, {'id': _ROOT}, {'id': _SWAP}],
                         self.back.emitted[0][1]['volumes'])

    def test_disks_without_volumes_are_superposed(self) -> None:
        view = self.service.create(self.context, 's1', [], _SERVER, 'why',
                                   self.disks(_ROOT))
        self.assertEqual(([_ROOT], None), ([each['id'] for each in view['volumes']],
                                           view['project_id']))
        self.assertEqual({}, self.back.notes)
        self.service.look_after()
        self.service.promote(self.context, 's1', False)
        self.worker.records['s1']['unchanged_seconds'] = 1e6
        self.service.look_after()
        self.merged()
        self.assertEqual({}, self.worker.records)

    def test_connections_of_disks_follow_those_of_volumes(self) -> None:
        self.create(self.back.add_volume(_VOLUMES), disks=self.disks(_ROOT))
        connections = self.service.connection(self.context, 's1', {})
        self.assertEqual([('volume_id', 'vol-1'), ('disk', _ROOT)],
                         [next(iter(each.items())) for each in connections])

    def test_promoted_disks_can_be_opened_and_volumes_are_attached(self) -> None:
        self.create(self.back.add_volume(_VOLUMES), disks=self.disks(_ROOT))
        self.service.promote(self.context, 's1', False)
        self.assertRaises(exception.SuperpositionConflict, self.service.connection,
                          self.context, 's1', {})
        (connection,) = self.service.connection(self.context, 's1', {}, disks=True)
        self.assertEqual((_ROOT, 'promoted'), (connection['disk'], connection['data']['state']))
        self.assertIn('hand_out', self.worker.methods())

    def test_merged_disks_have_no_second_version(self) -> None:
        self.create(self.back.add_volume(_VOLUMES), disks=self.disks(_ROOT))
        self.worker.records['s1']['state'] = 'merged'
        self.assertRaises(exception.SuperpositionConflict, self.service.connection,
                          self.context, 's1', {}, disks=True)

    def test_eligibility_of_disks_is_reported(self) -> None:
        self.assertEqual(
            [{'disk': _ROOT, 'eligible': True, 'reasons': [], 'cluster': 'fsid/cinder'}],
            self.service.eligibility(self.context, [], [_ROOT]))


class SeveralBackEndsTest(ServerDisksTestCase):

    def test_disks_on_another_back_end_are_part_of_the_set(self) -> None:
        self.create(self.back.add_volume(_VOLUMES), disks=self.disks(_ROOT))
        self.assertEqual(['volume-vol-1', f'vms/{_ROOT}'], self.images(_VOLUMES))
        # Each back end connects what it is responsible for.
        self.back.workers[_NOVA].pool = 'vms'
        self.assertEqual([['volume_id'], ['disk']], [
            [next(iter(each)) for each in service.connection(self.context, 's1', {})]
            for service in (self.service, self.nova)])

    def test_back_end_refuses_disks_that_another_one_superposes(self) -> None:
        error: Any = self.assertRaises(
            exception.SuperpositionInvalid, self.service.eligibility, self.context, [], [_ROOT])
        self.assertIn(_NOVA, error.msg)
        self.assertEqual([], self.worker.calls)

    def test_id_that_names_no_disk_is_refused(self) -> None:
        for disk in (f'{_SERVER}_disk/../x', 'volume-1', f'{_SERVER}_disk@snap'):
            self.assertRaises(exception.SuperpositionInvalid, self.nova.create, self.context,
                              's1', [], _SERVER, 'why', self.disks(disk))
        self.assertNotIn('super', self.back.workers[_NOVA].methods())
