# SPDX-License-Identifier: Apache-2.0
"""The start of a backup, which ends when the primary has written."""

from collections.abc import Callable
import dataclasses

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import timeline
from specreds_nova.engine.recovery import verdict
from specreds_nova.engine.recovery.steps import race
from specreds_nova.engine.recovery.steps import start
from specreds_nova.tests.unit.engine.recovery import base

_STARTED = verdict.StepVerdict(verdict.STARTED)


class StartingTest(base.RecoveryTest):
    """A backup on one of two hosts."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.compute.server.side_effect = lambda name: base.make_server(name)
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        self.run_ = runs.Run(self.context, self.make_recovery(
            state=model.RACING, destination='h2', superposition='sp'))

    def start(self) -> verdict.StepVerdict:
        """Run the start."""
        return start.start(self.run_, _STARTED, _STARTED)

    def test_backup_is_started(self) -> None:
        self.assertEqual(_STARTED, self.start())
        self.backups.start.assert_called_once_with('h2', self.run_.id, 'a', 'sp', None)
        self.volumes.dirty.assert_called_once_with('sp')
        self.backups.abort.assert_not_called()

    def test_host_that_was_recorded_meanwhile_is_not_replaced(self) -> None:
        # A backup on another host would have the same disks open.
        chosen = verdict.StepVerdict(verdict.STARTED, 'h3')
        self.assertEqual(_STARTED, start.start(self.run_, chosen, _STARTED))
        self.assertEqual(['h2'], [call.args[0] for call in self.backups.start.mock_calls])
        self.assertEqual('h2', self.run_.recovery.destination)

    def test_superposition_that_has_ended_meanwhile_gets_no_backup(self) -> None:
        recovery = self.make_recovery(server='b', state=model.RACING, destination='h2')
        for name, detail in ((timeline.SUPER, {'superposition': 'old'}), (timeline.COLLAPSE, {})):
            self.end_step(recovery, name, self.begin_step(recovery, name), detail)
        self.run_ = runs.Run(self.context, self.store.history[recovery.id])
        self.assertEqual(verdict.AGAIN, start.start(
            self.run_, _STARTED, verdict.StepVerdict(verdict.STARTED, 'old')).kind)
        self.backups.start.assert_not_called()
        self.assertIsNone(self.run_.recovery.superposition)

    def come_back(self) -> None:
        """Let the host be heard again, with the server."""
        self.suspects.suspected.side_effect = lambda _host: False

    def test_server_whose_host_is_back_meanwhile_gets_no_backup(self) -> None:
        self.come_back()
        self.assertEqual(verdict.PRIMARY, self.start().kind)
        self.backups.start.assert_not_called()

    def test_start_is_not_repeated_if_the_host_is_back_meanwhile(self) -> None:
        def unanswered(*_arguments: object) -> None:
            self.come_back()
            raise exception.Unreachable('no answer')
        self.backups.start.side_effect = unanswered
        self.assertEqual(verdict.PRIMARY, self.start().kind)
        self.backups.start.assert_called_once()

    def test_host_gets_the_marker_of_earlier_boots(self) -> None:
        self.run_ = runs.Run(self.context, self.make_recovery(
            server='b', state=model.RACING, destination='h2', superposition='sp',
            expected_marker='web server is up'))
        self.assertEqual(_STARTED, self.start())
        self.assertEqual('web server is up', self.backups.start.call_args.args[-1])

    def test_start_ends_if_the_primary_has_written(self) -> None:
        self.volumes.dirty.return_value = True
        self.backups.start.side_effect = backup_errors.StartFailed('it was aborted')
        self.assertEqual(verdict.StepVerdict(verdict.PRIMARY, 'it has written'), self.start())
        self.backups.abort.assert_called_once_with('h2', self.run_.id)

    def test_running_backup_is_kept_if_the_primary_has_written(self) -> None:
        self.volumes.dirty.return_value = True
        outcome = race.race(self.run_, self.start())
        self.assertEqual(verdict.StepVerdict(verdict.PRIMARY, 'it has written'), outcome)
        self.backups.status.assert_not_called()

    def test_late_sweep_does_not_abort_the_backup(self) -> None:
        looks: list[Callable[[], None]] = []
        context = dataclasses.replace(self.context, in_background=looks.append)
        self.run_ = runs.Run(context, self.run_.recovery)
        self.volumes.dirty.return_value = True
        self.assertEqual(_STARTED, self.start())
        looks[0]()
        # The decision removes it.
        self.backups.abort.assert_not_called()
        self.assertEqual(verdict.PRIMARY, race.race(self.run_, _STARTED).kind)

    def test_start_continues_while_cinder_is_silent(self) -> None:
        for error in (exception.Unreachable('no answer'), exception.Refused('gone')):
            self.volumes.dirty.side_effect = error
            self.assertEqual(_STARTED, self.start())
        self.backups.abort.assert_not_called()

    def test_start_is_repeated_while_the_host_is_silent(self) -> None:
        self.volumes.dirty.return_value = True
        self.backups.abort.side_effect = exception.Unreachable('no answer')
        self.assertEqual(_STARTED, self.start())
        self.assertEqual(verdict.PRIMARY, race.race(self.run_, _STARTED).kind)

    def test_sweeps_of_many_starts_are_limited(self) -> None:
        for number in range(5):
            self.context.capacity.enter(f'recovery {number}')
        self.volumes.dirty.return_value = True
        self.assertEqual(_STARTED, self.start())
        self.volumes.dirty.assert_not_called()

    def test_primary_is_not_swept_after_a_collapse(self) -> None:
        # After the beginning of a collapse, a primary that has written may be fenced.
        with self.run_.step(timeline.COLLAPSE) as detail:
            detail['outcome'] = 'gone'
        self.volumes.dirty.return_value = True
        self.assertEqual(_STARTED, self.start())
        self.volumes.dirty.assert_not_called()
