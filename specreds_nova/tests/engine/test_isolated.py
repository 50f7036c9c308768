# SPDX-License-Identifier: Apache-2.0
"""A host that hears nobody, and still has its guest and the tenants' network."""

from cloud import users
from cloud.demo import recoveries
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base

# Seconds between two questions of a user.
_ASK = 0.1


class TestIsolated(base.EngineTestCase):
    """Nothing tells the guest that it has been fenced, and it answers out of its memory."""

    def test_users_do_not_see_the_primary_once_they_have_seen_the_backup(self) -> None:
        server = self.boot()
        name = self.guest_name(server)
        primary = self.host(cloud_base.PRIMARY)
        user = users.Pinger(self.cloud, self.scratch())
        user.start(server.address, 'who', _ASK)
        self.addCleanup(user.stop)
        self.wait('a user to see the primary', lambda: user.events('talker'))
        primary.cut(control=True, storage=True)
        self.ended(server, recoveries.RECOVERED)
        self.assertIsNotNone(self.drill.pid(server, cloud_base.PRIMARY))
        second = self.guest_name(self.drill.active(server.id))
        primary.heal()
        self.wait_ended(server)
        self.assertEqual([name, second], [event['more']['who'] for event in user.events('talker')])
