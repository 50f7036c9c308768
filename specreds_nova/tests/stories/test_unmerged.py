# SPDX-License-Identifier: Apache-2.0
"""More of Nova's operations on servers that were adopted, before their merge."""

from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life
from specreds_nova.tests.cloud import test_afterwards

MUCH = test_afterwards.MUCH


class TestUnmerged(life.LifeTestCase):
    """Operations that wait for the merge, or leave it on its host."""

    def test_resize_keeps_the_overlay_on_its_host(self) -> None:
        recovery = self.adopted(fill=MUCH)
        server = recovery.server
        self.drill.enable(base.OTHER, False)
        self.addCleanup(self.drill.enable, base.OTHER)
        self.operate(server.id, 'resize', {'flavorRef': self.drill.flavor_id('m1.large')})
        self.wait_status(server.id, 'VERIFY_RESIZE')
        self.operate(server.id, 'confirmResize')
        self.wait_status(server.id, 'ACTIVE')
        self.wait_answer(server)
        self.assertEqual(['vda'], self.overlays(recovery))
        self.wait_merged(recovery)
        self.assert_filled(recovery, MUCH)
        self.assert_plain_and_durable(recovery)

    def test_delete_ends_the_superposition(self) -> None:
        recovery = self.adopted(fill=MUCH)
        # Deletes its volumes too, which Cinder keeps until they are merged.
        self.drill.delete(recovery.server.id)
        self.assertIsNone(self.drill.pid(recovery.server, base.BACKUP))
        self.assertIsNone(self.drill.state(recovery))

    def test_port_is_attached_before_the_merge(self) -> None:
        recovery = self.adopted(fill=MUCH)
        server = recovery.server
        attached = self.drill.compute.post(f'/servers/{server.id}/os-interface', json={
            'interfaceAttachment': {'net_id': self.drill.network_id()}}).json()
        mac = attached['interfaceAttachment']['mac_addr']
        with self.domain(recovery) as domain:
            self.assertIn(mac, domain.XMLDesc(0))
        self.assertEqual(['vda'], self.overlays(recovery))
        self.wait_merged(recovery)
        self.wait_answer(server)
        with self.domain(recovery) as domain:
            self.assertIn(mac, domain.XMLDesc(0))

    def test_unshelved_server_runs_on_merged_volumes(self) -> None:
        recovery = self.adopted(fill=MUCH)
        server = recovery.server
        self.operate(server.id, 'shelve')
        self.wait_status(server.id, 'SHELVED_OFFLOADED')
        # Nova chooses the host; a server starts elsewhere only on merged volumes.
        self.operate(server.id, 'unshelve')
        self.wait_status(server.id, 'ACTIVE')
        self.wait_answer(server)
        where = self.drill.active(server.id).host
        self.assert_filled(recovery, MUCH, where)
        self.assert_plain_and_durable(recovery, where)
