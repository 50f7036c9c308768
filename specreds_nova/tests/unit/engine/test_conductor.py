# SPDX-License-Identifier: Apache-2.0
"""The conductor: which jobs an engine works on, and how many at a time."""

import threading
import time
from typing import Any, cast
from unittest import mock

from specreds_nova.engine import conductor as conductors
from specreds_nova.engine import exception
from specreds_nova.engine import fibers
from specreds_nova.engine import jobs
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.tests.unit.engine import etcd as etcds
from specreds_nova.tests.unit.engine.recovery import base

# Seconds after which an awaited event counts as missing.
_TIMEOUT = 20.0


def _new(recovery_id: str, expected: float | None = None) -> model.Recovery:
    """Return a recovery that is not in the store yet."""
    return model.Recovery(id=recovery_id, server='a', server_name='a', project='p', host='h1',
                          suspected=1.0, expected=expected)


class ConductorTest(base.RecoveryTest):
    """Jobs are claimed in order, and their recoveries are brought to an end."""

    def setUp(self) -> None:
        super().setUp()
        self.etcd = etcds.Etcd()
        client: Any = self.etcd
        self.board = jobs.Board(client, 'e1', 4)
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

    def _conductor(self, slots: int = 10) -> conductors.Conductor:
        conductor = conductors.Conductor(
            self.context, self.board, self.fibers, 'e1', slots, 4.0, 0.02, self.attempt)
        self.addCleanup(conductor.stop, _TIMEOUT)
        return conductor

    def _wait(self, condition: Any) -> None:
        with self.changed:
            for _ in range(int(_TIMEOUT / 0.02)):
                if condition():
                    return
                self.changed.wait(0.02)
        self.fail(f'the condition is not met after: {self.begun}')

    def _posted(self, server: str, *, held: bool = False, **values: Any) -> model.Recovery:
        recovery = self.make_recovery(server, **values)
        if held:
            self.held[recovery.id] = threading.Event()
        self.board.post(recovery)
        return recovery

    def test_finished_job_is_removed(self) -> None:
        recovery = self._posted('a')
        self._conductor().start()
        self._wait(lambda: not self.board.known())
        self.assertEqual(model.RECOVERED, self.store.history[recovery.id].outcome)
        self.observer.recovery.assert_called_with('end', self.store.history[recovery.id])

    def test_hanging_threads_are_problems(self) -> None:
        conductor = self._conductor()
        self.assertEqual([], conductor.problems())
        hung, goes_on = threading.Semaphore(0), threading.Event()

        def hang(*_arguments: Any) -> Any:
            hung.release()
            goes_on.wait(_TIMEOUT)
            raise exception.Unreachable('played')
        self.addCleanup(goes_on.set)
        conductor._lease = 0.03
        with mock.patch.object(self.board, 'unclaimed', hang), \
                mock.patch.object(self.board, 'keep', hang):
            conductor.start()
            for _ in range(2):
                self.assertTrue(hung.acquire(timeout=_TIMEOUT))
            self.assertEqual([], conductor.problems())
            for each in (conductor._takes, conductor._keeps):
                each._monotonic = lambda: time.monotonic() + 700.0
            problems = str(conductor.problems())
            goes_on.set()
        self.assertIn('thread conductor has made no progress', problems)
        self.assertIn('thread claims has made no progress', problems)

    def test_threads_that_go_on_have_no_problem(self) -> None:
        conductor, kept = self._conductor(), threading.Semaphore(0)
        conductor._lease = 0.03
        with mock.patch.object(self.board, 'keep', kept.release):
            conductor.start()
            self.assertTrue(kept.acquire(timeout=_TIMEOUT))
            for each in (conductor._takes, conductor._keeps):
                each._at = -1e9
            # Whichever renewal was under way is followed by another one.
            for _ in range(2):
                self.assertTrue(kept.acquire(timeout=_TIMEOUT))
            self._posted('a')
            self._wait(lambda: not self.board.known())
            # Each thread notes its progress when it begins to wait again.
            self._wait(lambda: not conductor.problems())

    def test_highest_priority_comes_first(self) -> None:
        for server, priority in (('low', -1), ('usual', 0), ('high', 7)):
            self._posted(server, priority=priority)
        self._conductor(slots=1).start()
        self._wait(lambda: not self.board.known())
        self.assertEqual(['high', 'usual', 'low'], self.begun)

    def test_recoveries_are_limited_by_the_slots(self) -> None:
        first = self._posted('a', held=True, priority=1)
        self._posted('b')
        conductor = self._conductor(slots=1)
        conductor.start()
        self._wait(lambda: self.begun == ['a'])
        self.assertFalse(conductor.reserve(_new('another')))
        # Its server serves, and the merge is still to be done.
        self.context.capacity.leave(first.id)
        self._wait(lambda: self.begun == ['a', 'b'])
        self.held[first.id].set()
        self._wait(lambda: not self.board.known())

    def test_free_slot_is_a_reason_to_look_for_jobs_only_if_some_wait(self) -> None:
        recoveries = [self._posted(server, held=True) for server in 'ab']
        conductor = self._conductor(slots=2)
        self.fibers.start()
        conductor._take()
        self._wait(lambda: len(self.begun) == 2)
        # All slots are taken, so that jobs may wait; then they are not, and none waits.
        for recovery, looks in zip(recoveries, (True, False), strict=True):
            conductor._take()
            conductor._wake.clear()
            self.context.capacity.leave(recovery.id)
            self.assertEqual(looks, conductor._wake.is_set())
        for recovery in recoveries:
            self.held[recovery.id].set()
        self._wait(lambda: not self.board.known())

    def test_slots_grow_with_the_healthy_hosts(self) -> None:
        self.suspects.healthy.return_value = [f'h{number}' for number in range(300)]
        self.context = self.make_context()
        conductor = self._conductor(slots=1)
        for number in range(4):
            self.addCleanup(conductor.release, str(number))
        self.assertEqual([True, True, True, False],
                         [conductor.reserve(_new(str(number))) for number in range(4)])

    def test_recovery_that_begins_anew_takes_its_slot_again(self) -> None:
        recovery = self._posted('a', held=True)
        conductor = self._conductor(slots=1)
        conductor.start()
        self._wait(lambda: self.begun == ['a'])
        self.context.capacity.leave(recovery.id)
        self.assertTrue(conductor._free())
        self.context.capacity.enter(recovery.id)
        self.assertFalse(conductor._free())
        self.held[recovery.id].set()
        # The job is removed a moment before the slot is free.
        self._wait(conductor._free)

    def test_slot_is_kept_for_a_short_recovery(self) -> None:
        conductor = self._conductor(slots=2)
        short, first, second = _new('short', 5.0), _new('first', 60.0), _new('second')
        conductor.expect([short, first, second])
        for recovery in (short, first):
            self.addCleanup(conductor.release, recovery.id)
        self.assertTrue(conductor.reserve(first))
        self.assertFalse(conductor.reserve(second))
        self.assertTrue(conductor.reserve(short))

    def test_short_recoveries_come_first(self) -> None:
        for server, expected in (('unknown', None), ('long', 60.0), ('short', 5.0)):
            self._posted(server, expected=expected)
        self._conductor(slots=1).start()
        self._wait(lambda: not self.board.known())
        self.assertEqual(['short', 'long', 'unknown'], self.begun)

    def test_own_recovery_keeps_its_epoch(self) -> None:
        conductor = self._conductor()
        conductor.start()
        self.assertTrue(conductor.reserve(_new('00000000-0000-4000-8000-000000000000')))
        recovery = self.make_recovery('a', epoch=1, engine='e1')
        conductor.begin(recovery)
        self._wait(lambda: self.store.history[recovery.id].outcome and not self.board.known())
        self.assertEqual(1, self.store.history[recovery.id].epoch)

    def test_recovery_is_worked_on_without_etcd(self) -> None:
        self.etcd.away = True
        conductor = self._conductor()
        conductor.start()
        conductor.reserve(_new('00000000-0000-4000-8000-000000000000'))
        recovery = self.make_recovery('a', epoch=1, engine='e1')
        conductor.begin(recovery)
        self._wait(lambda: self.store.history[recovery.id].outcome)

    def test_recovery_does_not_wait_for_its_job(self) -> None:
        conductor = self._conductor()
        conductor.start()
        conductor.reserve(_new('00000000-0000-4000-8000-000000000000'))
        recovery = self.make_recovery('a', epoch=1, engine='e1')
        post, before = self.board.post, []

        def post_late(*arguments: Any, **more: Any) -> jobs.Posted:
            self._wait(lambda: self.store.history[recovery.id].outcome)
            before.append(self.board.known())
            return post(*arguments, **more)
        with mock.patch.object(self.board, 'post', post_late):
            conductor.begin(recovery)
            # The job of a recovery that has ended meanwhile is removed all the same.
            self._wait(lambda: before and not self.context.capacity.count())
        self._wait(lambda: not self.board.known())
        self.assertEqual([set()], before)

    def test_job_posted_again_is_not_done_twice(self) -> None:
        recovery = self._posted('a', held=True)
        self._conductor().start()
        self._wait(lambda: self.begun == ['a'])
        self.board.post(recovery)
        self._wait(lambda: not self.board.unclaimed())
        self.held[recovery.id].set()
        self._wait(lambda: not self.board.known())
        self.assertEqual(['a'], self.begun)

    def test_job_that_is_claimed_while_the_first_one_is_removed_is_removed_too(self) -> None:
        recovery = self._posted('a', held=True)
        conductor = self._conductor()
        conductor.start()
        self._wait(lambda: self.begun == ['a'])
        consume, removed = self.board.consume, []

        def consume_late(posted: jobs.Posted) -> None:
            removed.append(posted)
            if len(removed) == 1:
                self.board.post(recovery)
                self._wait(lambda: not self.board.unclaimed())
            consume(posted)
        with mock.patch.object(self.board, 'consume', consume_late):
            self.held[recovery.id].set()
            self._wait(lambda: not self.board.known())
        self.assertEqual(2, len(removed))

    def test_expired_claim_is_renewed(self) -> None:
        recovery = self._posted('a', held=True)
        self._conductor().start()
        self._wait(lambda: self.begun == ['a'])
        self.etcd.expire()
        self._wait(lambda: not self.board.unclaimed())
        self.held[recovery.id].set()
        self._wait(lambda: not self.board.known())
        self.assertEqual(['a'], self.begun)

    def test_job_of_a_silent_engine_is_taken_over(self) -> None:
        recovery = self._posted('a', epoch=3, engine='e2')
        other = jobs.Board(cast(Any, self.etcd), 'e2', 4)
        [posted] = other.unclaimed()
        other.claim(posted)
        silent: set[str] = set()
        # It looks for jobs only once, unless the engine falls silent.
        conductor = conductors.Conductor(
            self.context, self.board, self.fibers, 'e1', 10, 4.0, 4.0 * _TIMEOUT, self.attempt,
            lambda: frozenset(silent))
        self.addCleanup(conductor.stop, _TIMEOUT)
        conductor.start()
        silent.add('e2')
        self._wait(lambda: not self.board.known())
        self.assertEqual('e1', self.store.history[recovery.id].engine)
        self.assertEqual(4, self.store.history[recovery.id].epoch)

    def test_job_is_left_to_a_silent_engine_that_claims_it_again(self) -> None:
        recovery = self._posted('a', held=True, epoch=3, engine='e2')
        other = jobs.Board(cast(Any, self.etcd), 'e2', 4)
        [posted] = other.unclaimed()
        other.claim(posted)
        conductor = conductors.Conductor(
            self.context, self.board, self.fibers, 'e1', 10, 4.0, 0.02, self.attempt,
            lambda: frozenset({'e2'}))
        self.addCleanup(conductor.stop, _TIMEOUT)
        self.addCleanup(self.held[recovery.id].set)
        conductor.start()
        self._wait(lambda: self.begun == ['a'])
        # It does not hear this engine either.
        [posted] = other.unclaimed({'e1'})
        self.assertTrue(other.claim(posted))
        with mock.patch.object(self.board, 'unclaimed', wraps=self.board.unclaimed) as looks:
            self._wait(lambda: looks.call_count > 2)
        [posted] = self.board.unclaimed({'e1', 'e2'})
        self.assertEqual('e2', posted.owner)

    def test_job_that_was_claimed_without_an_answer_is_worked_on(self) -> None:
        for server in ('a', 'b'):
            self._posted(server)
        self.etcd.lost = 1
        self._conductor().start()
        self._wait(lambda: not self.board.known())
        self.assertEqual(['a', 'b'], sorted(self.begun))

    def test_job_that_was_posted_without_an_answer_is_removed(self) -> None:
        conductor = self._conductor()
        self.assertTrue(conductor.reserve(_new('00000000-0000-4000-8000-000000000000')))
        recovery = self.make_recovery('a', epoch=1, engine='e1')
        self.etcd.lost = 1
        conductor.begin(recovery)
        conductor.start()
        self._wait(lambda: self.store.history[recovery.id].outcome and not self.board.known())
        self.assertEqual(['a'], self.begun)

    def test_own_job_is_not_claimed_again_while_it_is_worked_on(self) -> None:
        recovery = self._posted('a', held=True)
        self._conductor().start()
        self._wait(lambda: self.begun == ['a'])
        with mock.patch.object(self.board, 'claim', wraps=self.board.claim) as claim, \
                mock.patch.object(self.board, 'unclaimed', wraps=self.board.unclaimed) as looks:
            self._wait(lambda: looks.call_count > 2)
        claim.assert_not_called()
        self.held[recovery.id].set()
        self._wait(lambda: not self.board.known())
        self.assertEqual(['a'], self.begun)

    def test_job_of_another_engine_is_left(self) -> None:
        recovery = self._posted('a')
        self.attempt.side_effect = exception.Superseded('e2 has it')
        self._conductor().start()
        self._wait(lambda: self.attempt.called)
        self.assertEqual({recovery.id}, self.board.known())

    def test_failed_attempt_is_repeated(self) -> None:
        self._posted('a')
        self.attempt.side_effect = [exception.RetryAttempt('lost'),
                                      exception.Unreachable('no database'),
                                      ValueError('unforeseen'), mock.DEFAULT]
        self.attempt.return_value = None
        conductor = self._conductor()
        with mock.patch.object(self.store, 'get', side_effect=self._ended_after(4)):
            conductor.start()
            self._wait(lambda: not self.board.known())
        self.assertEqual(4, self.attempt.call_count)

    def _ended_after(self, attempts: int) -> Any:
        def get(recovery_id: str) -> model.Recovery:
            recovery = self.store.history[recovery_id]
            if self.attempt.call_count < attempts:
                return recovery
            return model.Recovery(**{**vars(recovery), 'state': model.ENDED,
                                     'outcome': model.RECOVERED})
        return get

    def test_job_of_a_pruned_recovery_is_removed(self) -> None:
        recovery = self._posted('a')
        del self.store.history[recovery.id]
        self._conductor().start()
        self._wait(lambda: not self.board.known())
        self.assertEqual([], self.begun)

    def test_conductor_continues_after_an_outage_of_etcd(self) -> None:
        conductor = self._conductor()
        self.etcd.away = True
        conductor.start()
        self._wait(lambda: self.etcd.requests > 2)
        self.etcd.away = False
        self._posted('a')
        self._wait(lambda: not self.board.known())
        self.assertEqual(['a'], self.begun)

    def test_long_look_at_the_board_is_followed_by_a_rest(self) -> None:
        looking: Any = self._conductor()
        looking._wait, looking._take, looking._stopped = (mock.Mock() for _ in range(3))
        looking._stopped.is_set.side_effect = [False, False, True]
        looking._monotonic = mock.Mock(side_effect=[0.0, 0.4, 1.0, 1.001])
        looking._take_all()
        [[seconds]] = [call.args for call in looking._stopped.wait.call_args_list]
        self.assertAlmostEqual(1.2, seconds)

    def test_stopped_engine_releases_its_jobs(self) -> None:
        recovery = self._posted('a', held=True)
        conductor = self._conductor()
        conductor.start()
        self._wait(lambda: self.begun == ['a'])
        self.assertFalse(conductor.stop(0.1))
        [posted] = self.board.unclaimed()
        self.assertEqual(recovery.id, posted.recovery)
        self.held[recovery.id].set()
