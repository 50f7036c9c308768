# SPDX-License-Identifier: Apache-2.0
"""A guest that was promoted at its first frame gets ready, or is shown."""

from typing import Any

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict
from specreds_nova.engine.recovery.steps import end
from specreds_nova.tests.unit.engine.recovery import base

_NOT_YET = {'ready': False, 'ready_late': False, 'ready_detail': 'waiting for boot'}
_LATE = {**_NOT_YET, 'ready_late': True, 'ready_detail': 'not ready within 300 s'}
_READY = {**_NOT_YET, 'ready': True, 'ready_detail': 'the guest is idle'}


class UnreadyTest(base.RecoveryTest):
    """A server that serves on h2."""

    def setUp(self) -> None:
        super().setUp()
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        recovery = self.make_recovery(state=model.MERGING, destination='h2')
        self.end_step(recovery, runs.RACE, self.begin_step(recovery, runs.RACE),
                      {'early': True})
        self.run_ = runs.Run(self.context, self.store.history[recovery.id])
        self.began = self.clock.now()

    def ended(self, *statuses: Any) -> model.Recovery:
        """End the recovery, and return it."""
        self.backups.status.side_effect = statuses
        self.assertEqual(model.RECOVERED, end.end(
            self.run_, verdict.StepVerdict(verdict.ADOPTED)))
        return self.store.history[self.run_.id]

    def test_guest_that_gets_ready_is_waited_for(self) -> None:
        self.assertIsNone(self.ended(_NOT_YET, exception.Unreachable('no'), _READY).error)
        last = self.run_.recovery.steps[-1]
        self.assertEqual((runs.READY, 'the guest is idle'), (last.name, last.detail['why']))
        self.observer.unready.assert_not_called()

    def test_guest_that_does_not_get_ready_is_shown_and_counted(self) -> None:
        self.assertEqual('it serves on h2, and its guest is not ready within 300 s',
                         self.ended(_NOT_YET, _LATE).error)
        self.observer.unready.assert_called_once_with()

    def test_guest_of_a_host_that_has_failed_is_not_waited_for(self) -> None:
        self.suspects.suspected.side_effect = lambda host: True
        self.assertIsNone(self.ended().error)

    def test_guest_that_its_host_does_not_know_is_not_waited_for(self) -> None:
        self.assertIsNone(self.ended(backup_errors.BackupNotFound('r')).error)

    def test_owner_may_have_set_another_timeout(self) -> None:
        mine = {**_NOT_YET, 'ready_timeout': 600.0}
        self.assertIsNotNone(self.ended(*[mine] * 250, {**mine, **_LATE}).error)

    def test_host_that_does_not_watch_the_guest_is_asked_for_a_while(self) -> None:
        self.assertIsNone(self.ended(*[_NOT_YET] * 1000).error)
        self.assertLess(self.clock.now() - self.began, 310.0)

    def test_host_of_a_backup_that_was_ready_is_not_asked(self) -> None:
        recovery = self.make_recovery(server='b', state=model.MERGING, destination='h2')
        self.end_step(recovery, runs.RACE, self.begin_step(recovery, runs.RACE), {})
        self.run_ = runs.Run(self.context, self.store.history[recovery.id])
        self.assertIsNone(self.ended().error)
        self.backups.status.assert_not_called()
