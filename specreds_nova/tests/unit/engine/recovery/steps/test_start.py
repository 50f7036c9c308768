# SPDX-License-Identifier: Apache-2.0
"""The start of a backup, and that it is given up when the primary is found to write."""

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
        """Start it."""
        return start.start(self.run_, _STARTED, _STARTED)

    def test_runs(self) -> None:
        self.assertEqual(_STARTED, self.start())
        self.backups.start.assert_called_once_with('h2', self.run_.id, 'a', 'sp')
        self.volumes.dirty.assert_called_once_with('sp')
        self.backups.abort.assert_not_called()

    def test_primary_has_written(self) -> None:
        self.volumes.dirty.return_value = True
        self.backups.start.side_effect = backup_errors.StartFailed('it was aborted')
        self.assertEqual(verdict.StepVerdict(verdict.PRIMARY, 'it has written'), self.start())
        self.backups.abort.assert_called_once_with('h2', self.run_.id)

    def test_primary_has_written_and_the_backup_runs_nevertheless(self) -> None:
        self.volumes.dirty.return_value = True
        found = race.race(self.run_, self.start())
        self.assertEqual(verdict.StepVerdict(verdict.PRIMARY, 'it has written'), found)
        self.backups.status.assert_not_called()

    def test_found_out_late(self) -> None:
        looks: list[Callable[[], None]] = []
        context = dataclasses.replace(self.context, in_background=looks.append)
        self.run_ = runs.Run(context, self.run_.recovery)
        self.volumes.dirty.return_value = True
        self.assertEqual(_STARTED, self.start())
        looks[0]()
        # Whoever decides removes it.
        self.backups.abort.assert_not_called()
        self.assertEqual(verdict.PRIMARY, race.race(self.run_, _STARTED).kind)

    def test_cinder_is_silent(self) -> None:
        for error in (exception.Unreachable('no answer'), exception.Refused('gone')):
            self.volumes.dirty.side_effect = error
            self.assertEqual(_STARTED, self.start())
        self.backups.abort.assert_not_called()

    def test_host_is_silent(self) -> None:
        self.volumes.dirty.return_value = True
        self.backups.abort.side_effect = exception.Unreachable('no answer')
        self.assertEqual(_STARTED, self.start())
        self.assertEqual(verdict.PRIMARY, race.race(self.run_, _STARTED).kind)

    def test_many_at_once(self) -> None:
        for number in range(5):
            self.context.destinations.enter(f'recovery {number}')
        self.volumes.dirty.return_value = True
        self.assertEqual(_STARTED, self.start())
        self.volumes.dirty.assert_not_called()

    def test_decided_before(self) -> None:
        # A primary that may be fenced is not what lives, even if it has written.
        with self.run_.step(timeline.COLLAPSE) as detail:
            detail['outcome'] = 'gone'
        self.volumes.dirty.return_value = True
        self.assertEqual(_STARTED, self.start())
        self.volumes.dirty.assert_not_called()
