# SPDX-License-Identifier: Apache-2.0
"""The conductor: which recoveries an engine works on, and how many at a time."""

import threading
import time
from typing import Any
from unittest import mock

import fixtures

from specreds_nova.engine import exception
from specreds_nova.engine import fibers
from specreds_nova.engine import model
from specreds_nova.engine.placing import conductor as conductors
from specreds_nova.engine.recovery import run as runs
from specreds_nova.tests.unit.engine.recovery import base

# Seconds after which an awaited event counts as missing.
_TIMEOUT = 20.0


def _new(recovery_id: str, expected: float | None = None) -> model.Recovery:
    """Return a recovery that is not in the store yet."""
    return model.Recovery(id=recovery_id, server='a', server_name='a', project='p', host='h1',
                          suspected=1.0, expected=expected)


class ConductorTest(base.RecoveryTest):
    """Recoveries are claimed in order, and brought to an end."""

    def setUp(self) -> None:
        super().setUp()
        for name in ('e1', 'e2'):
            self.store.vote(model.Vote(name))
        # Other engines whose leases are over.
        self.ended: set[str] = set()
        self.fibers = fibers.Fibers(4)
        self.attempt = mock.Mock(side_effect=self._attempt)
        self.begun: list[str] = []
        self.changed = threading.Condition()
        # Recoveries that do not end before their event is set.
        self.held: dict[str, threading.Event] = {}

    def _attempt(self, run: runs.Run) -> None:
        with self.changed:
            self.begun.append(run.recovery.server)
            self.changed.notify_all()
        if run.id in self.held and not self.fibers.call(self.held[run.id].wait, _TIMEOUT):
            raise AssertionError('the recovery was not released')
        run.change(state=model.ENDED, outcome=model.RECOVERED)

    def _conductor(self, slots: int = 10, interval: float = 0.02) -> conductors.Conductor:
        self.useFixture(fixtures.MonkeyPatch(
            'specreds_nova.engine.placing.conductor._INTERVAL', interval))
        conductor = conductors.Conductor(
            self.context, self.fibers, 'e1', slots, lambda *_named: frozenset(self.ended),
            self.attempt)
        self.addCleanup(conductor.stop, _TIMEOUT)
        return conductor

    def _wait(self, condition: Any) -> None:
        with self.changed:
            for _ in range(int(_TIMEOUT / 0.02)):
                if condition():
                    return
                self.changed.wait(0.02)
        self.fail(f'the condition is not met after: {self.begun}')

    def _made(self, server: str, *, held: bool = False, **values: Any) -> model.Recovery:
        """Return a recovery in the store, which waits for its event if it is held."""
        if held:
            self.held[f'00000000-0000-4000-8000-{len(self.store.history):012d}'] = (
                threading.Event())
        return self.make_recovery(server, **values)

    def test_recovery_is_brought_to_its_end(self) -> None:
        recovery = self._made('a')
        self._conductor().start()
        self._wait(lambda: not self.store.active())
        self.assertEqual(model.RECOVERED, self.store.history[recovery.id].outcome)
        self.observer.recovery.assert_called_with('end', self.store.history[recovery.id])

    def test_hanging_thread_is_a_problem(self) -> None:
        conductor = self._conductor()
        self.assertEqual([], conductor.problems())
        hung, goes_on = threading.Semaphore(0), threading.Event()

        def hang(*_arguments: Any) -> Any:
            hung.release()
            goes_on.wait(_TIMEOUT)
            raise exception.Unreachable('played')
        self.addCleanup(goes_on.set)
        with mock.patch.object(self.store, 'free', hang):
            conductor.start()
            self.assertTrue(hung.acquire(timeout=_TIMEOUT))
            self.assertEqual([], conductor.problems())
            conductor._takes._monotonic = lambda: time.monotonic() + 700.0
            problems = str(conductor.problems())
            goes_on.set()
        self.assertIn('thread conductor has made no progress', problems)

    def test_highest_priority_comes_first(self) -> None:
        for server, priority in (('low', -1), ('usual', 0), ('high', 7)):
            self._made(server, priority=priority)
        self._conductor(slots=1).start()
        self._wait(lambda: not self.store.active())
        self.assertEqual(['high', 'usual', 'low'], self.begun)

    def test_recoveries_are_limited_by_the_slots(self) -> None:
        first = self._made('a', held=True, priority=1)
        self._made('b')
        conductor = self._conductor(slots=1)
        conductor.start()
        self._wait(lambda: self.begun == ['a'])
        self.assertFalse(conductor.reserve(_new('another')))
        # Its server serves, and the merge is still to be done.
        self.context.capacity.leave(first.id)
        self._wait(lambda: self.begun == ['a', 'b'])
        self.held[first.id].set()
        self._wait(lambda: not self.store.active())

    def test_free_slot_is_a_reason_to_look_only_if_recoveries_wait(self) -> None:
        recoveries = [self._made(server, held=True) for server in 'ab']
        conductor = self._conductor(slots=2)
        self.fibers.start()
        conductor._take()
        self._wait(lambda: len(self.begun) == 2)
        # All slots are taken, so that some may wait; then they are not, and none waits.
        for recovery, looks in zip(recoveries, (True, False), strict=True):
            conductor._take()
            conductor._wake.clear()
            self.context.capacity.leave(recovery.id)
            self.assertEqual(looks, conductor._wake.is_set())
        for recovery in recoveries:
            self.held[recovery.id].set()
        self._wait(lambda: not self.store.active())

    def test_slots_grow_with_the_healthy_hosts(self) -> None:
        self.suspects.healthy.return_value = [f'h{number}' for number in range(300)]
        self.context = self.make_context()
        conductor = self._conductor(slots=1)
        for number in range(4):
            self.addCleanup(conductor.release, str(number))
        self.assertEqual([True, True, True, False],
                         [conductor.reserve(_new(str(number))) for number in range(4)])

    def test_recovery_that_begins_anew_takes_its_slot_again(self) -> None:
        recovery = self._made('a', held=True)
        conductor = self._conductor(slots=1)
        conductor.start()
        self._wait(lambda: self.begun == ['a'])
        self.context.capacity.leave(recovery.id)
        self.assertTrue(conductor._free())
        self.context.capacity.enter(recovery.id)
        self.assertFalse(conductor._free())
        self.held[recovery.id].set()
        # It ends a moment before the slot is free.
        self._wait(conductor._free)

    def test_short_recoveries_come_first(self) -> None:
        for server, expected in (('unknown', None), ('long', 60.0), ('short', 5.0)):
            self._made(server, expected=expected)
        self._conductor(slots=1).start()
        self._wait(lambda: not self.store.active())
        self.assertEqual(['short', 'long', 'unknown'], self.begun)

    def test_own_recovery_keeps_its_epoch(self) -> None:
        conductor = self._conductor()
        conductor.start()
        self.assertTrue(conductor.reserve(_new('00000000-0000-4000-8000-000000000000')))
        recovery = self.make_recovery('a', epoch=1, engine='e1')
        conductor.begin(recovery)
        self._wait(lambda: self.store.history[recovery.id].outcome and not self.store.active())
        self.assertEqual(1, self.store.history[recovery.id].epoch)

    def test_recovery_of_an_engine_whose_lease_is_over_is_taken_over(self) -> None:
        recovery = self._made('a', epoch=3, engine='e2')
        # The conductor looks only once, unless the lease of an engine is over.
        self._conductor(interval=4.0 * _TIMEOUT).start()
        self.ended.add('e2')
        self._wait(lambda: not self.store.active())
        self.assertEqual(('e1', 4), (self.store.history[recovery.id].engine,
                                     self.store.history[recovery.id].epoch))

    def test_recovery_of_a_living_engine_is_left(self) -> None:
        recovery, other = self._made('a', epoch=3, engine='e2'), self._made('b')
        self._conductor().start()
        self._wait(lambda: self.store.history[other.id].outcome)
        self.assertEqual(recovery, self.store.history[recovery.id])

    def test_recovery_is_worked_on_by_the_first_engine_that_claims_it(self) -> None:
        self._made('a')
        take_over, lost = self.store.take_over, []

        def take_late(recovery: model.Recovery, engine: str) -> model.Recovery:
            lost.append(take_over(recovery, 'e2'))
            return take_over(recovery, engine)
        conductor = self._conductor()
        with mock.patch.object(self.store, 'take_over', take_late):
            conductor.start()
            self._wait(lambda: lost and not self.context.capacity.count())
        self.assertEqual(([], lost), (self.begun, self.store.active()))

    def test_claim_without_an_answer_is_repeated(self) -> None:
        recovery = self._made('a')
        take_over, unanswered = self.store.take_over, [exception.Unreachable('no answer')]

        def take(recovery: model.Recovery, engine: str) -> model.Recovery:
            taken = take_over(recovery, engine)
            if unanswered:
                raise unanswered.pop()
            return taken
        with mock.patch.object(self.store, 'take_over', take):
            self._conductor().start()
            self._wait(lambda: not self.store.active())
        self.assertEqual((['a'], 2), (self.begun, self.store.history[recovery.id].epoch))

    def test_recovery_is_not_claimed_again_while_it_is_worked_on(self) -> None:
        recovery = self._made('a', held=True)
        self._conductor().start()
        self._wait(lambda: self.begun == ['a'])
        with mock.patch.object(self.store, 'free', wraps=self.store.free) as looks:
            self._wait(lambda: looks.call_count > 2)
        self.held[recovery.id].set()
        self._wait(lambda: not self.store.active())
        self.assertEqual((['a'], 1), (self.begun, self.store.history[recovery.id].epoch))

    def test_recovery_that_was_created_and_has_not_begun_is_taken(self) -> None:
        recovery = self._made('a', epoch=1, engine='e1')
        self._conductor().start()
        self._wait(lambda: not self.store.active())
        self.assertEqual(2, self.store.history[recovery.id].epoch)

    def test_processes_with_one_name_do_not_take_a_recovery_from_each_other_for_ever(
            self) -> None:
        recovery = self._made('a')

        def attempt(run: runs.Run) -> None:
            with run.step('long'):
                self.begun.append('a')
                self.fibers.call(time.sleep, 0.6)
            run.change(state=model.ENDED, outcome=model.RECOVERED)
        self.attempt.side_effect = attempt
        self._conductor().start()
        self._wait(lambda: self.begun)
        time.sleep(0.3)
        self._conductor()._thread.start()
        self._wait(lambda: not self.store.active() or len(self.begun) > 10)
        self.assertEqual(['a', 'a'], self.begun)
        self.assertEqual(model.RECOVERED, self.store.history[recovery.id].outcome)

    def test_failed_attempt_is_repeated(self) -> None:
        self._made('a')
        errors = [exception.RetryAttempt('lost'), exception.Unreachable('no database'),
                  ValueError('unforeseen')]

        def attempt(run: runs.Run) -> None:
            if errors:
                raise errors.pop()
            self._attempt(run)
        self.attempt.side_effect = attempt
        self._conductor().start()
        self._wait(lambda: not self.store.active())
        self.assertEqual(4, self.attempt.call_count)

    def test_long_look_is_followed_by_a_rest(self) -> None:
        looking: Any = self._conductor()
        looking._wait, looking._take, looking._stopped = (mock.Mock() for _ in range(3))
        looking._stopped.is_set.side_effect = [False, False, True]
        looking._monotonic = mock.Mock(side_effect=[0.0, 0.4, 1.0, 1.001])
        looking._take_all()
        [[seconds]] = [call.args for call in looking._stopped.wait.call_args_list]
        self.assertAlmostEqual(1.2, seconds)

    def test_conductor_continues_after_an_outage_of_the_database(self) -> None:
        conductor = self._conductor()
        with mock.patch.object(self.store, 'free',
                               side_effect=exception.Unreachable('no')) as free:
            conductor.start()
            self._wait(lambda: free.call_count > 2)
            self._made('a')
        self._wait(lambda: not self.store.active())
        self.assertEqual(['a'], self.begun)

    def test_stopped_engine_leaves_its_recoveries(self) -> None:
        recovery = self._made('a', held=True)
        conductor = self._conductor()
        conductor.start()
        self._wait(lambda: self.begun == ['a'])
        self.assertFalse(conductor.stop(0.1))
        [left] = self.store.active()
        self.assertEqual('e1', left.engine)
        self.held[recovery.id].set()
