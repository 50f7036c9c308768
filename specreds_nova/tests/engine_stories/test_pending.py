# SPDX-License-Identifier: Apache-2.0
"""What users ask of a server whose host is dead: Nova takes it, and the host never does."""

from keystoneauth1 import exceptions as keystone_exceptions

from cloud.demo import recoveries
from cloud.hosts import host as hosts
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base

# Longer than a server that serves waits for others before it is adopted (`adopt_patience`).
_RIVAL = {'specreds:ready': 'delay:45'}


class _PendingTestCase(base.EngineTestCase):
    """A host has a server, and another one whose race takes longer."""

    def setUp(self) -> None:
        super().setUp()
        ids = [self.boot_later(metadata={'specreds:ready': 'delay:1'}),
               self.boot_later(metadata=_RIVAL)]
        self.server, self.rival = map(self.booted, ids)

    def request(self, action: str, body: object = None) -> None:
        """Request an action of Nova."""
        self.drill.act(self.server.id, action, body)

    def assert_pending(self, task: str) -> None:
        """Assert that the task of the server remains."""
        shown = self.drill.show(self.server.id)
        self.assertIn(task, str(shown['OS-EXT-STS:task_state']))

    def assert_left_alone(self, recovery: recoveries.Recovery) -> None:
        """Assert that the failed host leaves a server alone when it returns.

        The request of its user is still in the host's queue then.
        """
        self.host(cloud_base.PRIMARY).boot()
        self.trusted()
        shown = self.drill.show(self.server.id)
        self.assertEqual(('ACTIVE', None, recovery.destination), tuple(
            shown[key] for key in ('status', 'OS-EXT-STS:task_state', 'OS-EXT-SRV-ATTR:host')))
        self.assertEqual([recovery.destination], self.drill.running(self.server))
        self.assertEqual([recovery.destination], self.drill.bindings(self.server))


class TestPendingBefore(_PendingTestCase):
    """A host dies while it does what a user has asked for."""

    def test_reboot_before_the_suspicion_does_not_keep_the_server_there(self) -> None:
        self.request('reboot', {'type': 'HARD'})
        self.host(cloud_base.PRIMARY).kill()
        self.assert_pending('reboot')
        recovery = self.ended(self.server, recoveries.RECOVERED)
        self.assertTrue(recovery.begun('race'))
        self.assertRecovered(self.server)
        self.assertRecovered(self.rival)
        self.assert_left_alone(recovery)


class TestPending(_PendingTestCase):
    """A user asks for something after the host has died."""

    def setUp(self) -> None:
        super().setUp()
        self.host(cloud_base.PRIMARY).kill()

    def test_reboot_during_the_race_does_not_keep_the_server_there(self) -> None:
        self.begun(self.server)
        self._act('reboot', 'reboot', {'type': 'HARD'})
        self.assertRecovered(self.server)
        self.assertRecovered(self.rival)

    def test_server_that_is_stopped_after_the_decision_stays_stopped(self) -> None:
        recovery = self.begun(self.server, 'adopt')
        self._act('os-stop', 'powering-off')
        self.ended(self.server, recoveries.RECOVERED)
        shown = self.wait_status(self.server.id, 'SHUTOFF')
        self.assertEqual(recovery.destination, shown['OS-EXT-SRV-ATTR:host'])
        self.wait('no domain to run', lambda: self.drill.running(self.server) == [])
        self.drill.act(self.server.id, 'os-start')
        self.wait_status(self.server.id, 'ACTIVE')
        self.wait_answer(self.drill.active(self.server.id, str(recovery.destination)))
        self.assert_left_alone(recovery)

    def test_suspension_after_the_decision_is_dropped(self) -> None:
        self._assert_dropped('suspend', 'suspending')

    def test_shelving_after_the_decision_is_dropped(self) -> None:
        self._assert_dropped('shelve', 'shelving')

    def test_server_that_is_deleted_in_the_race_is_deleted_without_its_host(self) -> None:
        self.begun(self.server)
        self.drill.compute.delete(f'/servers/{self.server.id}')
        self.assertEqual('deleting', self.drill.show(self.server.id)['OS-EXT-STS:task_state'])
        # The primary is fenced after a minute, and the volumes are merged after another one.
        self.wait('its recovery to end', self._over, 360.0)
        self._assert_deleted()
        self.host(cloud_base.PRIMARY).boot()
        self.trusted()
        # The host has found the deletion in its queue.
        self.assertEqual([], self.drill.running(self.server))

    def test_server_that_is_deleted_after_the_decision_leaves_nothing(self) -> None:
        self.begun(self.server, 'adopt')
        self.drill.delete(self.server.id, volumes=False)
        self.wait('its recovery to end', self._over, 240.0)
        self._assert_deleted()

    def _assert_deleted(self) -> None:
        """Assert that nothing is left of a server but volumes, while its host is dead.

        Cinder keeps the volumes that are not merged when Nova deletes the server.
        """
        self.assertEqual(hosts.OFF, self.host(cloud_base.PRIMARY).state)
        self.assertRaises(keystone_exceptions.NotFound, self.drill.show, self.server.id)
        self.wait('all domains of the server to be gone',
                  lambda: self.drill.running(self.server) == [])
        self.assertEqual([], self.drill.ports(self.server))
        self.assertEqual({}, self.drill.allocations(self.server.id))
        self.wait('no superposition of its volumes to be left', lambda: not self._superposed())
        self.wait('the volumes that are left to be available',
                  lambda: set(self._volumes().values()) <= {'available'})
        self.wait('its user to have deleted them', self._cleared)

    def _assert_dropped(self, action: str, task: str) -> None:
        """Assert that a request after the decision changes nothing, also if the host returns."""
        recovery = self.begun(self.server, 'adopt')
        self._act(action, task)
        self.ended(self.server, recoveries.RECOVERED)
        self.wait_answer(self.drill.active(self.server.id, str(recovery.destination)))
        self.assert_left_alone(recovery)

    def _act(self, action: str, task: str, body: object = None) -> None:
        """Request an action of Nova, and assert that its task remains."""
        self.request(action, body)
        self.assert_pending(task)

    def _over(self) -> bool:
        recovery = self.engine.latest(self.server.id)
        return recovery is not None and recovery.over

    def _cleared(self) -> bool:
        """Delete the volumes that are left, and return whether none is.

        Deleting fails as long as Ceph takes the client of a dead host for alive.
        """
        left = self._volumes()
        for volume, status in left.items():
            if status == 'available':
                self.drill.volume.delete(f'/volumes/{volume}', raise_exc=False)
        return not left

    def _volumes(self) -> dict[str, str]:
        """Return the status of each volume of the server that Cinder still has."""
        known = self.drill.volume.get('/volumes/detail').json()['volumes']
        return {volume['id']: volume['status'] for volume in known
                if volume['id'] in self.server.volumes}

    def _superposed(self) -> list[str]:
        """Return the superpositions that have a volume of the server."""
        known = self.drill.volume.get('/os-superpositions?all_tenants=1').json()['superpositions']
        return [entry['id'] for entry in known
                if not set(self.server.volumes).isdisjoint(entry['volume_ids'])]
