# SPDX-License-Identifier: Apache-2.0
"""Backups on hosts whose network agents implement security groups by iptables."""

from cloud import drill as drills
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life


class TestHybrid(life.LifeTestCase):
    """A Linux bridge is between the guest and its box, and the agent's rules apply there."""

    def setUp(self) -> None:
        super().setUp()
        if self.cloud.settings.firewall != 'iptables_hybrid':
            self.skipTest('the cloud has another firewall; bring it up with --firewall '
                          'iptables_hybrid')

    def port(self, server: drills.Server) -> str:
        """Return the part of a port's id that is in the names of its devices."""
        [port] = self.drill.ports(server)
        return port[:11]

    def members(self, host: str, bridge: str) -> set[str]:
        """Return the devices in a Linux bridge."""
        links = self.host(host).run(['ip', '-o', 'link', 'show', 'master', bridge]).splitlines()
        return {link.split(': ')[1].partition('@')[0] for link in links}

    def rules(self, host: str, tap: str) -> list[str]:
        """Return the rules of iptables that name a guest's device."""
        return [rule for rule in self.host(host).run(['iptables', '-S']).splitlines()
                if tap in rule]

    def test_dropped_backup_leaves_no_linux_bridge(self) -> None:
        self.check_abort()

    def test_promoted_backup_is_behind_the_rules_of_its_device(self) -> None:
        server = self.boot()
        port = self.port(server)
        tap, veth = f'tap{port}', f'qvo{port}'
        before = set(self.rules(base.PRIMARY, tap))
        self.assertTrue(before)
        name = self.guest_name(server)
        self.host(base.PRIMARY).kill()
        recovery = self.begin(server)
        self.assertEqual({tap, f'qvb{port}'}, self.members(base.BACKUP, f'qbr{port}'))
        switch = self.host(base.BACKUP)
        self.assertEqual(f'sb{port}', switch.run(['ovs-vsctl', 'iface-to-br', veth]).strip())
        self.drill.promote(recovery)
        adopted = self.drill.adopt(recovery)
        self.assertNotEqual(name, self.guest_name(adopted))
        self.wait('the rules of the guest', lambda: before <= set(self.rules(base.BACKUP, tap)))
        self.drill.merged(recovery)
        # A reboot keeps the guest in its bridges.
        with self.assert_replaced_unseen(server):
            self.operate(server.id, 'reboot', {'type': 'HARD'})
            self.wait_status(server.id, 'ACTIVE')
        self.wait_answer(adopted)
        self.assertEqual({tap, f'qvb{port}'}, self.members(base.BACKUP, f'qbr{port}'))
