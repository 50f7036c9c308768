# SPDX-License-Identifier: Apache-2.0
"""Flows of TaskFlow, and their persistence."""

from typing import Any
from unittest import mock

import fixtures
from taskflow.persistence import backends

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.flows import persistence
from specreds_nova.engine.flows import runner
from specreds_nova.engine.flows import tasks
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import sequence
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.tests.unit.engine.recovery import base

_NAMES = tuple(step.name for step in sequence.STEPS)


class FlowsTest(base.RecoveryTest):
    """A flow continues where it was interrupted."""

    def setUp(self) -> None:
        super().setUp()
        self.url = f'sqlite:///{self.useFixture(fixtures.TempDir()).path}/flows.sqlite'
        self.taken: list[str] = []
        # The error that each step raises.
        self.raised: dict[str, Any] = {}
        self.useFixture(fixtures.MockPatchObject(
            sequence, 'STEPS', tuple(self._fake(step) for step in sequence.STEPS)))
        self.recovery = self.make_recovery(epoch=1, engine='e1')

    def _fake(self, step: sequence.Step) -> sequence.Step:
        def take(run: runs.Run, *required: verdicts.StepVerdict) -> Any:
            del run
            self.taken.append(step.name)
            if step.name in self.raised:
                raise self.raised[step.name]
            if tuple(verdict.why for verdict in required) != step.requires:
                raise AssertionError(f'{step.name} was called with {required}')
            return verdicts.StepVerdict(verdicts.STARTED, step.provides)
        return step._replace(take=take)

    def process(self) -> runner.FlowRunner:
        """Return the runner of another process."""
        backend = backends.fetch({'connection': self.url, 'checkin_yield': False})
        runner.prepare(backend)
        self.book = persistence.LogbookCache(backend)
        kept = runner.FlowRunner(self.book, 2)
        self.addCleanup(kept.close)
        return kept

    def make_run(self, epoch: int = 1) -> runs.Run:
        return runs.Run(self.context, model.Recovery(**{
            **vars(self.recovery), 'epoch': epoch}))

    def test_steps_run_in_order(self) -> None:
        self.process().run(self.make_run())
        self.assertEqual({'destination', 'super'}, set(self.taken[:2]))
        self.assertEqual(_NAMES[2:], tuple(self.taken[2:]))

    def test_order_of_the_table_is_that_of_taskflow_and_of_an_attempt_without_it(self) -> None:
        first, second, start, race, decide, *others = sequence.STEPS
        for steps in (sequence.STEPS,
                      (first, second, race._replace(requires=start.requires),
                       start._replace(requires=(race.provides,)),
                       decide._replace(requires=(start.provides,)), *others)):
            self.recovery = self.make_recovery(steps[2].name, epoch=1, engine='e1')
            with mock.patch.object(sequence, 'STEPS', tuple(map(self._fake, steps))):
                self.taken.clear()
                self.process().run(self.make_run())
                by_taskflow = list(self.taken)
                self.taken.clear()
                sequence.attempt(self.make_run())
            self.assertEqual([step.name for step in steps], self.taken)
            self.assertEqual(self.taken[2:], by_taskflow[2:])

    def test_warm_up_takes_no_step(self) -> None:
        kept = self.process()
        kept.warm(1)
        self.assertEqual([], self.taken)
        kept.run(self.make_run())
        self.assertEqual(len(_NAMES), len(self.taken))

    def test_flows_are_prepared_in_advance(self) -> None:
        kept = self.process()
        kept.warm(2)
        with mock.patch.object(tasks, 'make', side_effect=tasks.make) as make:
            for server, needed in (('x', 0), ('y', 0), ('z', 1)):
                make.reset_mock()
                self.recovery = self.make_recovery(server, epoch=1, engine='e1')
                kept.run(self.make_run())
                self.assertEqual(needed, make.call_count)
            make.reset_mock()
            for _ in range(3):
                kept.forget(self.recovery.id)
            self.assertEqual(2, make.call_count)
        self.assertEqual(3 * len(_NAMES), len(self.taken))

    def test_another_engine_continues_the_flow(self) -> None:
        self.raised['race'] = exception.Superseded('e2 has it')
        self.assertRaises(tasks.Handover, self.process().run, self.make_run())
        self.book.write(late=0.0)
        del self.taken[:], self.raised['race']
        self.process().run(self.make_run(epoch=2))
        self.assertEqual(list(_NAMES[3:]), self.taken)

    def test_stopped_engine_saves_its_flow(self) -> None:
        first = self.process()
        self.raised['race'] = exception.Interrupted()
        self.assertRaises(tasks.Handover, first.run, self.make_run())
        first.leave(self.recovery.id)
        del self.taken[:], self.raised['race']
        self.process().run(self.make_run(epoch=2))
        self.assertEqual('race', self.taken[0])

    def test_unsaved_step_is_repeated(self) -> None:
        self.raised['race'] = exception.Superseded('e2 has it')
        self.assertRaises(tasks.Handover, self.process().run, self.make_run())
        del self.taken[:], self.raised['race']
        self.process().run(self.make_run(epoch=2))
        self.assertEqual(len(_NAMES), len(self.taken))

    def test_next_attempt_starts_from_the_beginning(self) -> None:
        kept = self.process()
        self.raised['decide'] = exception.RetryAttempt('the backup is lost')
        self.assertRaises(exception.RetryAttempt, kept.run, self.make_run())
        del self.taken[:], self.raised['decide']
        kept.run(self.make_run())
        self.assertEqual(len(_NAMES), len(self.taken))

    def test_flow_of_another_version_is_replaced(self) -> None:
        older = tasks.make()
        older.add(tasks.StepTask(sequence.STEPS[-1]._replace(name='stranger', provides='strange')))
        self.raised['race'] = exception.Superseded('e2 has it')
        with mock.patch.object(tasks, 'make', return_value=older):
            self.assertRaises(tasks.Handover, self.process().run, self.make_run())
        self.book.write(late=0.0)
        del self.taken[:], self.raised['race']
        self.process().run(self.make_run(epoch=2))
        self.assertEqual('end', self.taken[-1])

    def test_ended_flow_is_deleted(self) -> None:
        kept = self.process()
        kept.run(self.make_run())
        self.book.write(late=0.0)
        kept.forget(self.recovery.id)
        kept.forget(self.recovery.id)
        del self.taken[:]
        self.process().run(self.make_run(epoch=2))
        self.assertEqual(len(_NAMES), len(self.taken))
