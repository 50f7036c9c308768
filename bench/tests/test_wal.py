# SPDX-License-Identifier: Apache-2.0
"""Deaths of databases with much WAL: which kinds die, and what is compared."""

from unittest import mock

import testtools

from bench import failover
from bench import report
from bench import wal
from cloud.demo import outcome
from cloud.demo import recoveries
from cloud.demo import scenarios
from cloud.demo import stage as stages


def _death(seconds: float, early: bool) -> outcome.Outcome:
    steps = (recoveries.Step('race', 1.0, 2.0, 'e1', frame=2.0 if early else None),
             recoveries.Step('promote', 2.0, 4.0, 'e1', opened=2.5))
    return outcome.Outcome('x', 'x', 0.0, outcome.Gap(0.0, seconds), steps=steps,
                           phases=(outcome.Phase('race', 0.0, seconds),))


class WalTest(testtools.TestCase):

    def test_both_kinds_die_in_turn(self) -> None:
        died: list[bool] = []

        def speculative(_stage: stages.Stage, _before: float, database: stages.Database
                        ) -> outcome.Outcome:
            died.append(database.ready)
            return _death(10.0 if database.ready else 15.0, not database.ready)
        with (mock.patch.object(failover, 'staged'),
              mock.patch.object(scenarios, 'speculative', speculative)):
            figures = wal.run(mock.Mock(), mock.Mock(), quick=False)
        self.assertEqual([False, True, True, False, False, True], died)
        self.assertEqual(1.5, figures['wal.frame_over_ready'])
        self.assertEqual(15.0, figures['wal.frame.race_s'])
        self.assertEqual([], report.missed(figures))

    def test_death_that_readiness_has_decided_is_none_of_a_first_frame(self) -> None:
        figures = wal.figures([_death(10.0, False)], [_death(15.0, False)])
        self.assertEqual(['wal.early_share'], report.missed(figures))
