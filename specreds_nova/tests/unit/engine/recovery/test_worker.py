# SPDX-License-Identifier: Apache-2.0
"""Recoveries whose attempts fail unexpectedly."""

from collections.abc import Sequence
import itertools
from typing import Any
from unittest import mock

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import worker as workers
from specreds_nova.tests.unit.engine.recovery import base
from testing.simulation import store as stores


class WorkingTest(base.RecoveryTest):
    """A number of attempts fail."""

    def setUp(self) -> None:
        super().setUp()
        self.times = 0
        self.context = self.make_context(max_errors=4)
        self.worker = workers.RecoveryWorker(self.context, self._attempt)
        self.fails = 1000
        self.recovery = self.make_recovery('a')
        self.context.capacity.enter(self.recovery.id)

    def _attempt(self, run: runs.Run) -> None:
        self.times += 1
        if self.times <= self.fails:
            raise ValueError('played')
        run.change(state=model.ENDED, outcome=model.RECOVERED)

    def ended(self) -> Any:
        """Bring the recovery to its end, and return its record."""
        self.worker.bring_to_end(self.recovery)
        return self.store.history[self.recovery.id]

    def test_recovery_fails_after_too_many_attempts(self) -> None:
        began = self.clock.now()
        recovery = self.ended()
        self.assertEqual((model.ENDED, model.FAILED, 4),
                         (recovery.state, recovery.outcome, self.times))
        self.assertIn('4 unexpected errors: played; ', str(recovery.error))
        self.assertEqual(1.0 + 2.0 + 4.0, self.clock.now() - began)
        self.assertEqual(set(), self.context.capacity.held())

    def test_decided_recovery_continues_without_its_slot(self) -> None:
        self.recovery = self.store.change(self.recovery, state=model.COMMITTED)
        self.fails = 20
        began = self.clock.now()
        recovery = self.ended()
        self.assertEqual((model.RECOVERED, 21), (recovery.outcome, self.times))
        self.assertIn('unexpected errors: played', recovery.error)
        self.assertEqual(set(), self.context.capacity.held())
        # Pauses of 1, 2, 4, 8, 16, 32 and then 60 s each.
        self.assertEqual(63.0 + 14 * 60.0, self.clock.now() - began)

    def test_few_failures_are_tolerated(self) -> None:
        self.fails = 3
        self.assertEqual(model.RECOVERED, self.ended().outcome)
        self.assertEqual({self.recovery.id}, self.context.capacity.held())

    def test_recovery_fails_if_the_database_refuses_the_end_of_a_step(self) -> None:
        errors = itertools.cycle(
            [exception.RetryAttempt('no'), exception.Unreachable('no'), ValueError('no')])

        def attempt(run: runs.Run) -> None:
            self.times += 1
            with run.step('super'):
                pass
            run.plan(destination='h2')
            raise next(errors)
        self.worker = workers.RecoveryWorker(self.context, attempt)
        began = self.clock.now()
        with mock.patch.object(self.store, 'change', side_effect=self._refuse_ends):
            recovery = self.ended()
        self.assertEqual((model.FAILED, None, 4),
                         (recovery.outcome, recovery.destination, self.times))
        self.assertEqual(1.0 + 2.0 + 4.0, self.clock.now() - began)

    def test_decision_whose_end_the_database_refuses_is_not_given_up(self) -> None:
        # The primary may be fenced.
        def attempt(run: runs.Run) -> None:
            with run.step('collapse') as detail:
                detail['outcome'] = 'promoted'
            self._attempt(run)
        self.worker, self.fails = workers.RecoveryWorker(self.context, attempt), 5
        with mock.patch.object(self.store, 'change', side_effect=self._refuse_ends):
            recovery = self.ended()
        self.assertEqual((model.RECOVERED, 6), (recovery.outcome, self.times))
        self.assertIn('unexpected errors: ', recovery.error)

    def _refuse_ends(self, recovery: model.Recovery, *, ended: Sequence[model.Step] = (),
                     **values: Any) -> model.Recovery:
        """Change a recovery, unless a step ends before the last attempt."""
        if ended and self.times <= self.fails:
            raise ValueError('refused')
        change: Any = stores.Store.change
        changed: model.Recovery = change(self.store, recovery, ended=ended, **values)
        return changed

    def test_only_the_first_attempt_relies_on_the_server_that_was_read(self) -> None:
        read, later = base.make_server('a'), base.make_server('a', volumes=())
        self.compute.server.return_value = later
        servers: list[model.Server | None] = []

        def attempt(run: runs.Run) -> None:
            servers.append(run.server())
            self._attempt(run)
        self.fails = 1
        workers.RecoveryWorker(self.context, attempt).bring_to_end(self.recovery, read)
        self.assertEqual([read, later], servers)
