# SPDX-License-Identifier: Apache-2.0
"""The life of a backup: it is promoted, or it is dropped and no client notices."""

from cloud import users
from specreds_nova.tests.cloud import base


class TestWin(base.NovaTestCase):
    """The primary's host has died, so the backup becomes the server."""

    def test_acknowledged_transactions_survive(self) -> None:
        server = self.boot(image='g2', sizes=(2,))
        client = base.Client(self, server)
        client.start()
        client.wait_more(200)
        self.host(base.PRIMARY).kill()
        recovery = self.begin(server)
        pid = self.drill.pid(server, base.BACKUP)
        self.drill.promote(recovery)
        client.wait_more(50)
        adopted = self.drill.adopt(recovery)
        client.wait_more(50)
        self.drill.merged(recovery)
        client.wait_more(50)
        summary = client.stop()
        self.assertNotEqual([], summary['outages'])
        client.assert_nothing_lost()
        self.assertEqual(base.BACKUP, adopted.host)
        self.assertEqual(pid, self.drill.pid(server, base.BACKUP))

    def test_nova_shows_the_server_as_after_any_evacuation(self) -> None:
        server = self.boot(sizes=(2, 1))
        before = self.drill.show(server.id)
        attached = self._attachments(server.id)
        self.host(base.PRIMARY).kill()
        recovery = self.begin(server)
        self.drill.promote(recovery)
        adopted = self.drill.adopt(recovery)
        self.assertEqual(server.volumes, adopted.volumes)
        self.assertEqual(server.address, adopted.address)
        self.drill.merged(recovery)

        after = self.drill.show(server.id)
        self.assertEqual('active', after['OS-EXT-STS:vm_state'])
        self.assertEqual(1, after['OS-EXT-STS:power_state'])
        self.assertEqual(before['OS-EXT-SRV-ATTR:instance_name'],
                         after['OS-EXT-SRV-ATTR:instance_name'])
        [migration] = self.drill.compute.get('/os-migrations', params={
            'instance_uuid': server.id}).json()['migrations']
        self.assertEqual(('evacuation', 'done', base.PRIMARY, base.BACKUP), tuple(
            migration[key] for key in ('migration_type', 'status', 'source_compute',
                                       'dest_compute')))
        now = self._attachments(server.id)
        self.assertEqual(attached.keys(), now.keys())
        self.assertEqual({(base.BACKUP, 'attached')},
                         {(entry['host_name'], 'attached') for entry in now.values()})
        self.assertEqual({}, self.drill.claim(recovery))
        self.assertIn(self.drill.providers()[base.BACKUP], self.drill.allocations(server.id))
        self.assertIn(base.BACKUP, self.drill.bindings(server))

        # The host returns, and nothing of the server is left there.
        self.mend()
        self.assertEqual([], self.host(base.PRIMARY).domains())
        self.assertEqual([base.BACKUP], self.drill.bindings(server))
        self.assertEqual([self.drill.providers()[base.BACKUP]],
                         list(self.drill.allocations(server.id)))

    def _attachments(self, server_id: str) -> dict[str, dict[str, str]]:
        """Return Cinder's attachment of each volume of a server."""
        attachments = {}
        volumes = self.drill.volume.get('/volumes/detail').json()['volumes']
        for volume in volumes:
            own = [attachment for attachment in volume['attachments']
                   if attachment['server_id'] == server_id]
            if own:
                self.assertEqual(1, len(own), volume)
                attachments[volume['id']] = own[0]
        return attachments


class TestLose(base.NovaTestCase):
    """The primary is alive, so its backup is dropped and no client notices."""

    def test_primary_serves_without_errors_during_the_race(self) -> None:
        server = self.boot(image='g2')
        pid = self.drill.pid(server, base.PRIMARY)
        client = base.Client(self, server)
        # An answer may be slow where all hosts are one machine, but none may fail.
        client.start('--timeout', '60')
        client.wait_more(100)
        recovery = self.begin(server)
        client.wait_more(100)
        self.assertTrue(self.drill.check(recovery))
        self.drill.abort(recovery)
        client.wait_more(100)
        summary = client.stop()
        self.assertEqual([], users.failed(summary))
        client.assert_nothing_lost()
        self.assertEqual(pid, self.drill.pid(server, base.PRIMARY))
        self.assertNothingLeft(recovery)

    def test_collapse_is_won_by_a_primary_that_writes(self) -> None:
        server = self.boot()
        name = self.guest_name(server)
        recovery = self.begin(server)
        self.assertFalse(self.drill.check(recovery))
        self.heartbeat(server, 0.2)
        self.wait('the primary to have written', lambda: self.drill.check(recovery))
        self.assertEqual('dirty', self.drill.collapse(recovery))
        self.drill.backups.abort({}, recovery.host, recovery.id)
        self.assertEqual(name, self.guest_name(server))
        self.assertNothingLeft(recovery)

    def test_idle_primary_is_the_only_guest_that_answers(self) -> None:
        server = self.boot()
        name = self.guest_name(server)
        recovery = self.begin(server)
        self.assertIsNotNone(self.drill.pid(server, base.BACKUP))
        self.assertEqual({name}, {self.guest_name(server) for _ in range(5)})
        self.drill.abort(recovery)
        self.drill.abort(recovery)
        self.assertEqual(name, self.guest_name(server))
        self.assertNothingLeft(recovery)
