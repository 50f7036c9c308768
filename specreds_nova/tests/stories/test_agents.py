# SPDX-License-Identifier: Apache-2.0
"""A primary whose port Neutron's agent skips, because its backup has a binding on another host."""

import re

from cloud import users
from cloud.hosts import services
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

# Seconds between two questions of a user, who takes three lost ones for an outage.
_ASK = 0.5
_MAC = 'fa:16:3e:00:00:01'


class TestAgents(life.LifeTestCase):
    """The agent of the primary's host is made to look at the port while the backup runs."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot()
        self.name = self.guest_name(self.server)
        [self.port] = self.drill.ports(self.server)
        self.user = users.Pinger(self.cloud, self.scratch())
        self.user.start(self.server.address, 'icmp', _ASK)
        self.addCleanup(self.user.close)
        self.wait('a user to see the primary', lambda: self.user.events('talker'))
        self.recovery = self.begin(self.server)

    def test_users_do_not_notice_a_restart_of_the_agent(self) -> None:
        before = self._cookies()
        self.assertTrue(before)
        self.host(base.PRIMARY).restart(services.AGENT)
        # A change on its host makes the agent drop the flows of its former run.
        self.boot()
        self.wait('the agent to have replaced all of its flows',
                  lambda: (after := self._cookies()) and not before & after)
        self._abort()

    def test_users_do_not_notice_a_change_of_the_port(self) -> None:
        pairs = [{'ip_address': self.server.address, 'mac_address': _MAC}]
        self.drill.network.put(f'/v2.0/ports/{self.port}', json={
            'port': {'allowed_address_pairs': pairs}})
        self._abort()
        self.wait('the agent to admit the other address', lambda: _MAC in self._flows())

    def _abort(self) -> None:
        """Abort the backup, and assert that no user has noticed anything."""
        for _ in range(10):
            self.assertTrue(self.cloud.tenant.answers(self.server.address))
        self.drill.abort(self.recovery)
        self.assertNothingLeft(self.recovery)
        self.wait_answer(self.server)
        self.assertEqual(self.name, self.guest_name(self.server))
        self.assertEqual([], self.user.stop()['outages'])

    def _flows(self) -> str:
        """Return the flows of the integration bridge of the primary's host."""
        return self.host(base.PRIMARY).run(['ovs-ofctl', 'dump-flows', 'br-int'])

    def _cookies(self) -> set[str]:
        """Return the cookies of the flows: each run of the agent has others."""
        return set(re.findall(r'cookie=(0x[0-9a-f]{2,})', self._flows()))
