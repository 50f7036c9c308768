# SPDX-License-Identifier: Apache-2.0
"""Compute hosts that are suspected, and alive."""

from tempest.lib import decorators

from tempest_plugin.common import consistency
from tempest_plugin.common import guests
from tempest_plugin.common import servers

# Long enough for a primary to be noticed, whatever the host of the backup is like.
_SLOW = {'specreds:ready': 'delay:20'}


class _SuspectedTest(consistency.ConsistencyTest):
    """A server that writes lives on where it is, and nobody notices."""

    def setUp(self) -> None:
        super().setUp()
        self.need_guests_that_write()
        self.server = self.make_server(volumes=2, metadata=_SLOW)
        self.who = self.identity(self.server)
        self.guest.busy(True)

    @property
    def guest(self) -> guests.Guest:
        """The guest of the server."""
        guest = self.server.guest
        assert guest is not None
        return guest

    def assert_unnoticed(self, server: servers.Server) -> None:
        """See that a server is the one that it was, and that nothing of a backup is left."""
        recovery = self.ended(server, 'primary')
        self.assertEqual(self.who, self.identity(server))
        self.guest.busy(False)
        written = self.guest.write()
        self.assertEqual(written, self.guest.read())
        self.assert_consistent(server, server.host)
        self.assertNotIn('evacuation', [
            one['migration_type'] for one in
            self.os_admin.migrations_client.list_migrations()['migrations']
            if one['instance_uuid'] == server.id])
        self.assert_allocations(recovery['id'], [])


@decorators.serial
class SuspectedTest(_SuspectedTest):
    """By an operator's word."""

    @decorators.attr(type='slow')
    @decorators.idempotent_id('ce3cbee5-27d2-4204-a32d-c8af8b37ec40')
    def test_an_operators_word(self) -> None:
        """It counts until it is taken back; what the server writes counts more."""
        self.suspect(self.server.host)
        self.ended(self.server, 'primary')
        self.clear(self.server.host)
        self.assert_unnoticed(self.server)

    @decorators.attr(type='slow')
    @decorators.idempotent_id('dcff9af7-8ce9-4406-8cda-a4837cf64f36')
    def test_aborted(self) -> None:
        """A recovery that somebody ends is ended for the primary."""
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
    """By its silence."""

    disturbs = ('hang',)

    @decorators.attr(type='slow')
    @decorators.idempotent_id('8c7de483-6832-4078-8dc1-62bc4a935ecc')
    def test_a_host_that_hangs_and_goes_on(self) -> None:
        """It goes on before the backup is ready."""
        self.hang(self.server.host)
        self.begun(self.server)
        self.resume(self.server.host)
        self.assert_unnoticed(self.server)
