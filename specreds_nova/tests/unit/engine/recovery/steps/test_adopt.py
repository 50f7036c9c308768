# SPDX-License-Identifier: Apache-2.0
"""When Nova learns of a backup that has been let out."""

from unittest import mock

from specreds_nova import exception as backup_errors
from specreds_nova.engine import fibers
from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import adopt
from specreds_nova.tests.unit.engine.recovery import base


class PromoteTest(base.RecoveryTest):
    """The promotion of a backup on its host."""

    def promote(self) -> model.Step:
        """Promote a backup, and return the recorded step."""
        recovery = self.make_recovery('a', state=model.COMMITTED, destination='h2')
        run = runs.Run(self.context, recovery)
        adopt.promote(run, verdicts.StepVerdict(verdicts.PROMOTED))
        run.flush()
        [step] = self.store.history[recovery.id].steps
        return step

    def test_time_after_the_opening_of_the_box_is_recorded(self) -> None:
        self.assertEqual({'after_opening_s': 0.9}, self.promote().detail)

    def test_host_of_an_older_release_reports_no_time(self) -> None:
        self.backups.promote.return_value = {'timings_ms': {'box_open': 40}}
        self.assertEqual({}, self.promote().detail)

    def test_promotion_is_repeated_during_the_evacuation(self) -> None:
        recovery = self.make_recovery('a', state=model.COMMITTED, destination='h2')
        run = runs.Run(self.context, recovery)
        with mock.patch.object(evacuation, 'evacuate', return_value=None) as move:
            adopt.adopt(run, verdicts.StepVerdict(verdicts.PROMOTED))
        promote_on = move.call_args.args[-1]
        self.assertTrue(promote_on('h2'))
        self.backups.promote.side_effect = backup_errors.BackupError('no answer')
        self.assertFalse(promote_on('h2'))

    def test_adoption_comes_last_only_if_the_box_is_open(self) -> None:
        self.compute.server.return_value = None
        for failure, rank in ((None, fibers.LAST),
                              (backup_errors.BackupLost('gone'), fibers.SECOND)):
            self.backups.promote.side_effect = failure
            recovery = self.make_recovery(
                str(rank), state=model.COMMITTED, destination='h2')
            ranks = self.note_ranks(server=self.compute.server)
            run = runs.Run(self.context, recovery)
            promoted = adopt.promote(run, verdicts.StepVerdict(verdicts.PROMOTED))
            self.context.rank(fibers.SECOND)
            adopt.adopt(run, promoted)
            self.assertEqual({'server': {rank}}, ranks)


class GiveWayTest(base.RecoveryTest):
    """The adoption of a server that serves waits for the races of others."""

    def setUp(self) -> None:
        super().setUp()
        self.recovery = self.make_recovery('a', state=model.COMMITTED, destination='h2')
        # The first call to Nova.
        self.compute.server.return_value = None
        self.context = self.make_context(adopt_patience=20.0)
        self.suspects.suspected.side_effect = lambda host: host == 'h1'

    def waited(self, recovery: model.Recovery | None = None,
               kind: str = verdicts.PROMOTED) -> float:
        """Adopt a server, and return the seconds until the first call to Nova."""
        began, calls = self.clock.time, []

        def server(_id: str) -> None:
            calls.append(self.clock.time)

        self.compute.server.side_effect = server
        adopt.adopt(runs.Run(self.context, recovery or self.recovery),
                       verdicts.StepVerdict(kind))
        return calls[0] - began

    def test_adoption_does_not_wait_without_races(self) -> None:
        self.make_recovery('b', state=model.MERGING)
        self.make_recovery('c', state=model.RACING, host='h9')
        self.assertEqual(0.0, self.waited())

    def test_adoption_waits_until_the_races_have_ended(self) -> None:
        other = self.make_recovery('b', state=model.RACING)
        sleep = self.clock.sleep

        def pass_by(seconds: float) -> None:
            sleep(seconds)
            if self.clock.time >= 1005.0:
                self.store.change(self.store.history[other.id], state=model.COMMITTED)

        self.clock.sleep = pass_by  # type: ignore[method-assign]
        self.assertEqual(5.0, self.waited())

    def test_adoption_waits_for_a_limited_time(self) -> None:
        self.make_recovery('b', state=model.RACING)
        self.assertEqual(20.0, self.waited())

    def test_adoption_does_not_wait_while_the_host_of_the_backup_is_silent(self) -> None:
        self.make_recovery('b', state=model.RACING)
        self.suspects.suspected.side_effect = lambda host: (
            host == 'h1' or self.clock.time >= 1005.0)
        self.assertEqual(5.0, self.waited())

    def test_adoption_of_a_server_that_does_not_serve_does_not_wait(self) -> None:
        self.make_recovery('b', state=model.RACING)
        lost = self.make_recovery('c', state=model.COMMITTED)
        self.assertEqual(0.0, self.waited(lost))
        self.assertEqual(0.0, self.waited(kind=verdicts.LATE))


class LateTest(base.RecoveryTest):
    """A late dirty primary, whose host is heard again."""

    def setUp(self) -> None:
        super().setUp()
        self.suspects.is_well.return_value = True
        self.recovery = self.make_recovery('a', state=model.COMMITTED)

    def adopt(self) -> verdicts.StepVerdict:
        """Run the adoption."""
        return adopt.adopt(runs.Run(self.context, self.recovery),
                              verdicts.StepVerdict(verdicts.LATE))

    def test_late_dirty_server_is_rebooted_on_its_host(self) -> None:
        self.compute.server.side_effect = lambda _id: base.make_server('a')
        self.assertEqual(verdicts.ADOPTED, self.adopt().kind)
        self.compute.reboot.assert_called_once_with('a')

    def test_moved_server_is_not_rebooted(self) -> None:
        moving = [base.make_server('a', host='h2', task='rebuilding'),
                  base.make_server('a', host='h2')]
        self.compute.server.side_effect = moving
        self.assertEqual(verdicts.ADOPTED, self.adopt().kind)
        self.compute.reboot.assert_not_called()

    def test_server_whose_host_is_lost_again_meanwhile_is_evacuated(self) -> None:
        self.suspects.is_well.side_effect = [True, False]
        self.compute.server.side_effect = lambda _id: base.make_server('a')
        with mock.patch.object(evacuation, 'evacuate', return_value=None) as move:
            self.assertEqual(verdicts.ADOPTED, self.adopt().kind)
        move.assert_called_once()
        self.compute.reboot.assert_not_called()

    def test_server_that_nova_works_on_meanwhile_is_waited_for(self) -> None:
        self.compute.server.side_effect = [
            *[base.make_server('a', task='powering-off')] * 3, base.make_server('a'),
            *[base.make_server('a')] * 3]
        self.compute.reboot.side_effect = lambda _id: self.assertEqual(
            4, self.compute.server.call_count)
        self.assertEqual(verdicts.ADOPTED, self.adopt().kind)
        self.compute.reboot.assert_called_once_with('a')
