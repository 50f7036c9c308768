# SPDX-License-Identifier: Apache-2.0
"""Servers whose volumes cannot be superposed are shut out of them, and evacuated."""

from typing import Any

from cloud import drill as drills
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base

_MULTIATTACH = 'test-multiattach'


class TestShutOut(base.EngineTestCase):

    def shared_volume(self) -> str:
        """Create a volume that several servers can be attached to."""
        types = self.drill.volume.get('/types').json()['volume_types']
        if _MULTIATTACH not in [each['name'] for each in types]:
            self.drill.volume.post('/types', json={'volume_type': {
                'name': _MULTIATTACH, 'extra_specs': {
                    'volume_backend_name': 'rbd', 'multiattach': '<is> True'}}})
        volume_id: str = self.drill.volume.post('/volumes', json={'volume': {
            'size': 1, 'volume_type': _MULTIATTACH}}).json()['volume']['id']
        self.addCleanup(self.remove, volume_id)
        self.wait('the shared volume to be available',
                  lambda: self.volume(volume_id)['status'] == 'available')
        return volume_id

    def remove(self, volume_id: str) -> None:
        """Delete a volume, once no server has it."""
        self.wait('the shared volume to be available',
                  lambda: self.volume(volume_id)['status'] == 'available')
        self.drill.volume.delete(f'/volumes/{volume_id}')

    def volume(self, volume_id: str) -> dict[str, Any]:
        """Return Cinder's description of a volume."""
        shown: dict[str, Any] = self.drill.volume.get(f'/volumes/{volume_id}').json()['volume']
        return shown

    def attach(self, server: drills.Server, volume_id: str) -> None:
        """Attach a volume to a server."""
        self.drill.compute.post(f'/servers/{server.id}/os-volume_attachments', json={
            'volumeAttachment': {'volumeId': volume_id}})
        self.wait(f'{server.name} to have the volume', lambda: server.id in [
            attachment['server_id'] for attachment in self.volume(volume_id)['attachments']
            if attachment['attachment_id']] and self.volume(volume_id)['status'] == 'in-use')
        self.addCleanup(self.detach, server, volume_id)
        self.addCleanup(self.mend)

    def detach(self, server: drills.Server, volume_id: str) -> None:
        """Detach a volume from a server, so that it is not deleted with the server."""
        self.drill.compute.delete(f'/servers/{server.id}/os-volume_attachments/{volume_id}')
        self.wait(f'{server.name} not to have the volume', lambda: server.id not in [
            attachment['server_id'] for attachment in self.volume(volume_id)['attachments']])

    def test_server_with_a_shared_volume_is_evacuated_and_the_other_one_keeps_it(self) -> None:
        volume_id = self.shared_volume()
        server = self.boot(metadata={'specreds:ready': 'tcp:80'})
        neighbour = self.boot(cloud_base.OTHER, metadata={'HA_Enabled': 'false'})
        for each in (server, neighbour):
            self.attach(each, volume_id)
        name, other = self.guest_name(server), self.guest_name(neighbour)
        checked = self.openstack('server', 'check', server.id, code=3)
        self.assertIn('several times', str(checked))

        primary = self.host(cloud_base.PRIMARY)
        with self.assertFencedAlone(primary):
            primary.hang()
            here = self.assertEvacuated(server, name)
        self.assertEqual(other, self.guest_name(neighbour))

        # The guest that wakes up is ended, and only its host was fenced.
        primary.resume()
        self.wait_ended(server)
        self.trusted()
        self.assertEqual([here.host], self.drill.running(here))
        self.assertEqual(sorted([here.id, neighbour.id]), sorted(
            attachment['server_id'] for attachment in self.volume(volume_id)['attachments']))
