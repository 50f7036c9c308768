# SPDX-License-Identifier: Apache-2.0
"""A drill: a backup becomes ready whatever the primary writes, and nothing is decided."""

from collections.abc import Callable
from typing import Any

import ddt

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import worker
from specreds_nova.engine.suspicion import evidence
from specreds_nova.tests.unit.engine.recovery import base

_NOT_YET = {'phase': 'running', 'ready': False, 'domain': {'state': 'running'},
            'primary_asked': True, 'primary_runs': True}
_READY = {**_NOT_YET, 'ready': True}


@ddt.ddt
class DrillTest(base.RecoveryTest):
    """A server that writes, on a host that is well."""

    def setUp(self) -> None:
        super().setUp()
        self.suspects.suspected.side_effect = None
        self.suspects.suspected.return_value = False
        self.suspects.is_well.return_value = self.suspects.well_to_all.return_value = True
        self.compute.server.side_effect = base.make_server
        self.compute.candidates.return_value = ['h2']
        self.volumes.dirty.return_value = True
        self.volumes.superpose.return_value = 'sp'
        self.volumes.ours.return_value = {}
        self.volumes.state.side_effect = ['superposed', None]
        self.backups.start.return_value = _NOT_YET
        # For longer than the interval of looks for writes.
        self.backups.status.side_effect = [*[_NOT_YET] * 9, _READY]
        self.recovery = self.make_recovery(
            why=(evidence.of(evidence.DRILL, 'u1', self.clock.wall()).told(),),
            created=self.clock.wall())

    def held(self) -> tuple[str | None, str | None]:
        """Hold the drill, and return its outcome and error."""
        taken = self.taken_over(self.recovery, 'e1')
        worker.RecoveryWorker(self.context, worker.attempt).bring_to_end(taken)
        ended = self.store.history[self.recovery.id]
        for call in (self.volumes.collapse, self.volumes.fence, self.volumes.observe,
                     self.backups.promote, self.backups.harden, self.compute.evacuate,
                     self.compute.force_down):
            call.assert_not_called()
        return ended.outcome, ended.error

    def test_backup_of_a_server_that_writes_becomes_ready_and_is_dropped(self) -> None:
        self.assertEqual((model.PRIMARY, None), self.held())
        self.volumes.dirty.assert_not_called()
        self.backups.abort.assert_called_once_with('h2', self.recovery.id)
        self.volumes.drop.assert_called_once_with('sp')
        self.assertEqual(
            {'destination', 'super', 'start', 'race', 'withdraw'},
            {step.name for step in self.store.history[self.recovery.id].steps if step.ended})

    def test_backup_that_is_never_ready_fails(self) -> None:
        self.backups.status.side_effect = None
        self.backups.status.return_value = {**_NOT_YET, 'ready_timeout': 7.0}
        self.assertEqual((model.FAILED, 'its backup was not ready in 7 s'), self.held())
        self.volumes.drop.assert_called_once_with('sp')

    def test_host_that_cannot_start_it_fails(self) -> None:
        self.backups.start.side_effect = backup_errors.BackupError(message='no firmware')
        self.assertEqual(model.FAILED, self.held()[0])
        self.volumes.drop.assert_called_once_with('sp')

    def test_volumes_that_cannot_be_superposed_fail(self) -> None:
        self.volumes.superpose.side_effect = exception.Refused('it is mirrored')
        self.assertEqual((model.FAILED, 'it is mirrored'), self.held())
        self.volumes.drop.assert_not_called()

    def _suspect(self) -> None:
        self.suspects.suspected.return_value = True

    def _record(self) -> None:
        self.suspect()

    def _recover(self) -> None:
        self.make_recovery('b', host='h7')

    def _pause(self) -> None:
        self.set_mode(model.PAUSE)

    def _abort(self) -> None:
        self.store.request_abort(self.recovery.id, 'user u1')

    def _crash(self) -> None:
        self.suspects.running.return_value = False

    @ddt.data((_crash, 'its guest does not run on h1'),
              (_suspect, 'h1 is suspected'), (_record, 'h1 is suspected'),
              (_recover, 'of another server is under way'), (_pause, 'the mode of h1 is pause'),
              (_abort, 'user u1'))
    @ddt.unpack
    def test_drill_gives_way(self, happens: Callable[[Any], None], why: str) -> None:
        def status(host: str, backup: str) -> dict[str, Any]:
            happens(self)
            return _NOT_YET
        self.backups.status.side_effect = status
        outcome, error = self.held()
        self.assertEqual(model.ABORTED, outcome)
        self.assertIn(why, str(error))
        self.volumes.drop.assert_called_once_with('sp')

    def test_second_of_two_drills_gives_way(self) -> None:
        first, self.recovery = self.recovery, self.make_recovery(
            'b', why=self.recovery.why, created=self.recovery.created + 0.1)
        self.assertEqual(model.ABORTED, self.held()[0])
        self.recovery = first
        self.volumes.state.side_effect = ['superposed', None]
        self.backups.status.side_effect = [_READY]
        self.assertEqual(model.PRIMARY, self.held()[0])

    def test_drill_of_an_engine_that_has_ended_is_dropped(self) -> None:
        taken = self.taken_over(self.recovery, 'e0')
        attempt = self.begin_step(taken, 'super')
        self.end_step(taken, 'super', attempt, {'superposition': 'sp'})
        self.assertEqual((model.ABORTED, 'it was interrupted'), self.held())
        self.volumes.drop.assert_called_once_with('sp')
        self.backups.start.assert_not_called()

    def test_superposition_that_was_not_recorded_is_dropped(self) -> None:
        taken = self.taken_over(self.recovery, 'e0')
        self.begin_step(taken, 'super')
        self.volumes.ours.return_value = {'other': 'b', 'sp': self.recovery.id}
        self.assertEqual((model.ABORTED, 'it was interrupted'), self.held())
        self.volumes.drop.assert_called_once_with('sp')

    def test_superposition_that_somebody_else_decides_is_left(self) -> None:
        self.volumes.state.side_effect = ['promoted']
        self.assertEqual(model.PRIMARY, self.held()[0])
        self.volumes.drop.assert_not_called()
