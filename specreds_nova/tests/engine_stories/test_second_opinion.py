# SPDX-License-Identifier: Apache-2.0
"""Hosts without nova-compute, whose guests are alive and write nothing."""

from cloud.demo import recoveries
from cloud.hosts import services
from specreds_nova.engine import model
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base


class TestSecondOpinion(base.EngineTestCase):
    """The primary stays if the sentinel of its host speaks for it."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot()
        self.name = self.guest_name(self.server)
        self.primary = self.host(cloud_base.PRIMARY)

    def fenced(self) -> set[str]:
        """Return the clients of the primary's host that are on the blocklist."""
        addresses = self.primary.run(['hostname', '-I']).split()
        return {client for client in self.cloud.ceph.blocklist()
                if client.rpartition(':')[0] in addresses}

    def voices(self) -> str:
        """Return which voices of the primary's host are heard."""
        [voices] = [host['Voices'] for host in self.openstack('host', 'list')
                    if host['Name'] == self.primary.name]
        return str(voices)

    def test_death_of_nova_compute_alone_begins_no_recovery(self) -> None:
        before = self.fenced()
        self.wait('both voices', lambda: self.voices() == model.BOTH)
        self.primary.kill_program(services.COMPUTE)
        self.wait('the sentinel alone', lambda: self.voices() == model.SENTINEL_ALONE)
        self.wait('Nova to miss nova-compute', lambda: not self.drill.compute_up(
            self.primary.name))
        self.assertEqual([], self.engine.ids(self.server.id))
        self.assertUnnoticed(self.server, self.name)
        self.primary.boot()
        self.trusted()
        self.wait('both voices', lambda: self.voices() == model.BOTH)
        self.assertEqual([], self.engine.ids(self.server.id))
        self.assertEqual(before, self.fenced())
        self.assertUnnoticed(self.server, self.name)

    def test_idle_primary_without_a_sentinel_is_recovered(self) -> None:
        before = self.fenced()
        self.primary.kill_program(services.SENTINEL)
        self.primary.kill_program(services.COMPUTE)
        self.ended(self.server, recoveries.RECOVERED)
        self.assertTrue(self.fenced() - before)
        # The guest of the primary has lost its volumes, and runs until its host returns.
        self.primary.boot()
        self.trusted()
        self.wait('the guest of the primary to be ended', lambda: not self.primary.domains())
        self.assertRecovered(self.server)
        self.assertNotEqual(self.name, self.guest_name(self.server))
