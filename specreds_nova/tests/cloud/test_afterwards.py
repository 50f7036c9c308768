# SPDX-License-Identifier: Apache-2.0
"""Nova's operations on servers that were adopted, before their merge."""

from typing import Any
import xml.etree.ElementTree as ElementTree

from cloud import drill as drills
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

# MiB whose merge takes long enough for the operations of a test.
MUCH = 256


class TestBeforeTheMerge(life.LifeTestCase):
    """Between the adoption and the end of the merge."""

    def test_refused_operations_are_allowed_after_the_merge(self) -> None:
        recovery = self.adopted(server=self.boot(sizes=(2, 1),
                                               metadata={'specreds:ready': 'delay:1'}), fill=MUCH)
        server = recovery.server
        # On a busy machine it would end before the last operation.
        self.limit_merge(recovery, 1)
        name = self.guest_name(server)

        self.operate(server.id, 'suspend')
        self.assert_refused(server.id, 'suspend')
        self.operate(server.id, 'os-migrateLive', {'host': base.OTHER,
                                                   'block_migration': 'auto'})
        self.assert_refused(server.id, 'live-migration')
        self.wait_status(server.id, 'ACTIVE')
        self.drill.compute.delete(
            f'/servers/{server.id}/os-volume_attachments/{server.volumes[1]}')
        self.assert_refused(server.id, 'detach_volume')

        self.assertEqual(['vda', 'vdb'], self.overlays(recovery))
        self.assertEqual('ACTIVE', self.wait_status(server.id, 'ACTIVE')['status'])
        self.assertEqual(name, self.guest_name(server))
        self.limit_merge(recovery, 0)
        self.wait_merged(recovery)
        self.assertEqual(name, self.guest_name(server))
        self.assert_filled(recovery, MUCH)
        # After the merge it is allowed.
        self.drill.compute.delete(
            f'/servers/{server.id}/os-volume_attachments/{server.volumes[1]}')
        self.wait('the volume to be detached', lambda: self._detached(server.volumes[1]))
        self.addCleanup(self.drill.volume.delete, f'/volumes/{server.volumes[1]}')

    def test_allowed_operations_keep_the_overlay(self) -> None:
        recovery = self.adopted(fill=MUCH)
        server = recovery.server
        self.operate(server.id, 'pause')
        self.wait_status(server.id, 'PAUSED')
        self.operate(server.id, 'unpause')
        self.wait_status(server.id, 'ACTIVE')

        volume = self._volume()
        self._attach(server.id, volume)
        self.drill.compute.delete(f'/servers/{server.id}/os-volume_attachments/{volume}')
        self.wait('the volume to be detached', lambda: self._detached(volume))

        with self.assert_replaced_unseen(server):
            self._reboot(server, 'HARD')
        self._reboot(server, 'SOFT')
        self.operate(server.id, 'os-stop')
        self.wait_status(server.id, 'SHUTOFF')
        self.operate(server.id, 'os-start')
        self.wait_status(server.id, 'ACTIVE')
        # The merge has just begun once more.
        self.assertEqual(['vda'], self.overlays(recovery))
        self.wait_answer(server)
        self.wait_merged(recovery)
        self.wait_answer(server)
        self.assert_filled(recovery, MUCH)
        self.assert_plain_and_durable(recovery)
        # Of a server without overlays, which is started only if it is still here.
        self._reboot(server, 'SOFT')

    def test_host_that_was_wrongly_suspected_refuses_a_reboot_and_a_detach(self) -> None:
        # The host is alive, and does not know yet that its server's backup was promoted.
        recovery = self.promoted(server=self.boot(sizes=(1, 1),
                                                  metadata={'specreds:ready': 'delay:1'}))
        server = recovery.server
        self.drill.compute.delete(
            f'/servers/{server.id}/os-volume_attachments/{server.volumes[1]}')
        self.assert_refused(server.id, 'detach_volume', 'goes on with the volume on another host')
        self.assertEqual('in-use', self._status(server.volumes[1]))
        self.operate(server.id, 'reboot', {'type': 'HARD'})
        self.assert_refused(server.id, 'reboot', 'promoted for another host')
        self.drill.adopt(recovery)
        self.wait_answer(server)
        self.wait_merged(recovery)
        self.assert_plain_and_durable(recovery)

    def test_volume_attached_before_the_adoption_is_plugged(self) -> None:
        # The host is alive, and its nova-compute attaches what a user wants.
        recovery = self.promoted()
        server, volume = recovery.server, self._volume()
        self._attach(server.id, volume)
        name = self.guest_name(server)
        self.drill.adopt(recovery)
        with self.domain(recovery) as domain:
            disks = [disk.findtext('serial') for disk in
                     ElementTree.fromstring(domain.XMLDesc(0)).findall('./devices/disk')]
        self.assertEqual([*server.volumes, volume], disks)
        self.assertEqual(name, self.guest_name(server))
        self.wait_merged(recovery)
        self.drill.compute.delete(f'/servers/{server.id}/os-volume_attachments/{volume}')
        self.wait('the volume to be detached', lambda: self._detached(volume))

    # Volumes

    def _attach(self, server_id: str, volume_id: str) -> None:
        self.drill.compute.post(f'/servers/{server_id}/os-volume_attachments', json={
            'volumeAttachment': {'volumeId': volume_id}})
        self.wait('the volume to be attached', lambda: self._status(volume_id) == 'in-use')

    def _volume(self) -> str:
        made = self.drill.volume.post('/volumes', json={'volume': {'size': 1}}).json()['volume']
        self.addCleanup(self.drill.volume.delete, f'/volumes/{made["id"]}', raise_exc=False)
        self.wait('the volume to be made', lambda: self._status(made['id']) == 'available')
        return str(made['id'])

    def _status(self, volume_id: str) -> str:
        shown: dict[str, Any] = self.drill.volume.get(f'/volumes/{volume_id}').json()['volume']
        return str(shown['status'])

    def _reboot(self, server: drills.Server, how: str) -> None:
        """Reboot a server, and wait until it has booted again."""
        before = self.guest_name(server)
        self.operate(server.id, 'reboot', {'type': how})
        self.wait_status(server.id, 'ACTIVE')
        self.wait_answer(server)
        self.wait('another boot', lambda: self.guest_name(server) != before)

    def _detached(self, volume_id: str) -> bool:
        return self._status(volume_id) == 'available'
