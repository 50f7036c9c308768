# SPDX-License-Identifier: Apache-2.0
"""The network of DevStack's nodes, made and taken back."""

import fixtures

from cloud import commands
from cloud.devstack import layout
from cloud.devstack import network
from cloud.tests.devstack import base


class NetworkTest(base.DevstackTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.forwarding = self.data / 'forwarding'
        self.forwarding.write_text('0\n')
        self.devices = {'up0'}
        for name, new in (('_forwarding', lambda _device: self.forwarding),
                          ('_exists', lambda device: device in self.devices)):
            self.useFixture(fixtures.MonkeyPatch(f'cloud.devstack.network.{name}', new))
        self.network = network.Network(self.data / 'network.json')

    def test_uplink(self) -> None:
        self.assertEqual('eth0', network.uplink('192.0.2.255 via 10.0.0.1 dev eth0 src 10.0.0.9'))
        self.assertRaises(commands.CloudError, network.uplink, 'unreachable 192.0.2.255')

    def test_only_the_table_of_its_own_is_changed(self) -> None:
        text = network.rules(network.Changes(base.SUBNET, 'up0', '0'))
        self.assertEqual([f'table ip {network.TABLE} {{'],
                         [line for line in text.splitlines() if line.startswith('table')])
        self.assertIn(f'ip saddr {base.SUBNET} oifname "up0" masquerade', text)
        self.assertIn(f'ip daddr {base.SUBNET} iifname "up0" drop', text)

    def test_down_takes_back_what_up_did(self) -> None:
        calls = self.record_commands(ip='192.0.2.255 dev up0 src 10.0.0.9',
                                     nft=f'table ip other\ntable ip {network.TABLE}\n')
        self.network.up(base.SUBNET)
        self.devices.add(network.BRIDGE)
        self.assertEqual('1', self.forwarding.read_text())
        self.assertEqual(network.Changes(base.SUBNET, 'up0', '0'), self.network.changes)
        self.assertIn(['ip', 'link', 'add', network.BRIDGE, 'type', 'bridge'], calls)
        calls.clear()
        self.network.down()
        self.assertEqual('0', self.forwarding.read_text())
        self.assertIn(['ip', 'link', 'delete', network.BRIDGE], calls)
        self.assertIn(['nft', 'delete', 'table', 'ip', network.TABLE], calls)
        self.assertIsNone(self.network.changes)

    def test_second_up_keeps_the_former_forwarding(self) -> None:
        calls = self.record_commands(ip='192.0.2.255 dev up0')
        self.network.up(base.SUBNET)
        self.devices.add(network.BRIDGE)
        calls.clear()
        self.network.up(base.SUBNET)
        self.assertNotIn(['ip', 'link', 'add', network.BRIDGE, 'type', 'bridge'], calls)
        self.network.down()
        self.assertEqual('0', self.forwarding.read_text())

    def test_down_without_up_changes_nothing(self) -> None:
        calls = self.record_commands()
        self.network.down()
        self.assertEqual([], calls)

    def test_each_node_has_an_address_of_its_own(self) -> None:
        calls = self.record_commands(ip='192.0.2.255 dev up0')
        self.network.up(base.SUBNET)
        for index, address in enumerate(base.NODES):
            calls.clear()
            self.network.attach(7, index)
            self.assertIn(['ip', 'link', 'set', f'{layout.NODES[index]}-data', 'master',
                           network.BRIDGE, 'up'], calls)
            self.assertTrue(any(f'{address}/24' in call for call in calls))
            self.assertEqual(['default', 'via', '198.18.7.1'], calls[-1][-3:])

    def test_another_subnet_replaces_the_former(self) -> None:
        self.record_commands(ip='192.0.2.255 dev up0')
        self.network.up(base.SUBNET)
        self.network.up('198.18.8.0/24')
        changes = self.network.changes
        assert changes
        self.assertEqual(('198.18.8.0/24', '0'), (changes.subnet, changes.forwarding))
