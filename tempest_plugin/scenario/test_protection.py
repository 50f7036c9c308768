# SPDX-License-Identifier: Apache-2.0
"""Tests of the protection of servers, and of its visibility."""

from tempest.common import utils
from tempest.lib import decorators

from tempest_plugin.common import personas
from tempest_plugin.common import servers


class ProtectionTest(personas.PersonasTest, servers.ServersTest):
    """A server that boots from a volume."""

    credentials = ['primary', *personas.PersonasTest.credentials]
    # A server that no other host could take is not protected.
    hosts_needed = 2

    @decorators.attr(type='slow')
    @decorators.idempotent_id('663e3dc8-07bb-446d-8ce5-27d2766ad5c2')
    @utils.services('compute', 'image', 'network', 'volume')
    def test_protection(self) -> None:
        """A server is protected unless its owner opts out; only administrators see hosts."""
        server = self.make_server()
        protection = self.protection.show_protection(server.id)['protection']
        self.assertEqual(
            (True, server.host, list(server.volumes)),
            (protection['protected'], protection['host'], list(protection['volumes'])),
            protection['reasons'])
        self.assertNotIn(server.host, protection['destinations'])
        self._assert_policies(server)
        self.servers.update_server_metadata(server.id, {'specreds:protect': 'false'})
        own = self.os_primary.speculative.ProtectionClient()
        protection = own.show_protection(server.id)['protection']
        self.assertFalse(protection['protected'])
        self.assertNotEqual([], protection['reasons'])

    def _assert_policies(self, server: servers.Server) -> None:
        """Assert what each persona sees of the protection."""
        self.assert_rule('server:protection', lambda clients: (
            clients.speculative.ProtectionClient().show_protection(server.id)))
        seeing = []
        for persona, clients in personas.PERSONAS.items():
            if persona != 'other':
                protection = getattr(self, clients).speculative.ProtectionClient(
                    ).show_protection(server.id)['protection']
                self.assertTrue(protection['protected'])
                seeing += [persona] if 'destinations' in protection else []
        self.assertEqual(list(personas.DETAILS['server:protection:details']), seeing)
