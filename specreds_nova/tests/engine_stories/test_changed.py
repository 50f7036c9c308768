# SPDX-License-Identifier: Apache-2.0
"""What users and operators change after the death of a host keeps no server from its recovery."""

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from cloud.openstack import nova
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.cloud import networks
from specreds_nova.tests.engine import base


class TestChanged(base.EngineTestCase, networks.NeutronTestCase):
    """Nova evacuates a server without its flavor, its key, and its project's quota."""

    def test_server_is_recovered_with_what_was_changed(self) -> None:
        compute, network = self.drill.compute, self.drill.network
        group = self.make('security_groups', name=self.name('group'))['id']
        self.make('security_group_rules', security_group_id=group, direction='ingress',
                  ethertype='IPv4')
        flavor, key = self.flavor_once(), self.key()
        server = self.boot(flavor=flavor, key_name=key)
        [port] = self.drill.ports(server)

        primary = self.host(cloud_base.PRIMARY)
        primary.hang()
        compute.delete(f'/flavors/{self.drill.flavor_id(flavor)}')
        compute.delete(f'/os-keypairs/{key}')
        compute.post(f'/servers/{server.id}/metadata', json={'metadata': {'changed': 'yes'}})
        network.put(f'/v2.0/ports/{port}', json={'port': {'security_groups': [group]}})
        # The request stays in the queue of the host, which finds it when it is back.
        compute.delete(f'/servers/{server.id}/os-interface/{port}')
        self.fill_quotas(self.drill.show(server.id)['tenant_id'])

        here = self.assertRecovered(server)
        self.assertEqual([group], self.port(port)['security_groups'])
        self.assertEqual('yes', self.drill.show(server.id)['metadata']['changed'])
        primary.resume()
        self.wait_ended(server)
        self.trusted()
        self.assertEqual([here.host], self.drill.bindings(server))
        self.wait_answer(here)

    def flavor_once(self) -> str:
        """Make a flavor that the test deletes, and return its name."""
        name = self.name('flavor')
        self.drill.compute.post('/flavors', json={'flavor': {
            'name': name, 'ram': nova.FLAVOURS['m1.g1'], 'vcpus': 1, 'disk': 0}})
        return name

    def key(self) -> str:
        """Make a key that the test deletes, and return its name."""
        name = self.name('key')
        public = ed25519.Ed25519PrivateKey.generate().public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        self.drill.compute.post('/os-keypairs', json={'keypair': {
            'name': name, 'type': 'ssh', 'public_key': public.decode()}})
        return name

    def fill_quotas(self, project: str) -> None:
        """Let a project have nothing more, until the end of the test."""
        for api, path, body in (
                (self.drill.compute, f'/os-quota-sets/{project}', {'quota_set': {
                    'instances': 0, 'cores': 0, 'ram': 0, 'force': True}}),
                (self.drill.volume, f'/os-quota-sets/{project}', {'quota_set': {
                    'volumes': 0, 'gigabytes': 0, 'snapshots': 0}}),
                (self.drill.network, f'/v2.0/quotas/{project}', {'quota': {
                    'port': 0, 'force': True}})):
            api.put(path, json=body)
            self.addCleanup(api.delete, path)
