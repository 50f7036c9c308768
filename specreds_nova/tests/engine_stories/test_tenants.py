# SPDX-License-Identifier: Apache-2.0
"""What a user does while primary and backup race."""

from typing import Any
import uuid

from cloud.demo import recoveries
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base


class TestTenants(base.EngineTestCase):
    """The host is only suspected, so that Nova does what the user asks for."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot(metadata={'specreds:ready': 'delay:20'})
        self.openstack('host', 'suspect', cloud_base.PRIMARY, '--reason', 'a story')
        self.addCleanup(self.openstack, 'host', 'clear', cloud_base.PRIMARY)
        self.recovery = self.begun(self.server)

    def test_stopped_server_stays_stopped(self) -> None:
        self.drill.act(self.server.id, 'os-stop')
        self.wait('the server to be stopped', lambda: self.drill.show(
            self.server.id)['status'] == 'SHUTOFF')
        recovery = self._over()
        self.assertIn(recovery.outcome, (recoveries.PRIMARY, 'aborted'),
                      recovery.error or '')
        shown = self.drill.show(self.server.id)
        self.assertEqual(('SHUTOFF', cloud_base.PRIMARY),
                         (shown['status'], shown['OS-EXT-SRV-ATTR:host']))
        self.wait('all backups to be gone', lambda: self.drill.running(self.server) == [])

    def test_attached_volume_is_not_lost(self) -> None:
        volume = self._volume()
        self.drill.compute.post(f'/servers/{self.server.id}/os-volume_attachments', json={
            'volumeAttachment': {'volumeId': volume}})
        self.wait('the volume to be attached', lambda: self._status(volume) == 'in-use')
        recovery = self._over()
        here = self.drill.active(self.server.id)
        self.assertIn(volume, here.volumes)
        self.wait_answer(here)
        self.assertEqual([here.host], self.drill.running(self.server), str(recovery.outcome))

    def _over(self) -> recoveries.Recovery:
        def found() -> recoveries.Recovery | None:
            recovery = self.engine.latest(self.server.id)
            return recovery if recovery is not None and recovery.over else None
        recovery: recoveries.Recovery = self.wait('the recovery to end', found, 240.0)
        return recovery

    def _volume(self) -> str:
        made: dict[str, Any] = self.drill.volume.post('/volumes', json={'volume': {
            'name': f'test-{uuid.uuid4().hex[:8]}', 'size': 1}}).json()['volume']
        volume = str(made['id'])
        self.addCleanup(self.drill.volume.delete, f'/volumes/{volume}', raise_exc=False)
        self.wait('the volume to exist', lambda: self._status(volume) == 'available')
        return volume

    def _status(self, volume: str) -> str:
        return str(self.drill.volume.get(f'/volumes/{volume}').json()['volume']['status'])
