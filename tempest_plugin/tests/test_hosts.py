# SPDX-License-Identifier: Apache-2.0
"""Tests of servers are skipped on clouds with too few hosts."""

from unittest import mock

import ddt
from tempest.scenario import manager
import testtools

from tempest_plugin.common import engine
from tempest_plugin.scenario import test_data
from tempest_plugin.scenario import test_killed
from tempest_plugin.scenario import test_protection


@ddt.ddt
class HostsNeededTest(testtools.TestCase):

    @ddt.data((test_data.DataTest, 1), (test_protection.ProtectionTest, 2),
              (test_killed.KilledTest, 2))
    @ddt.unpack
    def test_too_few_hosts(self, case: type[engine.EngineTest], needed: int) -> None:
        hosts = mock.Mock()
        with mock.patch.object(manager.ScenarioTest, 'resource_setup'), \
                mock.patch.object(case, 'hosts', hosts, create=True):
            hosts.list_hosts.return_value = {'hosts': [{}] * (needed - 1)}
            error = self.assertRaises(case.skipException, case.resource_setup)
            self.assertIn(f'needs {needed} hosts', str(error))
            hosts.list_hosts.return_value = {'hosts': [{}] * needed}
            case.resource_setup()
