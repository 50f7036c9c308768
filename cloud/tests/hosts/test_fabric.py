# SPDX-License-Identifier: Apache-2.0
"""The networks that hosts share, and links that are cut."""

import json
import subprocess
from typing import Any

import fixtures

from cloud import commands
from cloud.hosts import fabric
from cloud.openstack import layout
from cloud.tests.hosts import base


class FabricTest(base.HostsTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.calls: list[list[str]] = []
        self.links = '[]'
        self.useFixture(fixtures.MockPatch('cloud.commands.run', self._run))
        self.useFixture(fixtures.MockPatch('subprocess.run', self._try))
        self.root = self.useFixture(fixtures.MockPatch('os.geteuid', return_value=0)).mock
        self.settings = layout.Settings(port=65000, hosts=3)
        self.fabric = fabric.Fabric(self.settings)

    def _run(self, argv: list[str], *_args: Any, **_options: Any) -> str:
        self.calls.append(argv)
        return self.links if '-j' in argv else ''

    def _try(self, argv: list[str], **options: Any) -> 'subprocess.CompletedProcess[str]':
        self.calls.append([*argv, options.get('input', '')])
        return subprocess.CompletedProcess(argv, 1 if '-j' in argv else 0, '', '')

    def test_names_of_devices_are_short_enough(self) -> None:
        self.fabric.up()
        self.fabric.attach('cn8', 4711, self.files.ethernet)
        names = [words[words.index(kind) + 1] for words in self.calls
                 for kind in ('add', 'name') if kind in words and 'link' in words]
        self.assertIn('cn8-control', names)
        self.assertIn('sr65000-c', names)
        self.assertEqual([], [name for name in names if len(name) > 15])

    def test_packets_from_other_interfaces_are_dropped(self) -> None:
        self.fabric.up()
        [rules] = [words[-1] for words in self.calls if words[:3] == ['nft', '-f', '-']]
        for network in (self.settings.control, self.settings.storage):
            self.assertIn(str(network), rules)
        self.assertRegex(rules, r'iifname != \{ "lo", "sr65000-c", "sr65000-s" \} drop')

    def test_addresses_are_added_last(self) -> None:
        self.fabric.up()
        words = self.calls[-1]
        self.assertEqual(['address', 'add', f'{self.settings.storage_host}/25', 'dev',
                          'sr65000-s'], words[1:])

    def test_only_root_creates_networks(self) -> None:
        self.root.return_value = 1000
        self.assertRaisesRegex(commands.CloudError, 'only root', self.fabric.up)

    def test_cut_and_heal_set_links_down_and_up(self) -> None:
        self.fabric.cut('cn1', ['storage'])
        self.fabric.heal('cn1', ['storage', 'tenant'])
        self.assertEqual([['cn1-storage', 'down'], ['cn1-storage', 'up'], ['cn1-tenant', 'up']],
                         [words[-2:] for words in self.calls])

    def test_cuts_are_the_links_that_are_down(self) -> None:
        self.links = json.dumps([{'ifname': 'cn1-storage', 'flags': ['BROADCAST']},
                                 {'ifname': 'cn1-tenant', 'flags': ['UP', 'LOWER_UP']},
                                 {'ifname': 'cn2-control', 'flags': []}])
        self.assertEqual(['storage'], self.fabric.cuts('cn1'))
        self.assertEqual([], self.fabric.cuts('cn3'))
