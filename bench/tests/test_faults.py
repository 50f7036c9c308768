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
        self.assertEqual(2 + 2 + 3, len(faults._cases(('race', 'adopt'))))

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
            [mock.call.kill_program(host_services.COMPUTE, number)
             for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT)],
            self.host.mock_calls)

    def test_tenants_network_is_left_to_a_host_that_is_cut_off(self) -> None:
        self._case('cut off').accident(self.injector, self.host)
        self.host.cut.assert_called_once_with(control=True, storage=True)
