# SPDX-License-Identifier: Apache-2.0
"""Tests with compute hosts that are suspected, but alive."""

from tempest.common import utils
from tempest.lib import decorators

from tempest_plugin.common import consistency
from tempest_plugin.common import guests
from tempest_plugin.common import servers

# Long enough for the engine to detect the primary on any host of the backup.
_SLOW = {'specreds:ready': 'delay:20'}


class _SuspectedTest(consistency.ConsistencyTest):
    """A server that writes stays on its host, undisturbed."""

    def setUp(self) -> None:
        super().setUp()
        self.need_guests_that_write()
        self.server = self.make_server(volumes=2, metadata=_SLOW)
        self.who = self.identity(self.server)
        self.guest.busy(True)

    @property
    def guest(self) -> guests.Guest:
        """Return the guest of the server."""
        guest = self.server.guest
        assert guest is not None
        return guest

    def assert_unnoticed(self, server: servers.Server) -> None:
        """Assert that the guest is the same, and that no trace of a backup is left."""
        recovery = self.ended(server, 'primary')
        self.assertEqual(self.who, self.identity(server))
        self.guest.busy(False)
        written = self.guest.write()
        self.assertEqual(written, self.guest.read())
        self.assert_consistent(server, server.host)
        self.assertNotIn('evacuation', [
            migration['migration_type'] for migration in
            self.os_admin.migrations_client.list_migrations()['migrations']
            if migration['instance_uuid'] == server.id])
        self.assert_allocations(recovery['id'], [])


@decorators.serial
class SuspectedTest(_SuspectedTest):
    """An operator suspects the host."""

    @decorators.attr(type='slow')
    @decorators.idempotent_id('ce3cbee5-27d2-4204-a32d-c8af8b37ec40')
    @utils.services('compute', 'image', 'network', 'volume')
    def test_an_operators_word(self) -> None:
        """A host stays suspected until it is cleared; the server's writes save the primary."""
        self.suspect(self.server.host)
        self.ended(self.server, 'primary')
        self.clear(self.server.host)
        self.assert_unnoticed(self.server)

    @decorators.attr(type='slow')
    @decorators.idempotent_id('dcff9af7-8ce9-4406-8cda-a4837cf64f36')
    @utils.services('compute', 'image', 'network', 'volume')
    def test_aborted(self) -> None:
        """An aborted recovery ends in favour of the primary."""
        self.guest.busy(False)
        self.suspect(self.server.host)
        recovery = self.begun(self.server)
        self.recoveries.abort_recovery(recovery['id'])
        self.ended(self.server, 'aborted')
        self.clear(self.server.host)
        self.assertEqual(self.who, self.identity(self.server))
        self.assert_consistent(self.server, self.server.host)


@decorators.serial
class HungTest(_SuspectedTest):
    """The host stops sending heartbeats."""

    disturbs = ('hang',)

    @decorators.attr(type='slow')
    @decorators.idempotent_id('8c7de483-6832-4078-8dc1-62bc4a935ecc')
    @utils.services('compute', 'image', 'network', 'volume')
    def test_a_host_that_hangs_and_goes_on(self) -> None:
        """A host that resumes before the backup is ready keeps its server."""
        self.hang(self.server.host)
        self.begun(self.server)
        self.resume(self.server.host)
        self.assert_unnoticed(self.server)
