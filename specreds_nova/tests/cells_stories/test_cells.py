# SPDX-License-Identifier: Apache-2.0
"""One set of engines recovers the servers of two cells."""

from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base


class TestCells(base.EngineTestCase):
    """Hosts cn1 and cn2 are in the second cell, host cn3 is alone in the first one."""

    def setUp(self) -> None:
        super().setUp()
        if self.cloud.settings.cells != 2:
            self.skipTest('bring the cloud up with --cells 2')
        *self.second, self.alone = self.cloud.settings.host_names

    def test_server_is_recovered_within_its_cell(self) -> None:
        server = self.boot()
        check = self.openstack('server', 'check', server.id)
        self.assertEqual(('speculative', self.second[1:]),
                         (check['recovery'], check['destinations']))
        primary = self.host(cloud_base.PRIMARY)
        primary.kill()
        self.assertEqual(cloud_base.BACKUP, self.assertRecovered(server).host)
        primary.boot()
        self.trusted()
        self.assertEqual([cloud_base.BACKUP], self.drill.running(server))

    def test_server_without_another_host_in_its_cell_has_no_destination(self) -> None:
        server = self.boot(self.alone)
        check = self.openstack('server', 'check', server.id, code=3)
        self.assertEqual(([], ['no other host has room for it']),
                         (check['destinations'], check['reasons']))
