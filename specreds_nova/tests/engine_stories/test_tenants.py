# SPDX-License-Identifier: Apache-2.0
"""What a user does while primary and backup race."""

from typing import Any
import uuid

from keystoneauth1 import exceptions as keystone_exceptions

from cloud import drill as drills
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
        self._act('os-stop', becomes='SHUTOFF')
        self._assert_spared('SHUTOFF', [])

    def test_paused_server_stays_paused(self) -> None:
        name = self.guest_name(self.server)
        self._act('pause', becomes='PAUSED')
        self._assert_spared('PAUSED', [cloud_base.PRIMARY])
        self._act('unpause', becomes='ACTIVE')
        self.assertUnnoticed(self.server, name)

    def test_rebooted_server_serves_on_one_host(self) -> None:
        self._act('reboot', {'type': 'HARD'}, becomes='ACTIVE')
        self._assert_ended(recoveries.PRIMARY, 'aborted', recoveries.RECOVERED)
        self._assert_serves()

    def test_suspended_server_resumes_with_its_network(self) -> None:
        name = self.guest_name(self.server)
        self._act('suspend', becomes='SUSPENDED')
        self._act('resume', becomes='ACTIVE')
        self._assert_ended(recoveries.PRIMARY, 'aborted')
        self.assertUnnoticed(self.server, name)

    def test_unshelved_server_serves_on_one_host(self) -> None:
        self._act('shelve', becomes='SHELVED_OFFLOADED')
        self._assert_ended(recoveries.PRIMARY, 'aborted')
        self._act('unshelve', becomes='ACTIVE')
        self._assert_serves()

    def test_live_migrated_server_serves_on_its_new_host(self) -> None:
        name = self.guest_name(self.server)
        [other] = {cloud_base.BACKUP, cloud_base.OTHER} - {self.recovery.destination}
        self.drill.migrate(self.server.id, other)
        self._assert_ended(recoveries.PRIMARY, 'aborted')
        self._assert_serves()
        self.assertEqual(name, self.guest_name(self.server))

    def test_deleted_server_leaves_nothing(self) -> None:
        self.drill.delete(self.server.id)
        self._assert_ended(recoveries.PRIMARY, 'aborted')
        self.wait('all backups to be gone', lambda: self.drill.running(self.server) == [])
        self.assertEqual([], list(self.drill.ports(self.server)))

    def test_evacuation_by_hand_is_refused(self) -> None:
        name = self.guest_name(self.server)
        self.assertRaises(keystone_exceptions.BadRequest, self.drill.act, self.server.id,
                          'evacuate', {'host': cloud_base.OTHER})
        self._assert_ended(recoveries.PRIMARY, recoveries.RECOVERED)
        here = self._assert_serves()
        if here.host == cloud_base.PRIMARY:
            self.assertUnnoticed(self.server, name)

    def test_volume_is_attached_only_after_the_decision(self) -> None:
        volume = self._volume()
        request = {'volumeAttachment': {'volumeId': volume}}
        path = f'/servers/{self.server.id}/os-volume_attachments'
        refusal = self.assertRaises(keystone_exceptions.BadRequest,
                                    self.drill.compute.post, path, json=request)
        assert refusal.response is not None
        self.assertIn('superposition', refusal.response.text)
        self.assertEqual('available', self._status(volume))
        self._over()
        self._assert_serves()
        self.drill.compute.post(path, json=request)
        self.wait('the volume to be attached', lambda: self._status(volume) == 'in-use')
        self.assertIn(volume, self._assert_serves().volumes)

    def test_attached_port_is_not_lost(self) -> None:
        attached = self.attach_port(self.server)
        self._over()
        self.assertIn(attached['mac_addr'], self._domain(self._assert_serves()))

    def test_detached_port_does_not_return(self) -> None:
        attached = self.attach_port(self.server)
        self.assertIn(attached['mac_addr'], self._domain(self.server))
        self.drill.compute.delete(
            f'/servers/{self.server.id}/os-interface/{attached["port_id"]}')
        self.wait('the port to be detached',
                  lambda: attached['port_id'] not in self.drill.ports(self.server))
        self._over()
        self.assertNotIn(attached['mac_addr'], self._domain(self._assert_serves()))

    def test_snapshot_of_its_volume_is_refused(self) -> None:
        [volume] = self.server.volumes
        refusal = self.assertRaises(
            keystone_exceptions.Conflict, self.drill.volume.post, '/snapshots',
            json={'snapshot': {'volume_id': volume, 'force': True}})
        assert refusal.response is not None
        self.assertIn('superposition', refusal.response.text)
        # Nova asks Cinder for one.
        self.assertRaises(keystone_exceptions.HttpError, self.drill.act, self.server.id,
                          'createImage', {'name': 'test'})
        self._assert_ended(recoveries.PRIMARY, recoveries.RECOVERED)
        self._assert_serves()

    def test_name_metadata_and_lock_are_kept(self) -> None:
        path = f'/servers/{self.server.id}'
        name = f'renamed-{uuid.uuid4().hex[:8]}'
        self.drill.compute.put(path, json={'server': {'name': name}})
        # The server is not protected from then on.
        self.drill.compute.post(f'{path}/metadata',
                                json={'metadata': {'specreds:protect': 'false'}})
        self.drill.act(self.server.id, 'lock')
        log = self.drill.act(self.server.id, 'os-getConsoleOutput', {'length': 5})
        self.assertNotEqual('', log['output'])
        self._assert_ended(recoveries.PRIMARY, recoveries.RECOVERED)
        self._assert_serves()
        shown = self.drill.show(self.server.id)
        self.assertEqual((name, 'false', True), (
            shown['name'], shown['metadata']['specreds:protect'], shown['locked']))

    def _act(self, action: str, body: Any = None, *, becomes: str) -> None:
        """Request an action on the server, and wait until the server has a status and no task."""
        self.drill.act(self.server.id, action, body)

        def reached() -> bool:
            shown = self.drill.show(self.server.id)
            self.assertNotEqual('ERROR', shown['status'], shown.get('fault'))
            return shown['status'] == becomes and shown['OS-EXT-STS:task_state'] is None
        self.wait(f'{self.server.name} to be {becomes}', reached)

    def _assert_ended(self, *outcomes: str) -> None:
        recovery = self._over()
        self.assertIn(recovery.outcome, outcomes, recovery.error or '')

    def _assert_spared(self, status: str, running: list[str]) -> None:
        """Assert that the server is on its host in a status, and that no backup is left."""
        self._assert_ended(recoveries.PRIMARY, 'aborted')
        shown = self.drill.show(self.server.id)
        self.assertEqual((status, cloud_base.PRIMARY),
                         (shown['status'], shown['OS-EXT-SRV-ATTR:host']))
        self.wait('all backups to be gone', lambda: self.drill.running(self.server) == running)

    def _assert_serves(self) -> drills.Server:
        """Assert that the server serves, and runs on the host that Nova names and on no other."""
        here = self.drill.active(self.server.id)
        self.wait_answer(here)
        self.wait('one domain of the server to run',
                  lambda: self.drill.running(self.server) == [here.host])
        # Nova removes that of an earlier host after the end of a live migration.
        self.wait('its port to have one binding',
                  lambda: self.drill.bindings(self.server) == [here.host])
        return here

    def _over(self) -> recoveries.Recovery:
        def found() -> recoveries.Recovery | None:
            recovery = self.engine.latest(self.server.id)
            return recovery if recovery is not None and recovery.over else None
        recovery: recoveries.Recovery = self.wait('the recovery to end', found, 240.0)
        return recovery

    def _domain(self, server: drills.Server) -> str:
        return self.host(server.host).virsh('dumpxml', server.id)

    def _volume(self) -> str:
        made: dict[str, Any] = self.drill.volume.post('/volumes', json={'volume': {
            'name': f'test-{uuid.uuid4().hex[:8]}', 'size': 1}}).json()['volume']
        volume = str(made['id'])
        self.addCleanup(self.drill.volume.delete, f'/volumes/{volume}', raise_exc=False)
        self.wait('the volume to exist', lambda: self._status(volume) == 'available')
        return volume

    def _status(self, volume: str) -> str:
        return str(self.drill.volume.get(f'/volumes/{volume}').json()['volume']['status'])
