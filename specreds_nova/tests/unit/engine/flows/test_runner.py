# SPDX-License-Identifier: Apache-2.0
"""Flows of TaskFlow, and what is kept of them."""

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
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.tests.unit.engine.recovery import base

_STEPS = (tasks.Destination, tasks.Super, tasks.Start, tasks.Race, tasks.Decide, tasks.Fence,
          tasks.Promote, tasks.Adopt, tasks.Merge, tasks.End)


class FlowsTest(base.RecoveryTest):
    """A flow goes on from where it was."""

    def setUp(self) -> None:
        super().setUp()
        self.url = f'sqlite:///{self.useFixture(fixtures.TempDir()).path}/flows.sqlite'
        self.taken: list[str] = []
        # What steps raise, by their name.
        self.raised: dict[str, Any] = {}
        for task in _STEPS:
            self._fake(task)
        self.recovery = self.make_recovery(epoch=1, engine='e1')

    def _fake(self, task: Any) -> None:
        def step(run: runs.Run, *told: verdicts.StepVerdict) -> Any:
            del run
            self.taken.append(task.__name__)
            if task.__name__ in self.raised:
                raise self.raised[task.__name__]
            if any(not isinstance(one, verdicts.StepVerdict) for one in told):
                raise AssertionError(f'{task.__name__} was told {told}')
            return verdicts.StepVerdict(verdicts.STARTED, task.__name__)
        patched = mock.patch.object(task, 'step', staticmethod(step))
        patched.start()
        self.addCleanup(patched.stop)

    def _process(self) -> runner.FlowRunner:
        """Give what another process would have."""
        backend = backends.fetch({'connection': self.url, 'checkin_yield': False})
        runner.prepare(backend)
        self.book = persistence.LogbookCache(backend)
        kept = runner.FlowRunner(self.book, 2)
        self.addCleanup(kept.close)
        return kept

    def _run(self, epoch: int = 1) -> runs.Run:
        return runs.Run(self.context, model.Recovery(**{
            **vars(self.recovery), 'epoch': epoch}))

    def test_all_steps_in_their_order(self) -> None:
        self._process().run(self._run())
        self.assertEqual({'Destination', 'Super'}, set(self.taken[:2]))
        self.assertEqual([task.__name__ for task in _STEPS[2:]], self.taken[2:])

    def test_to_warm_up_is_to_take_no_step(self) -> None:
        kept = self._process()
        kept.warm(1)
        self.assertEqual([], self.taken)
        kept.run(self._run())
        self.assertEqual(len(_STEPS), len(self.taken))

    def test_flows_are_made_before_they_are_needed_and_anew_when_one_has_ended(self) -> None:
        kept = self._process()
        kept.warm(2)
        with mock.patch.object(tasks, 'make', side_effect=tasks.make) as make:
            for server, needed in (('x', 0), ('y', 0), ('z', 1)):
                make.reset_mock()
                self.recovery = self.make_recovery(server, epoch=1, engine='e1')
                kept.run(self._run())
                self.assertEqual(needed, make.call_count)
            make.reset_mock()
            for _ in range(3):
                kept.forget(self.recovery.id)
            self.assertEqual(2, make.call_count)
        self.assertEqual(3 * len(_STEPS), len(self.taken))

    def test_another_engine_goes_on_from_there(self) -> None:
        self.raised['Race'] = exception.Superseded('e2 has it')
        self.assertRaises(tasks.Handover, self._process().run, self._run())
        self.book.write(late=0.0)
        del self.taken[:], self.raised['Race']
        self._process().run(self._run(epoch=2))
        self.assertEqual([task.__name__ for task in _STEPS[3:]], self.taken)

    def test_an_engine_that_is_stopped_leaves_what_it_knew(self) -> None:
        first = self._process()
        self.raised['Race'] = exception.Interrupted()
        self.assertRaises(tasks.Handover, first.run, self._run())
        first.leave(self.recovery.id)
        del self.taken[:], self.raised['Race']
        self._process().run(self._run(epoch=2))
        self.assertEqual('Race', self.taken[0])

    def test_what_was_not_written_down_in_time_is_done_again(self) -> None:
        self.raised['Race'] = exception.Superseded('e2 has it')
        self.assertRaises(tasks.Handover, self._process().run, self._run())
        del self.taken[:], self.raised['Race']
        self._process().run(self._run(epoch=2))
        self.assertEqual(len(_STEPS), len(self.taken))

    def test_another_attempt_begins_anew(self) -> None:
        kept = self._process()
        self.raised['Decide'] = exception.RetryAttempt('the backup is lost')
        self.assertRaises(exception.RetryAttempt, kept.run, self._run())
        del self.taken[:], self.raised['Decide']
        kept.run(self._run())
        self.assertEqual(len(_STEPS), len(self.taken))

    def test_a_flow_of_another_version_is_no_loss(self) -> None:
        class Stranger(tasks.End):
            """A task of an older engine."""
        older = tasks.make()
        older.add(Stranger('stranger'))
        self.raised['Race'] = exception.Superseded('e2 has it')
        with mock.patch.object(tasks, 'make', return_value=older):
            self.assertRaises(tasks.Handover, self._process().run, self._run())
        self.book.write(late=0.0)
        del self.taken[:], self.raised['Race']
        self._process().run(self._run(epoch=2))
        self.assertEqual('End', self.taken[-1])

    def test_nothing_is_kept_of_what_has_ended(self) -> None:
        kept = self._process()
        kept.run(self._run())
        self.book.write(late=0.0)
        kept.forget(self.recovery.id)
        kept.forget(self.recovery.id)
        del self.taken[:]
        self._process().run(self._run(epoch=2))
        self.assertEqual(len(_STEPS), len(self.taken))
