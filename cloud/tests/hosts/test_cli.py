# SPDX-License-Identifier: Apache-2.0
"""The commands for hosts."""

import argparse
import re
from unittest import mock

import testtools

from cloud import commands
from cloud.hosts import cli


class CliTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.parser = argparse.ArgumentParser()
        shared = argparse.ArgumentParser(add_help=False)
        cli.add(self.parser.add_subparsers(dest='action'), shared)
        self.hosts = mock.Mock()
        self.printed: list[str] = []

    def run_command(self, *words: str) -> int:
        return cli.run(self.hosts, self.parser.parse_args(['host', *words]), self.printed.append)

    def test_several_hosts_are_killed(self) -> None:
        hosts_by_name = {name: mock.Mock(state='off') for name in ('cn1', 'cn2')}
        for name, host in hosts_by_name.items():
            host.name = name
        self.hosts.host = hosts_by_name.__getitem__
        self.assertEqual(0, self.run_command('kill', 'cn1', 'cn2'))
        for host in hosts_by_name.values():
            host.kill.assert_called_once_with()
        self.assertEqual(['cn1 is off', 'cn2 is off'], self.printed)

    def test_cut_names_the_network(self) -> None:
        self.hosts.host.return_value.cuts = ['storage']
        self.run_command('cut', 'cn1', '--storage')
        self.hosts.host.return_value.cut.assert_called_once_with(
            control=False, storage=True, tenant=False)
        self.assertRegex(self.printed[0], 'cut off from storage')

    def test_cut_needs_a_network(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'say what to cut', self.run_command, 'cut',
                               'cn1')

    def test_heal_without_a_network_heals_all(self) -> None:
        self.hosts.host.return_value.cuts = []
        self.run_command('heal', 'cn1')
        self.hosts.host.return_value.heal.assert_called_once_with(
            control=False, storage=False, tenant=False)
        self.assertRegex(self.printed[0], re.compile('cut off from nothing'))

    def test_client_needs_a_program(self) -> None:
        self.assertRaisesRegex(commands.CloudError, 'say what to run', self.run_command,
                               'client')

    def test_arguments_of_a_program_are_passed_on(self) -> None:
        self.hosts.tenant.argv.return_value = ['ip', 'netns']
        with mock.patch('os.execvp', side_effect=SystemExit) as execute:
            self.assertRaises(SystemExit, self.run_command, 'client', '--', 'ping', '-c', '1')
        self.hosts.tenant.argv.assert_called_once_with(['ping', '-c', '1'])
        execute.assert_called_once_with('ip', ['ip', 'netns'])
