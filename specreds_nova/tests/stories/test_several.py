# SPDX-License-Identifier: Apache-2.0
"""Several servers of a host that dies."""

from concurrent import futures

from specreds_nova.tests.cloud import base


class TestSeveral(base.NovaTestCase):
    """Their backups are started, promoted and adopted side by side."""

    def test_several_at_once(self) -> None:
        with futures.ThreadPoolExecutor() as pool:
            servers = list(pool.map(lambda _: self.boot(), range(3)))
            names = {self.who(server) for server in servers}
            self.host(base.PRIMARY).kill()
            recoveries = list(pool.map(self.begin, servers, (base.BACKUP, base.OTHER,
                                                             base.BACKUP)))
            list(pool.map(self.drill.promote, recoveries))
            self.drill.force_down(base.PRIMARY)
            list(pool.map(lambda one: self.drill.evacuate(one.server, one.host), recoveries))
            for server in servers:
                self.wait_answer(server)
                self.assertNotIn(self.who(server), names)
            list(pool.map(self.drill.merged, recoveries))
