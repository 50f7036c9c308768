# SPDX-License-Identifier: Apache-2.0
"""A host that has lost all but the tenants' network hides its servers until it hears again."""

from cloud import drill as drills
from cloud.hosts import services
from specreds_nova.beats import renewals
from specreds_nova.tests.cloud import base


class TestLease(base.NovaTestCase):
    """The lease on the network, with the interfaces of real guests."""

    def setUp(self) -> None:
        super().setUp()
        self.primary = self.host(base.PRIMARY)
        self.server = self.boot()

    def test_isolated_host_hides_its_servers_until_it_is_connected(self) -> None:
        name = self.guest_name(self.server)
        self.assertTrue(self.shown(self.server))
        # This cloud has no engine, and a host that has never heard one hides nothing.
        teller = renewals.Teller(self.primary.files.state / 'nova' / 'specreds')
        self.addCleanup(teller.close)
        teller.tell(renewals.Renewal(renewals.now(), hides=True))
        self.primary.cut(control=True, storage=True)
        self.wait('the interface to be set down', lambda: not self.shown(self.server))
        # Ten looks of the sentinel.
        for _ in range(10):
            self.assertFalse(self.cloud.tenant.answers(self.server.address))
            self.assertFalse(self.shown(self.server))
        self.assertIsNotNone(self.drill.pid(self.server, base.PRIMARY))
        self.primary.heal()
        self.wait('the interface to be set up', lambda: self.shown(self.server))
        self.wait_answer(self.server)
        self.assertEqual(name, self.guest_name(self.server))
        # It takes a minute or more to notice by itself that its broker is reachable again.
        self.primary.restart(services.COMPUTE)
        self.drill.bring_up(base.PRIMARY)

    def shown(self, server: drills.Server) -> bool:
        """Return whether the interface of a server is administratively up."""
        listed = self.primary.virsh('domiflist', server.id).split()
        tap = next(word for word in listed if word.startswith('tap'))
        flags = self.primary.run(['ip', '-o', 'link', 'show', tap]).partition('<')[2]
        return 'UP' in flags.partition('>')[0].split(',')
