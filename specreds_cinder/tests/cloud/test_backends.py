# SPDX-License-Identifier: Apache-2.0
"""Several Ceph clusters and users at once, and one back end that several services share."""

from concurrent import futures
import itertools
from typing import Any

from cloud.openstack import services
from specreds_cinder import superposition as sp
from specreds_cinder.superposition import errors
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.cloud import base
from specreds_cinder.tests.cloud import test_services

_CHILD = 'write -P 0xc1 0 64k'
_SEEN = 'read -P 0xc1 0 64k'
_EBLOCKLISTED = -108


class SecondClusterTest(base.CloudTestCase):
    """One back end is on another Ceph cluster than the others, as another user."""

    def setUp(self) -> None:
        super().setUp()
        extra = self.cloud.settings.extra_backends
        if not extra:
            self.skipTest('no back end of the cloud is on another Ceph cluster; '
                          './run test starts one that has it (--extra-backend)')
        self.far = extra[0]

    def whole_life(self, *volumes: dict[str, Any]) -> None:
        """Superpose, write to the child version, promote and merge."""
        primaries = [self.make_primary(volume) for volume in volumes]
        made = self.superpose(*(volume['id'] for volume in volumes))
        connections = self.connections(made['id'])
        for volume in volumes:
            self.qemu_io(volume, connections[volume['id']], 'read -P 0x50 0 4k', _CHILD)
        self.assertEqual('promoted', self.collapse(made['id'])['outcome'])
        for primary in primaries:
            self.assertEqual(_EBLOCKLISTED, primary.write(0, 0x99))
        self.merge(made['id'])
        for volume in volumes:
            info = self.connection(volume)
            self.assertEqual('rbd', info['driver_volume_type'])
            self.qemu_io(volume, info, _SEEN)

    def test_set_over_two_clusters_is_refused(self) -> None:
        volumes = [self.make_volume('rbd'), self.make_volume(self.far.name)]
        primaries = [self.make_primary(volume) for volume in volumes]
        message = self.refused('POST', '/os-superpositions', {
            'superposition': {'volume_ids': [volume['id'] for volume in volumes]}}, status=409)
        self.assertIn('another Ceph cluster', message)
        query = '&'.join(f'volume_id={volume["id"]}' for volume in volumes)
        near, far = self.request(
            'GET', f'/os-superpositions/eligibility?{query}&host=none')['eligibility']
        self.assertNotEqual(near['cluster'], far['cluster'])
        for volume, primary in zip(volumes, primaries, strict=True):
            self.assertEqual([], self.superpositions(volume_id=volume['id']))
            self.assertEqual(0, primary.write(1 << 20, 0x51))

    def test_volume_of_the_second_cluster_is_promoted_and_merged(self) -> None:
        self.whole_life(self.make_volume(self.far.name))

    def test_volume_of_the_second_cluster_is_aborted(self) -> None:
        volume = self.make_volume(self.far.name)
        primary = self.make_primary(volume)
        made = self.superpose(volume['id'])
        self.qemu_io(volume, self.connections(made['id'])[volume['id']], _CHILD)
        self.request('DELETE', f'/os-superpositions/{made["id"]}', expect=204)
        self.assertEqual(0, primary.write(4096, 0x51))
        self.assertEqual(b'\x50' * 4096 + b'\x51' * 4096, primary.read(0, 8192))

    def test_connections_have_the_user_of_their_back_end(self) -> None:
        volumes = {backend.name: self.make_volume(backend.name)
                   for backend in self.cloud.backends}
        connections = {volume_id: connection for volume in volumes.values()
                       for volume_id, connection in self.connections(
                           self.superpose(volume['id'])['id']).items()}
        for backend in self.cloud.backends:
            volume = volumes[backend.name]
            data = connections[volume['id']]['data']
            self.assertEqual(backend.user, data['auth_username'])
            self.assertEqual(f'{backend.pool}/volume-{volume["id"]}',
                             data['superposition']['backing']['name'])
            self.qemu_io(volume, connections[volume['id']], _CHILD)
        # The back ends are on different clusters.
        near, far = (connections[volumes[name]['id']]['data'] for name in ('rbd', self.far.name))
        self.assertNotEqual((near['hosts'], near['ports']), (far['hosts'], far['ports']))


class ClusteredTest(test_services.ServicesTestCase):
    """Two volume services of one cluster share a back end (active-active)."""

    def setUp(self) -> None:
        super().setUp()
        shared = [backend for backend in self.cloud.backends if backend.services > 1]
        if not shared:
            self.skipTest('the cloud has no back end that several volume services share; '
                          './run test starts one that has it (--clustered)')
        self.backend = shared[0]
        self.both = [services.cinder_volume(name) for name in self.backend.instances]
        self.volume_ = self.make_volume(self.backend.name)
        self.volume_id = self.volume_['id']

    def test_set_over_two_users_of_a_cluster_is_refused(self) -> None:
        """Assert that a user reaches only its own pools, so that no set needs the others."""
        other = self.make_volume('rbd')
        self.assertRaises(errors.SuperError, sp.Protocol(self.cluster(self.backend.name)).super,
                          [self.image(other)], 'not allowed', None)
        message = self.refused('POST', '/os-superpositions', {'superposition': {
            'volume_ids': [self.volume_id, other['id']]}}, status=409)
        self.assertIn('another rbd_user', message)

    def superposed_by_the_first(self) -> dict[str, Any]:
        """Superpose while the other service is dead."""
        with self.dead(self.both[1]):
            return self.superpose(self.volume_id)

    def test_two_services_are_one_back_end(self) -> None:
        made = self.superpose(self.volume_id)
        self.assertEqual([f'controllers@{self.backend.name}'], made['hosts'])
        hosts = {service['host'] for service in
                 self.request('GET', '/os-services?binary=cinder-volume')['services']
                 if service['host'].endswith(f'@{self.backend.name}')}
        self.assertEqual(2, len(hosts))

    def test_superposition_is_promoted_by_the_other_service(self) -> None:
        primary = self.make_primary(self.volume_)
        made = self.superposed_by_the_first()
        with self.dead(self.both[0]):
            child = self.connections(made['id'])[self.volume_id]
            self.qemu_io(self.volume_, child, 'read -P 0x50 0 4k', _CHILD)
            self.assertEqual('promoted', self.collapse(made['id'])['outcome'])
            self.assertEqual(_EBLOCKLISTED, primary.write(0, 0x99))
            self.assertEqual('rbd_super', self.connection(self.volume_)['driver_volume_type'])
        # The restarted service does not take anything for cut off.
        self.assertEqual('promoted', self.superposition(made['id'])['state'])
        with self.dead(self.both[1]):
            self.merge(made['id'])
        self.qemu_io(self.volume_, self.connection(self.volume_), _SEEN)

    def test_write_is_found_by_the_other_service(self) -> None:
        primary = self.make_primary(self.volume_)
        made = self.superposed_by_the_first()
        with self.dead(self.both[0]):
            self.assertEqual(0, primary.write(1 << 20, 0x51))
            self.wait('dirty superposition', lambda: self.superposition(made['id'])['dirty'])
            self.assertEqual('dirty', self.collapse(made['id'])['outcome'])
            self.wait_gone(made['id'])
        self.assertEqual(0, primary.write(2 << 20, 0x52))

    def test_superposition_is_aborted_by_the_other_service(self) -> None:
        made = self.superposed_by_the_first()
        with self.dead(self.both[0]):
            self.request('DELETE', f'/os-superpositions/{made["id"]}', expect=204)
        self.wait_gone(made['id'])
        # The first service's memory of it does no harm.
        again = self.superpose(self.volume_id)
        self.assertEqual('promoted', self.collapse(again['id'])['outcome'])
        self.merge(again['id'])

    def test_service_that_starts_leaves_a_running_decision_alone(self) -> None:
        """Assert that a step in progress does not count as cut off when a service starts."""
        made = self.superpose(self.volume_id)
        protocol = sp.Protocol(self.cluster(self.backend.name))
        record = protocol.show(made['id'], self.image(self.volume_).home)
        with self.dead(self.both[0]):
            protocol.store.swap(record, record.moved(
                states.COLLAPSING, fenced=tuple(sorted(record.clients))))
        self.assertEqual('collapsing', self.superposition(made['id'])['state'])
        # Its controller is gone, so one of the two services continues it in the end.
        self.wait('decision', lambda: self.superposition(made['id'])['state'] == 'promoted', 180)

    def test_both_services_work_on_many_superpositions(self) -> None:
        """Assert that both services can work on the same superpositions at a time."""
        volumes = [self.volume_, *(self.make_volume(self.backend.name) for _ in range(5))]
        with futures.ThreadPoolExecutor(len(volumes)) as executor:
            made = list(executor.map(lambda volume: self.superpose(volume['id'])['id'], volumes))
            for superposition_id, volume in zip(made, volumes, strict=True):
                self.qemu_io(volume, self.connections(superposition_id)[volume['id']],
                             'write -P 0xc1 0 16M')
            outcomes = list(executor.map(lambda id_: self.collapse(id_)['outcome'], made))
            self.assertEqual({'promoted'}, set(outcomes))
            # Each merge is requested several times, so that both services begin.
            for answer in executor.map(self.ask_to_merge, itertools.chain(made, made, made)):
                self.assertIn(answer, (202, base.GONE))
        for superposition_id, volume in zip(made, volumes, strict=True):
            self.merge(superposition_id)
            info = self.connection(volume)
            self.assertEqual('rbd', info['driver_volume_type'])
            self.qemu_io(volume, info, 'read -P 0xc1 0 16M', 'write -P 0xd2 0 16M')
        # No service merges a second time.
        self.assertEqual([], self.superpositions(state='merging'))
        for volume in volumes:
            self.qemu_io(volume, self.connection(volume), 'read -P 0xd2 0 16M')

    def ask_to_merge(self, superposition_id: str) -> int:
        """Request a merge, and return the status of the answer."""
        status: int = self.api().request(
            f'/os-superpositions/{superposition_id}/merge', 'POST',
            json={'merge': {'step': 'offline'}}).status_code
        return status
