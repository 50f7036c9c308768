# SPDX-License-Identifier: Apache-2.0
"""Errors of the protocol under test end a round."""

from unittest import mock

import testtools

from specreds_cinder import superposition
from testing.race import outcomes
from testing.race import round as rounds
from testing.race import scenario


class ErrorTest(testtools.TestCase):

    def play(self, error: Exception) -> outcomes.Result:
        race = mock.Mock(attacks=['primary dies'], **{'superpose.side_effect': error})
        self.patch(rounds, 'Round', mock.Mock(return_value=race))
        self.story: list[str] = []
        result = scenario.play(mock.Mock(), 'idle', 1, self.story)
        race.close.assert_called_once_with()
        return result

    def test_cluster_that_does_not_answer_leaves_the_round_undecided(self) -> None:
        result = self.play(superposition.ClusterTimeout('a group does not answer'))
        self.assertEqual((outcomes.UNDECIDED, []), (result.outcome, result.violations))
        self.assertIn('Ceph did not answer in time', result.attacks)
        self.assertIn('a group does not answer', self.story[-1])

    def test_other_error_is_a_violation(self) -> None:
        result = self.play(superposition.Conflict('it is decided', 'promoted'))
        self.assertEqual(['error: it is decided'], result.violations)
