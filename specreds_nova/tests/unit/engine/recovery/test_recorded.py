# SPDX-License-Identifier: Apache-2.0
"""What is written of a recovery together, and when at the latest."""

from typing import Any
from unittest import mock

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import worker as workers
from specreds_nova.tests.unit.engine.recovery import base


class RecordedTest(base.RecoveryTest):

    def setUp(self) -> None:
        super().setUp()
        self.recovery = self.taken_over(self.make_recovery(), 'e1')
        self.run_ = runs.Run(self.context, self.recovery)
        patch = mock.patch.object(self.store, 'change', wraps=self.store.change)
        self.change = patch.start()
        self.addCleanup(patch.stop)

    def stored(self) -> list[tuple[str, int, bool]]:
        """Return the recorded steps: name, attempt, and whether the step has ended."""
        return [(step.name, step.attempt, step.ended is not None)
                for step in self.store.history[self.recovery.id].steps]

    def take(self, *names: str) -> None:
        """Take steps, one after the other."""
        for name in names:
            with self.run_.step(name) as detail:
                detail['taken'] = name

    def test_end_of_a_step_is_written_with_the_begin_of_the_next_one(self) -> None:
        self.take('super', 'start', 'start')
        self.assertEqual([('super', 1, True), ('start', 1, True), ('start', 2, False)],
                         self.stored())
        self.assertEqual(3, self.change.call_count)
        self.run_.change(state=model.RACING)
        self.assertEqual(4, self.change.call_count)
        self.assertEqual(('start', 2, True), self.stored()[-1])
        self.assertEqual(self.store.history[self.recovery.id].steps, self.run_.recovery.steps)

    def test_host_whose_nova_compute_alone_is_silent_is_given_up_in_the_end(self) -> None:
        since, patience = self.clock.now(), self.context.settings.destination_timeout
        self.suspects.suspected.return_value = False
        lost = []
        for wait, speaks, healthy in (
                (patience - 1.0, True, ['h3']), (2.0, False, ['h3']), (0.0, True, []),
                (0.0, True, ['h3'])):
            self.clock.sleep(wait)
            self.suspects.speaks.return_value = speaks
            self.suspects.healthy.return_value = healthy
            lost.append(self.run_.lost('h2', since))
            # It may still answer.
            self.assertFalse(self.run_.silent('h2'))
        self.assertEqual([False, False, False, True], lost)

    def test_begin_of_a_step_is_written_at_once(self) -> None:
        with self.run_.step('super'):
            self.assertEqual([('super', 1, False)], self.stored())

    def test_end_of_a_step_is_written_before_a_pause(self) -> None:
        self.take('super')
        self.run_.pause(1.0)
        self.assertEqual([('super', 1, True)], self.stored())

    def test_end_of_a_step_is_written_while_a_service_does_not_answer(self) -> None:
        self.take('super')
        self.run_.insist(mock.Mock(side_effect=[exception.Unreachable('no'), None]))
        self.assertEqual([('super', 1, True)], self.stored())

    def test_end_of_a_step_is_written_before_the_recovery_is_read(self) -> None:
        self.take('super')
        self.store.request_abort(self.recovery.id, 'user u1')
        self.assertTrue(self.run_.fresh().abort)
        self.assertEqual([('super', 1, True)], self.stored())

    def test_end_of_a_step_is_written_when_an_attempt_fails(self) -> None:
        def attempt(run: runs.Run) -> None:
            with run.step('super'):
                if len(run.recovery.steps) < 2:
                    raise errors.pop()
            run.change(state=model.ENDED, outcome=model.RECOVERED)
        for error in (ValueError('no'), exception.RetryAttempt('no'),
                      exception.Unreachable('no')):
            errors: list[Exception] = [error]
            self.recovery = self.make_recovery(str(error.__class__))
            workers.RecoveryWorker(self.context, attempt).bring_to_end(self.recovery)
            self.assertEqual([('super', 1, True), ('super', 2, True)], self.stored())

    def test_planned_values_are_written_with_the_next_step(self) -> None:
        self.run_.plan(destination='h2', state=model.RACING)
        self.assertEqual('h2', self.run_.recovery.destination)
        self.assertIsNone(self.store.history[self.recovery.id].destination)
        self.take('start')
        self.assertEqual('h2', self.store.history[self.recovery.id].destination)
        self.assertEqual(1, self.change.call_count)
        self.run_.plan(destination='h3')
        self.run_.change(destination=None)
        self.assertIsNone(self.run_.recovery.destination)

    def test_step_that_only_reads_is_written_with_what_follows(self) -> None:
        with self.run_.step('destination', reads=True) as detail:
            detail['host'] = 'h2'
            # The begin of another step does not wait for it.
            self.take('super')
        self.assertEqual(['h2'], runs.chosen(self.run_.recovery))
        self.assertEqual([('super', 1, False)], self.stored())
        self.take('start')
        self.assertEqual([('super', 1, True), ('destination', 1, True), ('start', 1, False)],
                         self.stored())
        self.assertEqual(2, self.change.call_count)

    def test_step_that_only_reads_is_written_once_it_waits(self) -> None:
        with self.run_.step('destination', reads=True) as detail:
            self.run_.pause(1.0)
            self.assertEqual([('destination', 1, False)], self.stored())
            detail['host'] = 'h2'
        self.run_.flush()
        [step] = self.store.history[self.recovery.id].steps
        self.assertEqual((1000.0, 1001.0, {'host': 'h2'}), (step.began, step.ended, step.detail))
        self.assertEqual((step,), self.run_.recovery.steps)

    def test_error_of_a_step_that_only_reads_is_written(self) -> None:
        def fail() -> None:
            with self.run_.step('destination', reads=True):
                raise ValueError('no')
        self.assertRaises(ValueError, fail)
        self.run_.flush()
        [step] = self.store.history[self.recovery.id].steps
        self.assertEqual({'error': 'no'}, step.detail)

    def test_step_that_ends_while_its_begin_is_written_is_ended_later(self) -> None:
        change = self.store.change

        def ends_meanwhile(*arguments: Any, **values: Any) -> model.Recovery:
            step.__exit__(None, None, None)
            return change(*arguments, **values)
        step = self.run_.step('destination', reads=True)
        step.__enter__()
        with mock.patch.object(self.store, 'change', side_effect=ends_meanwhile):
            self.run_.flush()
        self.assertEqual([('destination', 1, False)], self.stored())
        self.run_.flush()
        self.assertEqual([('destination', 1, True)], self.stored())
        self.run_.flush()
        self.assertEqual(2, self.change.call_count)

    def test_times_of_steps_are_those_of_the_wall_clock(self) -> None:
        # The clock of the system was set after the engine had started.
        self.clock.ahead = 3600.0
        with self.run_.step('super'):
            self.clock.sleep(2.0)
        self.run_.flush()
        [step] = self.store.history[self.recovery.id].steps
        self.assertEqual((4600.0, 4602.0), (step.began, step.ended))
        self.observer.step.assert_called_once_with('super', 2.0)

    def test_discarded_end_is_not_known(self) -> None:
        self.take('collapse')
        self.run_.plan(destination='h2')
        with self.run_.step('destination', reads=True):
            pass
        self.run_.discard()
        self.assertTrue(self.run_.deciding())
        self.assertEqual(self.store.history[self.recovery.id].steps, self.run_.recovery.steps)
        self.assertIsNone(self.run_.recovery.destination)
        self.run_.flush()
        self.assertEqual([('collapse', 1, False)], self.stored())

    def test_begin_of_a_step_shows_whether_to_abort(self) -> None:
        self.store.request_abort(self.recovery.id, 'user u1')
        self.take('super')
        self.assertTrue(self.run_.recovery.abort)

    def test_superseded_engine_begins_no_step(self) -> None:
        self.take('super')
        self.taken_over(self.recovery, 'e2')
        self.assertRaises(exception.Superseded, self.take, 'start')
        self.assertEqual([('super', 1, False)], self.stored())

    def test_end_is_not_lost_if_a_change_fails(self) -> None:
        self.take('super')
        self.run_.change(state=model.COMMITTED)
        self.take('promote')
        self.assertRaises(exception.Invalid, self.run_.change, state=model.RACING)
        self.run_.flush()
        self.assertEqual([('super', 1, True), ('promote', 1, True)], self.stored())

    def test_database_that_does_not_answer_is_waited_for(self) -> None:
        answers: list[Any] = [exception.Unreachable('no')] * 3
        change = self.store.change

        def late(*arguments: Any, **values: Any) -> model.Recovery:
            if answers:
                raise answers.pop()
            return change(*arguments, **values)
        self.take('super')
        with mock.patch.object(self.store, 'change', side_effect=late):
            self.take('start')
        self.assertEqual([('super', 1, True), ('start', 1, False)], self.stored())
