# SPDX-License-Identifier: Apache-2.0
"""Boots of hosts, as an engine reports them to Cinder."""

import types
from typing import Any
from unittest import mock

import testtools

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine.recovery import boots

_NOW = 1795510800.0
_HOUR = 3600.0


class BootsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.time = self.time_of_day = _NOW
        self.kernels = {'h1': 'k1'}
        self.answers: dict[str, Any] = {
            'h1': {'kernel': 'k1', 'uptime': _HOUR, 'addresses': ['192.0.2.1']}}
        self.hosts: Any = mock.Mock()
        self.hosts.boot.side_effect = self.boot
        self.volumes: Any = mock.Mock()
        self.volumes.release.return_value = ['192.0.2.1:0/1']
        clock: Any = types.SimpleNamespace(now=lambda: self.time)
        self.boots = boots.Boots(lambda: self.kernels, self.hosts, self.volumes, clock, 600.0,
                                 lambda: self.time_of_day)

    def boot(self, host: str) -> Any:
        """Answer in place of a host, some seconds later."""
        self.time += 5.0
        answer = self.answers[host]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reported(self) -> list[Any]:
        """Look, and return what is reported to Cinder."""
        self.volumes.release.reset_mock()
        self.boots.look()
        return [boot for call in self.volumes.release.mock_calls for boot in call.args[0]]

    def ages(self) -> list[float]:
        """Look, and return the ages of boots that are reported to Cinder."""
        return [boot['age_seconds'] for boot in self.reported()]

    def test_boot_is_not_reported_later_than_it_was(self) -> None:
        # The request for the uptime, an hour, is 5 seconds old.
        self.assertEqual([{'addresses': ['192.0.2.1'], 'age_seconds': _HOUR + 5.0}],
                         self.reported())

    def test_clock_that_is_wrong_or_set_back_changes_no_age(self) -> None:
        self.reported()
        self.time += 600.0
        self.time_of_day = 0.0
        self.assertEqual([_HOUR + 605.0], self.ages())

    def test_suspension_of_the_engine_counts(self) -> None:
        self.reported()
        self.time += 600.0
        self.time_of_day += 7200.0
        self.assertEqual([_HOUR + 7200.0], self.ages())

    def test_report_is_repeated_without_asking_the_host_again(self) -> None:
        self.reported()
        self.time += 500.0
        self.assertEqual([], self.reported())
        self.time += 100.0
        self.assertEqual([_HOUR + 605.0], self.ages())
        self.hosts.boot.assert_called_once_with('h1')

    def test_new_boot_is_reported_at_once(self) -> None:
        self.reported()
        self.kernels['h1'] = 'k2'
        self.answers['h1'] = {'kernel': 'k2', 'uptime': 5.0, 'addresses': ['192.0.2.1']}
        self.assertEqual([10.0], self.ages())

    def test_address_of_several_hosts_is_left_out(self) -> None:
        self.kernels['h2'] = 'k9'
        self.answers['h2'] = {'kernel': 'k9', 'uptime': 9.0,
                              'addresses': ['192.0.2.1', '192.0.2.2']}
        self.assertEqual([['192.0.2.2']], [boot['addresses'] for boot in self.reported()])

    def test_nothing_is_reported_before_all_hosts_were_asked(self) -> None:
        for number in range(60):
            self.kernels[f'g{number}'] = 'k'
            self.answers[f'g{number}'] = {'kernel': 'k', 'uptime': _HOUR,
                                          'addresses': [f'198.51.100.{number}']}
        self.assertEqual([], self.reported())
        self.assertEqual(61, len(self.reported()))

    def test_host_that_does_not_answer_is_asked_again_after_a_minute(self) -> None:
        answer = self.answers['h1']
        for failure in (exception.Unreachable('lost'), backup_errors.BackupError(reason='odd')):
            self.answers['h1'] = failure
            self.assertEqual([], self.reported())
            self.boots.look()
            self.time += 60.0
        self.assertEqual(2, self.hosts.boot.call_count)
        self.answers['h1'] = answer
        self.assertEqual(1, len(self.reported()))

    def test_host_without_the_plug_in_is_not_asked_again_before_its_next_boot(self) -> None:
        self.answers['h1'] = backup_errors.ServerNotEligible(reason='no plug-in')
        self.assertEqual([], self.reported())
        self.time += _HOUR
        self.assertEqual([], self.reported())
        self.hosts.boot.assert_called_once_with('h1')

    def test_report_that_failed_is_repeated(self) -> None:
        self.volumes.release.side_effect = exception.Unreachable('down')
        self.assertRaises(exception.Unreachable, self.boots.look)
        self.volumes.release.side_effect = None
        self.assertEqual(1, len(self.reported()))

    def test_host_that_is_not_heard_is_forgotten(self) -> None:
        self.reported()
        del self.kernels['h1']
        self.assertEqual([], self.reported())
        self.kernels['h1'] = 'k1'
        self.reported()
        self.assertEqual(2, self.hosts.boot.call_count)
