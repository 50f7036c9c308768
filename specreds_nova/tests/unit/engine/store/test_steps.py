# SPDX-License-Identifier: Apache-2.0
"""The order of the steps of a recovery on which engines with different clocks have worked."""

from typing import Any
from unittest import mock

from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.tests.unit.engine.store import base


class OrderTest(base.StoreTest):

    def run_of(self, recovery: model.Recovery) -> runs.Run:
        """Return the run of a recovery by an engine."""
        context: Any = mock.Mock(clock=self.clock, store=self.store, age=lambda created: 0.0)
        return runs.Run(context, recovery)

    def test_last_decision_is_that_of_the_last_engine(self) -> None:
        recovery = self.created()
        first = self.run_of(recovery)
        # The clock of the first engine is an hour ahead.
        self.clock.ahead = 3600.0
        with first.step('collapse'):
            pass
        # It dies before it has written the end.
        self.clock.ahead = 0.0
        self.clock.time += 10.0
        second = self.run_of(self.taken_over(recovery, 'engine2'))
        self.assertTrue(second.deciding())
        with second.step('collapse') as detail:
            detail['outcome'] = 'gone'
        second.flush()
        third = self.run_of(self.taken_over(recovery, 'engine3'))
        self.assertEqual([(1, 4600.0, None), (2, 1010.0, 1010.0)], [
            (step.attempt, step.began, step.ended) for step in third.recovery.steps])
        self.assertFalse(third.deciding())
