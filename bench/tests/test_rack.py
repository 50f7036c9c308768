# SPDX-License-Identifier: Apache-2.0
"""The simulated cloud of the benchmark of a rack that fails."""

import testtools

from bench import rack


class RackTest(testtools.TestCase):
    """Hosts that die, and those that take over their servers."""

    def setUp(self) -> None:
        super().setUp()
        self.cloud = rack.Rack(2, 3)

    def test_servers_of_dead_hosts_have_candidates_that_live(self) -> None:
        servers = [server for host in self.cloud.dead for server in self.cloud.servers(host)]
        self.assertEqual(self.cloud.servers_there, len(servers))
        healthy = set(self.cloud.healthy())
        for server in servers:
            self.assertTrue(healthy.issuperset(self.cloud.candidates(server)))
            self.assertTrue(self.cloud.suspected(server.host))

    def test_evacuated_server_is_on_its_new_host(self) -> None:
        server = self.cloud.servers('dead0')[0]
        self.cloud.evacuate(server.id, 'host1', False)
        moved = self.cloud.server(server.id)
        self.assertEqual('host1', moved.host if moved else None)

    def test_promoted_backup_serves_until_its_volumes_are_merged(self) -> None:
        server = self.cloud.servers('dead0')[0]
        superposition = self.cloud.superpose(server, 'recovery', 'silence')
        self.cloud.begin('host1', 'backup', server.id, superposition)
        self.assertFalse(self.cloud.status('host1', 'backup')['ready'])
        self.cloud.collapse(superposition)
        self.cloud.promote('host1', 'backup')
        self.assertEqual([server.id], list(self.cloud.served))
        self.assertEqual('promoted', self.cloud.state(superposition))
        self.cloud.written(superposition)
        self.assertIsNone(self.cloud.state(superposition))
