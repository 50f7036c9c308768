# SPDX-License-Identifier: Apache-2.0
"""When Nova learns of a backup that has been let out."""

from unittest import mock

from specreds_nova import exception as backup_errors
from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import adopt
from specreds_nova.engine.recovery.steps import promote
from specreds_nova.tests.unit.engine.recovery import base


class PromoteTest(base.RecoveryTest):
    """What is told of letting a backup out."""

    def promote(self) -> model.Step:
        """Promote; gives the step as it is kept."""
        recovery = self.make_recovery('a', state=model.COMMITTED, destination='h2')
        promote.promote(runs.Run(self.context, recovery), verdicts.StepVerdict(verdicts.PROMOTED))
        [step] = self.store.history[recovery.id].steps
        return step

    def test_when_users_could_reach_it(self) -> None:
        self.assertEqual({'after_opening_s': 0.9}, self.promote().detail)

    def test_a_host_that_does_not_tell(self) -> None:
        self.backups.promote.return_value = {'timings_ms': {'box_open': 40}}
        self.assertEqual({}, self.promote().detail)

    def test_that_is_tried_again_while_nova_moves_it(self) -> None:
        recovery = self.make_recovery('a', state=model.COMMITTED, destination='h2')
        run = runs.Run(self.context, recovery)
        with mock.patch.object(evacuation, 'evacuate', return_value=None) as move:
            adopt.adopt(run, verdicts.StepVerdict(verdicts.PROMOTED))
        let_out = move.call_args.args[-1]
        self.assertTrue(let_out('h2'))
        self.backups.promote.side_effect = backup_errors.BackupError('no answer')
        self.assertFalse(let_out('h2'))


class GiveWayTest(base.RecoveryTest):
    """Whoever serves lets others go first, for a while."""

    def setUp(self) -> None:
        super().setUp()
        self.recovery = self.make_recovery('a', state=model.COMMITTED, destination='h2')
        # The first thing that is asked of Nova.
        self.compute.server.return_value = None
        self.context = self.make_context(adopt_patience=20.0)

    def waited(self, recovery: model.Recovery | None = None,
               kind: str = verdicts.PROMOTED) -> float:
        """Adopt; gives after how many seconds Nova was asked for the first time."""
        began, asked = self.clock.time, []

        def server(_id: str) -> None:
            asked.append(self.clock.time)

        self.compute.server.side_effect = server
        adopt.adopt(runs.Run(self.context, recovery or self.recovery),
                       verdicts.StepVerdict(kind))
        return asked[0] - began

    def test_nobody_races(self) -> None:
        self.make_recovery('b', state=model.MERGING)
        self.make_recovery('c', state=model.RACING, host='h9')
        self.assertEqual(0.0, self.waited())

    def test_until_the_others_do_not_race_any_more(self) -> None:
        other = self.make_recovery('b', state=model.RACING)
        sleep = self.clock.sleep

        def pass_by(seconds: float) -> None:
            sleep(seconds)
            if self.clock.time >= 1005.0:
                self.store.change(self.store.history[other.id], state=model.COMMITTED)

        self.clock.sleep = pass_by  # type: ignore[method-assign]
        self.assertEqual(5.0, self.waited())

    def test_not_for_ever(self) -> None:
        self.make_recovery('b', state=model.RACING)
        self.assertEqual(20.0, self.waited())

    def test_not_if_it_does_not_serve(self) -> None:
        self.make_recovery('b', state=model.RACING)
        lost = self.make_recovery('c', state=model.COMMITTED)
        self.assertEqual(0.0, self.waited(lost))
        self.assertEqual(0.0, self.waited(kind=verdicts.LATE))


class LateTest(base.RecoveryTest):
    """A primary that was found to have written after it was fenced; its host is heard again."""

    def setUp(self) -> None:
        super().setUp()
        self.suspects.is_well.return_value = True
        self.recovery = self.make_recovery('a', state=model.COMMITTED)

    def adopt(self) -> verdicts.StepVerdict:
        """Have it adopted."""
        return adopt.adopt(runs.Run(self.context, self.recovery),
                              verdicts.StepVerdict(verdicts.LATE))

    def test_started_again_where_it_is(self) -> None:
        self.compute.server.side_effect = lambda _id: base.make_server('a')
        self.assertEqual(verdicts.ADOPTED, self.adopt().kind)
        self.compute.reboot.assert_called_once_with('a')

    def test_not_if_it_was_moved_meanwhile(self) -> None:
        moving = [base.make_server('a', host='h2', task='rebuilding'),
                  base.make_server('a', host='h2')]
        self.compute.server.side_effect = moving
        self.assertEqual(verdicts.ADOPTED, self.adopt().kind)
        self.compute.reboot.assert_not_called()
