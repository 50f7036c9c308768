# SPDX-License-Identifier: Apache-2.0
"""Tempest's tests on a DevStack."""

import importlib.util
import re
from unittest import mock

from cloud import commands
from cloud.devstack import container
from cloud.devstack import tempest
from cloud.tests.devstack import base

_TEMPEST_OUTPUT = """\
{0} setUpClass (tempest_plugin.scenario.test_killed.KilledTest) [0.000000s] ... SKIPPED: no command
{0} tempest_plugin.api.test_recoveries.Test.test_list[id-1] [0.234530s] ... ok
{1} tempest_plugin.api.test_recoveries.Test.test_show[id-2,smoke] [10.2s] ... FAILED
 - Passed: 1
 - Skipped: 1
 - Expected Fail: 2
 - Unexpected Success: 0
 - Failed: 1
"""


class SmokeTest(base.DevstackTestCase):
    """All of OpenStack's tests with the tag are run, but for those that cannot pass."""

    def chosen(self, name: str) -> bool:
        return re.search(tempest.SETS['smoke'], name) is not None

    def test_scenarios_are_chosen_as_apis_are(self) -> None:
        for place in ('api.volume.test_versions.Test', 'scenario.test_server_basic_ops.Test'):
            for tags, expected in (('id-1,smoke', True), ('id-1,multinode,smoke', True),
                                   ('id-1', False), ('id-1,slow', False)):
                self.assertEqual(expected, self.chosen(f'tempest.{place}.test_a[{tags}]'))
        self.assertFalse(self.chosen('tempest_plugin.api.test_recoveries.Test.test_a[id-1,smoke]'))

    def test_what_needs_ssh_is_left_out(self) -> None:
        module = 'tempest.scenario.test_network_basic_ops'
        self.assertIsNotNone(importlib.util.find_spec(module))
        self.assertFalse(self.chosen(f'{module}.Test.test_network_basic_ops[id-1,network,smoke]'))


class TempestTest(base.DevstackTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.container = mock.create_autospec(container.Container, instance=True)

    def run_tests(self, text: str) -> tempest.Totals:
        self.container.as_stack.return_value = ['sh', '-c', text]
        self.shown: list[str] = []
        return tempest.run(self.container, 'title', 'regex', self.data / 'log', self.shown.append)

    def test_totals(self) -> None:
        totals = self.run_tests(f"cat <<'END'\n{_TEMPEST_OUTPUT}\nEND\nexit 1")
        self.assertEqual(tempest.Totals(3, 1, 1), totals)
        self.assertEqual('3 passed, 1 failed, 1 skipped', str(totals))
        self.assertIn('title: ok      tempest_plugin.api.test_recoveries.Test.test_list[id-1]',
                      self.shown)
        self.assertIn('title: failed  '
                      'tempest_plugin.api.test_recoveries.Test.test_show[id-2,smoke]', self.shown)

    def test_tempest_that_does_not_run_names_the_log(self) -> None:
        for text in ('exit 1', 'exit 0', 'echo " - Passed: 1"; exit 2'):
            error = self.assertRaises(commands.CloudError, self.run_tests, text)
            self.assertIn(str(self.data / 'log'), str(error))
