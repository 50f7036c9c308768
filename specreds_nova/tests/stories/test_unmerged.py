# SPDX-License-Identifier: Apache-2.0
"""More of Nova's operations on servers that were adopted, before their merge."""

import uuid

from keystoneauth1 import exceptions as keystone_exceptions

from cloud import drill as drills
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
        mac = self.attach_port(server)['mac_addr']
        self.assertTrue(self._has(recovery, mac))
        self.assertEqual(['vda'], self.overlays(recovery))
        self.wait_merged(recovery)
        self.wait_answer(server)
        self.assertTrue(self._has(recovery, mac))

    def test_port_is_detached_before_the_merge(self) -> None:
        recovery = self.adopted(fill=MUCH)
        server = recovery.server
        attached = self.attach_port(server)
        self.drill.compute.delete(f'/servers/{server.id}/os-interface/{attached["port_id"]}')
        self.wait('the port to be detached',
                  lambda: not self._has(recovery, attached['mac_addr']))
        self.assertEqual(['vda'], self.overlays(recovery))
        self.wait_merged(recovery)
        self.wait_answer(server)
        self.assertFalse(self._has(recovery, attached['mac_addr']))

    def test_name_metadata_lock_and_console_are_as_ever_before_the_merge(self) -> None:
        recovery = self.adopted(fill=MUCH)
        server, path = recovery.server, f'/servers/{recovery.server.id}'
        name = f'renamed-{uuid.uuid4().hex[:8]}'
        self.drill.compute.put(path, json={'server': {'name': name}})
        self.drill.compute.post(f'{path}/metadata', json={'metadata': {'kind': 'other'}})
        self.drill.act(server.id, 'lock')
        log = self.drill.act(server.id, 'os-getConsoleOutput', {'length': 5})
        self.assertNotEqual('', log['output'])
        refusal = self.assertRaises(
            keystone_exceptions.Conflict, self.drill.volume.post, '/snapshots',
            json={'snapshot': {'volume_id': server.volumes[0], 'force': True}})
        assert refusal.response is not None
        self.assertIn('superposition', refusal.response.text)
        self.assertEqual(['vda'], self.overlays(recovery))
        self.wait_merged(recovery)
        self.wait_answer(server)
        shown = self.drill.show(server.id)
        self.assertEqual((name, 'other', True), (
            shown['name'], shown['metadata']['kind'], shown['locked']))

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

    def _has(self, recovery: drills.Recovery, mac: str) -> bool:
        """Return whether the domain of a promoted server has a port."""
        with self.domain(recovery) as domain:
            return mac in domain.XMLDesc(0)
