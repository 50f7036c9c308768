# SPDX-License-Identifier: Apache-2.0
"""Hosts that are suspected, and alive."""

from cloud.demo import recoveries
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base


class TestSuspicions(base.EngineTestCase):
    """Nobody may notice, unless the primary has nothing to say for itself."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot()
        self.name = self.who(self.server)

    def test_a_primary_that_writes(self) -> None:
        self.heartbeat(self.server, 0.1)
        self.host(cloud_base.PRIMARY).cut(control=True)
        self.ended(self.server, recoveries.PRIMARY)
        self.host(cloud_base.PRIMARY).heal()
        self.trusted()
        self.assertUnnoticed(self.server, self.name)

    def test_a_primary_that_nobody_hears_of(self) -> None:
        # It does not write: its backup is as good, and is what the cloud can reach.
        host = self.host(cloud_base.PRIMARY)
        host.cut(control=True)
        self.assertRecovered(self.server)
        host.heal()
        self.trusted()
        self.assertEqual([], host.domains())
        self.assertNotEqual(self.name, self.who(self.server))

    def test_an_operators_word(self) -> None:
        self.openstack('host', 'suspect', cloud_base.PRIMARY, '--reason', 'a drill')
        recovery = self.ended(self.server, recoveries.PRIMARY)
        self.openstack('host', 'clear', cloud_base.PRIMARY)
        self.trusted()
        self.assertUnnoticed(self.server, self.name)
        [listed] = self.openstack('recovery', 'list', '--server', self.server.id)
        self.assertIn(recovery.id, listed.values())

    def test_a_host_that_hangs_and_goes_on(self) -> None:
        self.heartbeat(self.server, 0.1)
        host = self.host(cloud_base.PRIMARY)
        host.hang()
        self.begun(self.server)
        host.resume()
        self.ended(self.server, recoveries.PRIMARY)
        self.trusted()
        self.assertUnnoticed(self.server, self.name)
