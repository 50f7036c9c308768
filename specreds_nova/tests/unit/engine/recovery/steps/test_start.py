# SPDX-License-Identifier: Apache-2.0
"""The start of a backup, which ends when the primary has written."""

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict
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
        self.backups.start.assert_called_once_with('h2', self.run_.id, 'a', 'sp')
        self.backups.abort.assert_not_called()

    def test_host_that_was_recorded_meanwhile_is_not_replaced(self) -> None:
        # A backup on another host would have the same disks open.
        chosen = verdict.StepVerdict(verdict.STARTED, 'h3')
        self.assertEqual(_STARTED, start.start(self.run_, chosen, _STARTED))
        self.assertEqual(['h2'], [call.args[0] for call in self.backups.start.mock_calls])
        self.assertEqual('h2', self.run_.recovery.destination)

    def test_superposition_that_has_ended_meanwhile_gets_no_backup(self) -> None:
        recovery = self.make_recovery(server='b', state=model.RACING, destination='h2')
        for name, detail in ((runs.SUPER, {'superposition': 'old'}), (runs.COLLAPSE, {})):
            self.end_step(recovery, name, self.begin_step(recovery, name), detail)
        self.run_ = runs.Run(self.context, self.store.history[recovery.id])
        self.assertEqual(verdict.AGAIN, start.start(
            self.run_, _STARTED, verdict.StepVerdict(verdict.STARTED, 'old')).kind)
        self.backups.start.assert_not_called()
        self.assertIsNone(self.run_.recovery.superposition)

    def unanswered(self, *, status: Exception) -> float:
        """Return for how many seconds a host has that is heard, and does not start the backup."""
        self.backups.start.side_effect = exception.Unreachable('no answer')
        self.backups.status.side_effect = status
        began = self.clock.now()
        self.assertEqual(verdict.AGAIN, self.start().kind)
        return self.clock.now() - began

    def test_host_that_is_heard_and_answers_nothing_is_given_up(self) -> None:
        seconds = self.unanswered(status=exception.Unreachable('no answer'))
        self.assertTrue(30.0 <= seconds < 35.0, seconds)

    def test_host_that_is_at_work_on_the_start_has_more_time(self) -> None:
        seconds = self.unanswered(status=backup_errors.BackupNotFound(reason='not yet'))
        self.assertTrue(120.0 <= seconds < 125.0, seconds)

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
