# SPDX-License-Identifier: Apache-2.0
"""Several servers of a host that dies."""

from concurrent import futures

from specreds_nova.tests.cloud import base


class TestSeveral(base.NovaTestCase):
    """The backups are started, promoted and adopted concurrently."""

    def test_three_servers_are_recovered_at_once(self) -> None:
        with futures.ThreadPoolExecutor() as pool:
            servers = list(pool.map(lambda _: self.boot(), range(3)))
            names = {self.guest_name(server) for server in servers}
            self.host(base.PRIMARY).kill()
            recoveries = list(pool.map(self.begin, servers, (base.BACKUP, base.OTHER,
                                                             base.BACKUP)))
            list(pool.map(self.drill.promote, recoveries))
            self.drill.force_down(base.PRIMARY)
            list(pool.map(lambda recovery: self.drill.evacuate(
                recovery.server, recovery.host), recoveries))
            for server in servers:
                self.wait_answer(server)
                self.assertNotIn(self.guest_name(server), names)
            list(pool.map(self.drill.merged, recoveries))
