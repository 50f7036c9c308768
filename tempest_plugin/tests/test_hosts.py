# SPDX-License-Identifier: Apache-2.0
"""Tests of servers need hosts that the engine trusts."""

from typing import Any
from unittest import mock

import ddt
import testtools

from tempest_plugin.common import engine
from tempest_plugin.common import hosts
from tempest_plugin.common import microversions
from tempest_plugin.scenario import test_data
from tempest_plugin.scenario import test_killed
from tempest_plugin.scenario import test_protection


@ddt.ddt
class HostsNeededTest(testtools.TestCase):

    @ddt.data((test_data.DataTest, 1), (test_protection.ProtectionTest, 2),
              (test_killed.KilledTest, 2))
    @ddt.unpack
    def test_cloud_with_too_few_hosts_is_skipped_and_unknown_hosts_are_a_failure(
            self, case: type[engine.EngineTest], needed: int) -> None:
        trusting, admin = mock.Mock(), mock.Mock()

        def hosts(computes: int, trusted: int) -> None:
            admin.services_client.list_services.return_value = {'services': [{}] * computes}
            trusting.list_hosts.return_value = {'hosts': [{}] * trusted}
        with mock.patch.object(microversions.MicroversionTest, 'resource_setup'), \
                mock.patch.object(case, 'hosts', trusting, create=True), \
                mock.patch.object(case, 'os_admin', admin, create=True):
            if needed > 1:
                hosts(needed - 1, needed - 1)
                error: Exception = self.assertRaises(case.skipException, case.resource_setup)
                self.assertIn(f'needs {needed} compute hosts', str(error))
            for computes, trusted in (needed, needed - 1), (needed, 0), (0, 0):
                hosts(computes, trusted)
                error = self.assertRaises(AssertionError, case.resource_setup)
                self.assertIn(f'trusts {trusted} of the {computes}', str(error))
            hosts(needed, needed)
            case.resource_setup()


class KillTest(testtools.TestCase):

    def test_recovery_that_ended_before_the_host_was_killed_is_ignored(self) -> None:
        case = hosts.DisturbingTest('setUp')
        case._former, case._agents = set(), {}
        former, latest = {'id': 'former'}, {'id': 'latest'}
        case.recoveries = mock.Mock()
        case.recoveries.list_recoveries.return_value = {'recoveries': [former]}
        case.recoveries.show_recovery.side_effect = lambda shown: {'recovery': {'id': shown}}
        server: Any = mock.Mock(id='s')
        self.assertEqual(former, case.recovery(server))
        with mock.patch.multiple(case, _act=mock.DEFAULT, _list_agents=lambda _host: []):
            case.kill('node')
        self.assertIsNone(case.recovery(server))
        case.recoveries.list_recoveries.return_value = {'recoveries': [latest, former]}
        self.assertEqual(latest, case.recovery(server))

    def test_agent_counts_when_it_has_reported_after_its_host_was_killed(self) -> None:
        for mark in ('started_at', 'heartbeat_timestamp'):
            case = hosts.DisturbingTest('setUp')
            case._former, case._agents, case.recoveries = set(), {}, mock.MagicMock()
            agent = {'id': 'a', 'alive': True, 'started_at': None, 'heartbeat_timestamp': '1',
                     mark: '1'}
            with mock.patch.object(case, '_act'), \
                    mock.patch.object(case, '_list_agents', return_value=[agent]):
                case.kill('node')
                self.assertFalse(case._networked('node'))
                agent[mark] = '2'
                self.assertTrue(case._networked('node'))
