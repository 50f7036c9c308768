# SPDX-License-Identifier: Apache-2.0
"""Servers of many kinds on a host that fails: each one gets the promised recovery."""

import dataclasses
import uuid

from cloud import commands
from cloud import drill as drills
from cloud.demo import recoveries
from cloud.openstack import services
from specreds_nova import deployment
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.cloud import networks
from specreds_nova.tests.engine import base

_RESOURCE = 'CUSTOM_SPECREDS_TEST'
_PAIR = '10.77.0.251'


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A server, and why it cannot have a backup."""

    server_id: str
    reason: str


class TestKinds(base.EngineTestCase, networks.NeutronTestCase):
    """``server check`` names the recovery of each one beforehand."""

    def test_servers_without_backups_are_evacuated(self) -> None:
        # The first one has what is removed last.
        kinds = [self.special(), self.local(), self.trunk(), self.limited(), self.journaled()]
        servers = [self.drill.active(kind.server_id) for kind in kinds]
        names = [self.guest_name(server) for server in servers]
        for server in servers:
            self.write(server)
        self.record_writes(servers[-1])
        for kind in kinds:
            self.check(kind.server_id, recoveries.EVACUATED, kind.reason)

        primary = self.host(cloud_base.PRIMARY)
        with self.assertFencedAlone(primary):
            primary.hang()
            for server, name in zip(servers, names, strict=True):
                self.assertEvacuated(server, name)

        primary.resume()
        for server in servers:
            self.wait_ended(server)
            here = self.drill.active(server.id)
            self.assertEqual([here.host], self.drill.running(here))

    def test_server_with_address_pairs_is_recovered_and_one_without_volumes_stays(self) -> None:
        port = self.make('ports', network_id=self.drill.network_id(),
                         allowed_address_pairs=[{'ip_address': _PAIR}])
        pairs = self.port(port['id'])['allowed_address_pairs']
        ids = [self.boot_later(networks=[{'port': port['id']}]), self.boot_later(
            imageRef=self.drill.devices('g1', (2,))[0]['uuid'], block_device_mapping_v2=[])]
        server, left = map(self.booted, ids)
        self.check(left.id, 'none', 'does not boot from a volume')
        name = self.guest_name(left)

        primary = self.host(cloud_base.PRIMARY)
        primary.hang()
        self.assertRecovered(server)
        self.assertEqual(pairs, self.port(port['id'])['allowed_address_pairs'])
        primary.resume()
        self.trusted()
        self.assertIsNone(self.engine.latest(left.id))
        self.assertEqual(name, self.guest_name(left))

    def test_server_with_a_volume_of_another_driver_is_not_fenced(self) -> None:
        backend = self.cloud.backends[-1].name
        self.plain(backend)
        volume = {'boot_index': -1, 'source_type': 'blank', 'destination_type': 'volume',
                  'volume_size': 1, 'volume_type': backend, 'delete_on_termination': True}
        server = self.boot(block_device_mapping_v2=[*self.drill.devices('g1', (2,)), volume])
        self.check(server.id, recoveries.FAILED, 'its driver is RBDDriver')
        name = self.guest_name(server)

        primary = self.host(cloud_base.PRIMARY)
        before = self.cloud.ceph.blocklist()
        primary.hang()
        recovery = self.ended(server, recoveries.FAILED)
        self.assertIn('it could not be fenced', recovery.error or '')
        self.assertEqual(before, self.cloud.ceph.blocklist())
        primary.resume()
        self.trusted()
        self.assertUnnoticed(server, name)

    # Kinds of servers

    def local(self) -> _Kind:
        """Boot a server with a disk in a file of its host beside its volume."""
        blank = {'boot_index': -1, 'source_type': 'blank', 'destination_type': 'local',
                 'volume_size': 1, 'delete_on_termination': True}
        return _Kind(self.boot_later(
            flavor=self.flavor(ephemeral=1),
            block_device_mapping_v2=[*self.drill.devices('g1', (2,)), blank]),
            'is local to its host')

    def special(self) -> _Kind:
        """Boot a server with a resource that not every host has."""
        self.drill.placement.put(f'/resource_classes/{_RESOURCE}')
        self.addCleanup(self.drill.placement.delete, f'/resource_classes/{_RESOURCE}')
        providers = self.drill.providers()
        # A nova-compute asks for a provider that it knows until it is started again.
        for host in self.cloud.settings.host_names:
            self.addCleanup(self.drill.restart_compute, host)
        for host in self.cloud.settings.host_names:
            self.provide(providers[host])
        return _Kind(self.boot_later(flavor=self.flavor({f'resources:{_RESOURCE}': '1'})),
                     f'takes {_RESOURCE} from its host')

    def trunk(self) -> _Kind:
        """Boot a server with a trunk."""
        port = self.make('ports', network_id=self.drill.network_id())
        self.make('trunks', name=self.name('trunk'), port_id=port['id'])
        return _Kind(self.boot_later(networks=[{'port': port['id']}]), 'is the parent of a trunk')

    def limited(self) -> _Kind:
        """Boot a server whose port has a limit of bandwidth."""
        policies = '/v2.0/qos/policies'
        policy = self.drill.network.post(policies, json={
            'policy': {'name': self.name('policy')}}).json()['policy']['id']
        self.addCleanup(self.drill.network.delete, f'{policies}/{policy}')
        self.drill.network.post(f'{policies}/{policy}/bandwidth_limit_rules', json={
            'bandwidth_limit_rule': {'max_kbps': 100000}})
        port = self.make('ports', network_id=self.drill.network_id(), qos_policy_id=policy)
        return _Kind(self.boot_later(networks=[{'port': port['id']}]), 'has a limit of bandwidth')

    def journaled(self) -> _Kind:
        """Boot a server, and have Ceph record the writes to its volume in a journal."""
        return _Kind(self.boot_later(), 'journaled')

    # Helpers

    def check(self, server_id: str, recovery: str, reason: str) -> None:
        """Assert which recovery a server is promised, and why it is none with a backup."""
        checked = self.openstack('server', 'check', server_id, code=3)
        self.assertEqual(recovery, checked['recovery'])
        self.assertIn(reason, str(checked))

    def plain(self, backend: str) -> None:
        """Let a back end have the driver without the plug-in until the end of the test."""
        self.reconfigure(self.cloud.files.instance_conf(backend),
                         f'[{backend}]\nvolume_driver = {deployment.PLAIN_VOLUME_DRIVER}\n',
                         [services.cinder_volume(backend)])

    def record_writes(self, server: drills.Server) -> None:
        """Have Ceph record the writes to a server's volume in a journal."""
        commands.run(['rbd', '--conf', str(self.cloud.ceph.admin_conf), '--name', 'client.admin',
                      'feature', 'enable', f'volumes/volume-{server.volumes[0]}', 'journaling'])

    def provide(self, host: str) -> None:
        """Add some of the resource to a host, at a provider that nova-compute leaves alone."""
        placement, provider = self.drill.placement, str(uuid.uuid4())
        path = f'/resource_providers/{provider}'
        placement.post('/resource_providers', json={
            'name': self.name('provider'), 'uuid': provider, 'parent_provider_uuid': host})
        self.addCleanup(placement.delete, path)
        placement.put(f'{path}/inventories', json={
            'resource_provider_generation': 0, 'inventories': {_RESOURCE: {'total': 4}}})
