# SPDX-License-Identifier: Apache-2.0
"""The faults that are injected into recoveries."""

import signal
import types
from unittest import mock

import testtools

from bench import faults
from cloud.hosts import services as host_services


class FaultsTest(testtools.TestCase):
    """The cases, and what each does to a host."""

    def setUp(self) -> None:
        super().setUp()
        self.host = mock.Mock()
        stage = mock.Mock()
        stage.cloud.host.return_value = self.host
        self.injector = faults._Injector(stage, mock.Mock())
        self.injector.wait_step = mock.Mock(return_value='e1')  # type: ignore[method-assign]

    def _case(self, word: str) -> faults._Case:
        [case] = [case for case in faults._cases(('race', 'adopt')) if word in case.what]
        return case

    def test_each_step_each_service_and_the_host_have_cases(self) -> None:
        self.assertEqual(2 + 2 * 3 + 2 + 3 + 4, len(faults._cases(('race', 'adopt'))))

    def test_engine_is_not_killed_in_a_step_that_only_some_recoveries_have(self) -> None:
        stage = mock.Mock()
        stage.recovery.return_value.steps = [
            types.SimpleNamespace(name=name) for name in ('race', 'unseen', 'collapse', 'race')]
        self.assertEqual(['race', 'collapse'], faults._steps(stage, mock.Mock()))

    def test_host_is_switched_off_and_on_during_the_race(self) -> None:
        self._case('reboots').harm(self.injector)
        self.assertEqual([mock.call.kill(), mock.call.boot()], self.host.mock_calls)

    def test_hung_service_says_goodbye_during_the_race(self) -> None:
        case = self._case('goodbye')
        with mock.patch('os.kill'):
            case.accident(self.injector, self.host)
        case.harm(self.injector)
        self.assertEqual(
            [mock.call.kill_program(host_services.SENTINEL),
             *(mock.call.kill_program(host_services.COMPUTE, number)
               for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT))],
            self.host.mock_calls)

    def test_nobody_speaks_for_a_dead_host(self) -> None:
        with mock.patch('os.kill'):
            self._case('live migration').accident(self.injector, self.host)
        self.assertEqual([mock.call.kill_program(host_services.SENTINEL),
                          mock.call.kill_program(host_services.COMPUTE)], self.host.mock_calls)

    def test_tenants_network_is_left_to_a_host_that_is_cut_off(self) -> None:
        self._case('cut off').accident(self.injector, self.host)
        self.host.cut.assert_called_once_with(control=True, storage=True)

    def test_database_goes_on_after_it_stood_still(self) -> None:
        self.injector._cloud.pid.return_value = 17  # type: ignore[attr-defined]
        with mock.patch('os.kill') as kill, mock.patch('time.sleep') as sleep:
            self._case('30 s when race').harm(self.injector)
        self.assertEqual([mock.call(17, signal.SIGSTOP), mock.call(17, signal.SIGCONT)],
                         kill.mock_calls)
        sleep.assert_called_once_with(30.0)

    def test_living_server_is_neither_recovered_nor_hidden(self) -> None:
        stage = mock.MagicMock()
        stage.cloud.ceph.settings.osds = 3
        stage.engine.ids.side_effect = [['a'], ['a'], [], ['b'], [], []]
        server, pinger = mock.Mock(), mock.Mock()
        pinger.events.return_value = [{'more': {'began': 1.0, 'ended': 3.5}}]
        stage.small.return_value.__enter__.return_value = (server, pinger)
        with mock.patch('os.kill'), mock.patch('time.sleep'):
            figures = faults.peace(stage)
        self.assertEqual(
            {'faults.broker_outage_backups': 0.0, 'faults.broker_outage_hidden_s': 2.5,
             'faults.database_stall_backups': 1.0, 'faults.database_stall_hidden_s': 2.5,
             'faults.ceph_stall_backups': 0.0, 'faults.ceph_stall_hidden_s': 2.5}, figures)
        self.assertEqual([mock.call(f'osd.{osd}', number) for number in
                          (signal.SIGSTOP, signal.SIGCONT) for osd in range(3)],
                         stage.cloud.ceph.signal_daemon.mock_calls)
