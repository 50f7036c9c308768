# SPDX-License-Identifier: Apache-2.0
"""Hosts report why Nova would refuse to evacuate a server."""

from typing import Any
from unittest import mock

import testtools

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine.recovery import refusals

_WHY = 'it has shares'
_NO_PLUG_IN = backup_errors.ServerNotEligible(reason='no plug-in')


def _answer(immovable: str | None) -> dict[str, Any]:
    return {'eligible': False, 'reasons': [_WHY], 'immovable': immovable}


class RefusalsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.backups = mock.Mock()

    def reason(self, *hosts: str) -> str | None:
        """Return what the hosts report of server a."""
        return refusals.reason(refusals.ask(self.backups, hosts or ('h2', 'h3'), 'a'))

    def test_first_host_that_knows_is_enough(self) -> None:
        for immovable in (_WHY, None):
            self.backups.check.side_effect = [_answer(immovable)]
            self.assertEqual(immovable, self.reason())

    def test_hosts_that_do_not_know_are_passed_over(self) -> None:
        self.backups.check.side_effect = [_NO_PLUG_IN, _NO_PLUG_IN, _answer(_WHY)]
        self.assertEqual(_WHY, self.reason('h2', 'h3', 'h4'))

    def test_server_is_evacuated_as_before_if_no_host_knows(self) -> None:
        self.backups.check.side_effect = _NO_PLUG_IN
        self.assertIsNone(self.reason())

    def test_host_without_the_plug_in_counts_beside_a_silent_one(self) -> None:
        self.backups.check.side_effect = [exception.Unreachable('late'), _NO_PLUG_IN]
        self.assertIsNone(self.reason())

    def test_silence_of_all_hosts_is_no_answer(self) -> None:
        self.backups.check.side_effect = [
            exception.Unreachable('late'), backup_errors.SuperpositionUnknown(reason='no Cinder')]
        error = self.assertRaises(exception.Unreachable, self.reason)
        self.assertIn('h2: late; h3: no Cinder', str(error))

    def test_few_hosts_are_asked(self) -> None:
        self.backups.check.side_effect = _NO_PLUG_IN
        self.assertIsNone(self.reason('h2', 'h3', 'h4', 'h5'))
        self.assertEqual(['h2', 'h3', 'h4'],
                         [call.args[0] for call in self.backups.check.call_args_list])
