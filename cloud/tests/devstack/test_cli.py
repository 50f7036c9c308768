# SPDX-License-Identifier: Apache-2.0
"""The command line of ./run devstack."""

import io
import os
from unittest import mock

from cloud import commands
from cloud.devstack import cli
from cloud.devstack import devstack
from cloud.devstack import layout
from cloud.devstack import repositories
from cloud.devstack import tempest
from cloud.tests.devstack import base


class CommandLineTest(base.DevstackTestCase):

    def run_cli(self, *words: str, **variables: str) -> int:
        args = cli.parser({'SPECREDS_DATA': str(self.data), **variables}).parse_args(words)
        return cli.run(args, commands.silent)

    def test_only_root(self) -> None:
        with mock.patch.object(os, 'geteuid', return_value=1000):
            self.assertRaises(commands.CloudError, self.run_cli, 'status')

    @mock.patch.object(os, 'geteuid', return_value=0)
    @mock.patch.object(devstack.Devstack, 'up')
    def test_up(self, up: mock.Mock, _root: mock.Mock) -> None:
        self.assertEqual(0, self.run_cli('up'))
        self.assertEqual((1, layout.DEFAULT_SUBNET), up.call_args.args[:2])
        self.assertEqual({}, up.call_args.args[2].addresses())
        self.run_cli('up', '--nodes', '2', '--repository', 'nova=/new', '--subnet', base.SUBNET,
                     **{cli.REPOSITORIES: 'nova=/old devstack=/d', cli.FROM_PACKAGES: '1'})
        count, subnet, repos, mirror = up.call_args.args[:4]
        self.assertEqual((2, base.SUBNET, True, None),
                         (count, subnet, repos.from_packages, mirror))
        self.assertEqual({'devstack', *repositories.PACKAGES}, set(repos.addresses()))

    @mock.patch.object(os, 'geteuid', return_value=0)
    @mock.patch.object(devstack.Devstack, 'up')
    def test_platform_and_network_are_chosen_once(self, up: mock.Mock, _root: mock.Mock) -> None:
        data = self.data / 'devstack'
        self.assertEqual(0, self.run_cli('up', '--platform', 'debian-13', '--network', 'ovn'))
        chosen = layout.Choices('debian-13', 'ovn')
        self.assertEqual(chosen, layout.Choices.load(data))
        self.assertEqual(0, self.run_cli('up', '--network', 'ovn'))
        self.assertRaises(commands.CloudError, self.run_cli, 'up', '--network', 'openvswitch')
        self.assertEqual(2, up.call_count)
        self.assertEqual(chosen, layout.Choices.load(data))

    @mock.patch.object(os, 'geteuid', return_value=0)
    @mock.patch.object(devstack.Devstack, 'up')
    def test_choices_end_with_a_wipe(self, _up: mock.Mock, _root: mock.Mock) -> None:
        self.record_commands()
        data = self.data / 'devstack'
        self.run_cli('up', '--platform', 'debian-13', '--network', 'ovn')
        self.run_cli('down')
        error = self.assertRaises(commands.CloudError, self.run_cli, 'up', '--platform',
                                  'debian-12')
        self.assertIn('./run devstack wipe first', str(error))
        self.run_cli('wipe')
        self.assertIsNone(layout.Choices.load(data))
        self.assertEqual(0, self.run_cli('up', '--platform', 'debian-12'))
        self.assertEqual(layout.Choices('debian-12'), layout.Choices.load(data))

    @mock.patch.object(os, 'geteuid', return_value=0)
    def test_subnet_is_checked(self, _root: mock.Mock) -> None:
        error = self.assertRaises(commands.CloudError, self.run_cli, 'up', '--subnet', 'x')
        self.assertIn('--subnet x', str(error))

    @mock.patch.object(os, 'geteuid', return_value=0)
    @mock.patch.object(devstack.Devstack, 'test')
    def test_failed_test_is_the_exit_status(self, test: mock.Mock, _root: mock.Mock) -> None:
        for failed in (0, 1):
            test.return_value = {'chosen': tempest.Totals(1, failed, 0)}
            with mock.patch('sys.stdout', io.StringIO()) as output:
                self.assertEqual(failed, self.run_cli('test', 'tempest_plugin.api'))
            self.assertIn(f'chosen: 1 passed, {failed} failed', output.getvalue())
        self.assertEqual({'chosen': 'tempest_plugin.api'}, test.call_args.args[0])

    @mock.patch.object(os, 'geteuid', return_value=0)
    def test_status_of_nothing(self, _root: mock.Mock) -> None:
        with mock.patch('sys.stdout', io.StringIO()):
            self.assertEqual(3, self.run_cli('status'))
