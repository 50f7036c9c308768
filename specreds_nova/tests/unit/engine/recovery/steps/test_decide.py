# SPDX-License-Identifier: Apache-2.0
"""A decision of Cinder whose outcome is unknown."""

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.tests.unit.engine.recovery import base


class GoneTest(base.RecoveryTest):
    """Cinder no longer has the superposition when it is asked for the decision."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        self.recovery = self.make_recovery(
            state=model.RACING, destination='h2', superposition='sp')
        self.run_ = runs.Run(self.context, self.recovery)
        self.compute.server.return_value = base.make_server('a')
        self.volumes.collapse.side_effect = exception.Unreachable('no answer')
        self.volumes.state.return_value = None

    def decide(self) -> None:
        """Have Cinder decide."""
        decide.decide(self.run_, verdicts.StepVerdict(verdicts.DECIDING))

    def test_backup_is_removed(self) -> None:
        self.assertRaises(exception.RetryAttempt, self.decide)
        self.backups.abort.assert_called_once_with('h2', self.recovery.id)

    def test_superseded_engine_leaves_the_backup(self) -> None:
        def state(superposition: str) -> None:
            del superposition
            self.store.take_over(self.recovery.id, 'e2')
        self.volumes.state.side_effect = state
        self.assertRaises(exception.Superseded, self.decide)
        self.backups.abort.assert_not_called()
