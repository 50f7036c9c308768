# SPDX-License-Identifier: Apache-2.0
"""Tests with compute hosts that die."""

from typing import Any

from tempest.common import utils
from tempest.lib import decorators
from tempest.lib import exceptions

from tempest_plugin.common import consistency
from tempest_plugin.common import personas
from tempest_plugin.common import servers

# Long enough to kill the destination before the backup is ready.
_SLOW = {'specreds:ready': 'delay:15'}


@decorators.serial
class KilledTest(personas.PersonasTest, consistency.ConsistencyTest):
    """A server is recovered on another host, with all of its writes."""

    credentials = ['primary', *personas.PersonasTest.credentials]
    disturbs = ('kill',)

    @decorators.attr(type='slow')
    @decorators.idempotent_id('ccb7a697-43c9-498d-a833-37e708d3ad30')
    @utils.services('compute', 'image', 'network', 'volume')
    def test_one_volume(self) -> None:
        """All services agree on the new host; only the owner's project sees the recovery."""
        server = self.make_server()
        recovery = self._killed_and_recovered(server)
        own = self.os_primary.speculative.RecoveriesClient()
        shown = own.show_recovery(recovery['id'])['recovery']
        self.assertEqual((server.id, 'recovered'), (shown['server_id'], shown['outcome']))
        for hidden in ('host', 'destination', 'engine', 'why'):
            self.assertNotIn(hidden, shown)
        self.assertEqual([recovery['id']], [entry['id'] for entry in own.list_recoveries(
            server_id=server.id)['recoveries']])
        self._assert_policies(recovery['id'])

    def _assert_policies(self, recovery_id: str) -> None:
        """Assert what each persona may do about a recovery that has ended."""
        self.assert_rule('recovery:show', lambda clients: (
            clients.speculative.RecoveriesClient().show_recovery(recovery_id)))
        self.assert_rule('recovery:abort', lambda clients: (
            clients.speculative.RecoveriesClient().abort_recovery(recovery_id)))
        self.assertRaises(exceptions.Conflict, self.recoveries.abort_recovery, recovery_id)

    @decorators.attr(type='slow')
    @decorators.idempotent_id('f73287d2-96a6-4531-9fd2-e7fdf860ed85')
    @utils.services('compute', 'image', 'network', 'volume')
    def test_two_volumes(self) -> None:
        """Both volumes are decided together, and keep their writes."""
        self._killed_and_recovered(self.make_server(volumes=2))

    def _killed_and_recovered(self, server: servers.Server) -> dict[str, Any]:
        who = self.identity(server) if server.guest else None
        written = server.guest.write() if server.guest and server.guest.writes else None
        self.kill(server.host)
        recovery = self.ended(server, 'recovered')
        self.assertNotEqual(server.host, recovery['destination'])
        if server.guest:
            self.assertNotEqual(who, self.identity(server))
        if server.guest and server.guest.writes:
            self.assertEqual(written, server.guest.read())
        moved = [(server.host, recovery['destination'])]
        self.assert_moved(server, recovery, moved, server.host)
        # A host that boots again needs no operator.
        self.boot(server.host)
        self.assert_cleaned(server)
        self.assert_moved(server, recovery, moved)
        return recovery


@decorators.serial
class SecondFailureTest(consistency.ConsistencyTest):
    """A second host dies during or after a recovery."""

    disturbs = ('kill',)
    hosts_needed = 3

    @decorators.attr(type='slow')
    @decorators.idempotent_id('0ced7792-fdc0-4922-96fb-7a03fe72088e')
    @utils.services('compute', 'image', 'network', 'volume')
    def test_the_host_of_the_backup(self) -> None:
        """If the destination dies before the backup is ready, a third host gets a backup."""
        server = self.make_server(metadata=_SLOW)
        written = server.guest.write() if server.guest and server.guest.writes else None
        self.kill(server.host)
        first = self.begun(server)['destination']
        self.kill(first)
        recovery = self.ended(server, 'recovered')
        self.assertNotIn(recovery['destination'], (server.host, first))
        if server.guest and server.guest.writes:
            self.identity(server)
            self.assertEqual(written, server.guest.read())
        moved = [(server.host, recovery['destination'])]
        self.assert_moved(server, recovery, moved, server.host, first)
        for host in (server.host, first):
            self.boot(host)
        self.assert_cleaned(server)
        # The engine removes the rest of the first backup some time after its host is back.
        self.wait('the claim of the first backup to be gone', lambda: not (
            self.os_admin.placement_client.list_allocations(recovery['id'])['allocations']))
        self.assert_moved(server, recovery, moved)

    @decorators.attr(type='slow')
    @decorators.idempotent_id('80b243c7-eccf-4ba2-b8e9-359db4346d29')
    @utils.services('compute', 'image', 'network', 'volume')
    def test_the_host_that_it_went_to(self) -> None:
        """If the destination dies after the recovery, the server is recovered once more."""
        server = self.make_server()
        self.kill(server.host)
        first = self.ended(server, 'recovered')
        if server.guest:
            self.identity(server)
        written = server.guest.write() if server.guest and server.guest.writes else None
        self.boot(server.host)
        self.kill(first['destination'])
        self.wait(f'another recovery of server {server.id}', lambda: (
            self.recovery(server) or first)['id'] != first['id'])
        second = self.ended(server, 'recovered')
        if server.guest and server.guest.writes:
            self.identity(server)
            self.assertEqual(written, server.guest.read())
        self.assert_moved(server, second, [(server.host, first['destination']),
                                           (first['destination'], second['destination'])],
                          first['destination'])
