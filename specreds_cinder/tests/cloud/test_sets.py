# SPDX-License-Identifier: Apache-2.0
"""Volumes of one server on several back ends: superposed, decided and merged together."""

from concurrent import futures
import functools
import uuid

from specreds_cinder.tests.cloud import base
from specreds_cinder.tests.cloud import test_services

_EBLOCKLISTED = -108


class SetsTest(test_services.ServicesTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.volumes = [self.make_volume('rbd'), self.make_volume('rbd2'),
                        self.make_volume('rbd')]
        self.ids = [volume['id'] for volume in self.volumes]
        self.primaries = [self.make_primary(volume) for volume in self.volumes]

    def assert_all_live(self) -> None:
        """Assert that all primaries can write, and that no volume is superposed."""
        for primary in self.primaries:
            self.assertEqual(0, primary.write(8192, 0x55))
        for volume_id in self.ids:
            self.assertEqual([], self.superpositions(volume_id=volume_id))

    def test_all_volumes_of_a_server_are_superposed(self) -> None:
        server = str(uuid.uuid4())
        for volume_id in self.ids:
            self.attach(volume_id, server)
        made = self.request('POST', '/os-superpositions', {
            'superposition': {'server_id': server}}, expect=201)['superposition']
        self.addCleanup(self.end, made['id'])
        self.assertEqual(set(self.ids), {each['id'] for each in made['volumes']})
        self.assertEqual({f'controller@{name}' for name in ('rbd', 'rbd2')}, set(made['hosts']))

    def test_set_is_promoted_and_merged(self) -> None:
        made = self.superpose(*self.ids)
        connections = self.connections(made['id'])
        self.assertEqual(set(self.ids), set(connections))
        for volume in self.volumes:
            self.qemu_io(volume, connections[volume['id']], 'read -P 0x50 0 4k',
                         'write -P 0xc1 0 64k')
        self.assertEqual('promoted', self.collapse(made['id'])['outcome'])
        for primary in self.primaries:
            self.assertEqual(_EBLOCKLISTED, primary.write(0, 0x99))
        self.merge(made['id'])
        for volume in self.volumes:
            self.qemu_io(volume, self.connection(volume), 'read -P 0xc1 0 64k')

    def test_one_dirty_volume_aborts_the_set(self) -> None:
        made = self.superpose(*self.ids)
        self.assertEqual(0, self.primaries[1].write(4096, 0x51))
        self.assertEqual('dirty', self.collapse(made['id'])['outcome'])
        self.wait_gone(made['id'])
        self.assert_all_live()

    def test_refused_volume_leaves_the_others_alone(self) -> None:
        held = self.superpose(self.ids[1])
        message = self.refused('POST', '/os-superpositions',
                               {'superposition': {'volume_ids': self.ids}}, status=409)
        self.assertIn(held['id'], message)
        for volume_id in (self.ids[0], self.ids[2]):
            self.assertEqual([], self.superpositions(volume_id=volume_id))
        self.end(held['id'])
        self.assert_all_live()

    def test_set_does_not_need_the_service_of_another_back_end(self) -> None:
        """Assert that the leader decides alone, and that the other back end shows the result."""
        made = self.superpose(*self.ids)
        with self.dead('cinder-volume-rbd2'):
            self.assertEqual('promoted', self.collapse(made['id'])['outcome'])
        with self.dead('cinder-volume-rbd'):
            self.assertEqual('promoted', self.superposition(made['id'])['state'])
            self.assertEqual('rbd_super', self.connection(self.volumes[1])['driver_volume_type'])
        for primary in self.primaries:
            self.assertEqual(_EBLOCKLISTED, primary.write(0, 0x99))
        self.merge(made['id'])

    def test_exactly_one_of_several_decisions_wins(self) -> None:
        """Assert that of several promotions and aborts at once, exactly one decides."""
        for _ in range(3):
            made = self.superpose(*self.ids)
            decide = functools.partial(
                self.api().request, f'/os-superpositions/{made["id"]}/collapse', 'POST')
            decisions = ('promote', 'abort', 'promote', 'abort')
            with futures.ThreadPoolExecutor(len(decisions)) as executor:
                answers = [future.result() for future in [
                    executor.submit(decide, json={'collapse': {'decision': decision}})
                    for decision in decisions]]
            outcomes = [answer.json()['collapse']['outcome'] for answer in answers
                        if answer.status_code == 200]
            # 202: the service is promoting it already.
            self.assertLessEqual({answer.status_code for answer in answers},
                                 {200, 202, 404, 409, 503})
            answer = self.api().request(f'/os-superpositions/{made["id"]}', 'GET')
            if 'promoted' in outcomes:
                self.assertNotIn('aborted', outcomes)
                for primary in self.primaries:
                    self.assertEqual(_EBLOCKLISTED, primary.write(0, 0x99))
                self.merge(made['id'])
                self.primaries = [self.make_primary(volume) for volume in self.volumes]
            else:
                self.assertIn(answer.status_code, (200, base.GONE))
                self.wait_gone(made['id'])
                for primary in self.primaries:
                    primary.end()
                self.primaries = [self.make_primary(volume) for volume in self.volumes]
