# SPDX-License-Identifier: Apache-2.0
"""Tests of the protection of servers, and of its visibility."""

from tempest.lib import decorators
from tempest.lib import exceptions

from tempest_plugin.common import servers


class ProtectionTest(servers.ServersTest):
    """A server that boots from a volume."""

    credentials = ['primary', 'alt', 'admin']
    # A server that no other host could take is not protected.
    hosts_needed = 2

    @decorators.attr(type='slow')
    @decorators.idempotent_id('663e3dc8-07bb-446d-8ce5-27d2766ad5c2')
    def test_protection(self) -> None:
        """A server is protected unless its owner opts out; only administrators see hosts."""
        server = self.make_server()
        protection = self.protection.show_protection(server.id)['protection']
        self.assertEqual(
            (True, server.host, list(server.volumes)),
            (protection['protected'], protection['host'], list(protection['volumes'])),
            protection['reasons'])
        self.assertNotIn(server.host, protection['destinations'])
        own = self.os_primary.speculative.ProtectionClient()
        protection = own.show_protection(server.id)['protection']
        self.assertTrue(protection['protected'])
        self.assertNotIn('destinations', protection)
        other = self.os_alt.speculative.ProtectionClient()
        self.assertRaises(exceptions.NotFound, other.show_protection, server.id)
        self.servers.update_server_metadata(server.id, {'specreds:protect': 'false'})
        protection = own.show_protection(server.id)['protection']
        self.assertFalse(protection['protected'])
        self.assertNotEqual([], protection['reasons'])
