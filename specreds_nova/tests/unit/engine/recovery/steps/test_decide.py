# SPDX-License-Identifier: Apache-2.0
"""A decision of Cinder that takes long, or whose outcome is unknown."""

import itertools

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.tests.unit.engine.recovery import base


class PendingTest(base.RecoveryTest):
    """Cinder answers before it has decided."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.recovery = self.make_recovery(
            state=model.RACING, destination='h2', superposition='sp')
        self.times: list[float] = []
        self.end = 0.0

    def collapse(self, _superposition: str) -> str:
        """Note the time of a request; return the outcome once the sweep has ended."""
        self.times.append(self.clock.now())
        if self.clock.now() < self.end:
            raise exception.Unreachable('Cinder has not decided yet')
        return 'promoted'

    def pauses(self, seconds: float, state: str = 'collapsing') -> list[float]:
        """Have a decision take some time; return the pauses between the requests."""
        self.end = self.clock.now() + seconds
        self.volumes.collapse.side_effect = self.collapse
        self.volumes.state.return_value = state
        self.assertEqual(verdicts.StepVerdict(verdicts.PROMOTED),
                         decide.collapse(runs.Run(self.context, self.recovery)))
        return [round(later - earlier, 3)
                for earlier, later in itertools.pairwise(self.times)]

    def test_decision_within_a_second_is_asked_for_at_an_even_pace(self) -> None:
        self.assertEqual([0.2] * 5, self.pauses(0.9))

    def test_pauses_grow_while_cinder_sweeps(self) -> None:
        pauses = self.pauses(60.0)
        self.assertEqual(sorted(pauses), pauses)
        self.assertEqual(2.0, pauses[-1])
        self.assertLess(len(pauses), 60)

    def test_pauses_do_not_grow_before_the_decision_has_begun(self) -> None:
        # The primary may return at any moment.
        self.assertEqual({0.2}, set(self.pauses(60.0, 'superposed')))


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
            self.taken_over(self.recovery, 'e2')
        self.volumes.state.side_effect = state
        self.assertRaises(exception.Superseded, self.decide)
        self.backups.abort.assert_not_called()


class UnprovenTest(base.RecoveryTest):
    """Somebody else has changed the volumes, so that nobody can tell whether the primary lives."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        self.recovery = self.make_recovery(
            state=model.RACING, destination='h2', superposition='sp')
        self.run_ = runs.Run(self.context, self.recovery)
        self.compute.server.return_value = base.make_server('a')
        self.volumes.collapse.return_value = 'unproven'
        self.volumes.state.return_value = None

    def decide(self) -> verdicts.StepVerdict:
        """Have Cinder decide."""
        return decide.decide(self.run_, verdicts.StepVerdict(verdicts.DECIDING))

    def test_first_time_there_is_another_race(self) -> None:
        self.assertRaises(exception.RetryAttempt, self.decide)
        self.backups.abort.assert_called_once_with('h2', self.recovery.id)
        stored = self.store.history[self.recovery.id]
        self.assertEqual((None, None), (stored.superposition, stored.destination))
        self.assertTrue(runs.before_commit(stored))

    def test_second_time_the_server_is_evacuated(self) -> None:
        self.assertRaises(exception.RetryAttempt, self.decide)
        self.run_.change(superposition='sp-2', destination='h3')
        self.assertEqual(verdicts.EVACUATE, self.decide().kind)
        self.assertTrue(runs.before_commit(self.store.history[self.recovery.id]))

    def test_another_engine_continues_with_the_next_race(self) -> None:
        decide.collapse(self.run_)
        self.run_.flush()
        taken = self.taken_over(self.recovery, 'e2')
        assert taken is not None
        standing = runs.Run(self.context, taken).standing()
        self.assertEqual(verdicts.AGAIN, standing and standing.kind)
