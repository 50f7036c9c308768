# SPDX-License-Identifier: Apache-2.0
"""The restart of a crashed server, and the queue of crashes."""

from collections.abc import Callable
import itertools
import threading
import time
from typing import Any
from unittest import mock

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import crashes
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery.steps import restart
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine.recovery import base

_CRASH = ({'kind': 'crash', 'words': 'it has crashed', 'at': 1000.0},)


@ddt.ddt
class RestartingTest(base.RecoveryTest):
    """Nova reboots a crashed server, unless it runs or must not run."""

    def setUp(self) -> None:
        super().setUp()
        self.suspects.suspected.return_value = False
        self.suspects.is_well.return_value = True
        self.server: model.Server | None = base.make_server('a')
        self.compute.server.side_effect = lambda server_id: self.server
        self.compute.runs.return_value = False
        self.compute.stopped_by_itself.return_value = False
        self.compute.reboot.side_effect = self._rebooted
        self.made = self.make_recovery('a', why=_CRASH)

    def _rebooted(self, server_id: str) -> None:
        del server_id
        self.server = base.make_server('a')
        self.compute.runs.return_value = True

    def _attempt(self) -> model.Recovery:
        taken = self.taken_over(self.made, 'e1')
        restart.attempt(runs.Run(self.context, taken))
        recovery = self.store.get(self.made.id)
        assert recovery is not None, 'it was made'
        self.assertEqual(model.ENDED, recovery.state)
        return recovery

    def test_crashed_server_is_rebooted_on_its_host(self) -> None:
        self.assertEqual(model.RESTARTED, self._attempt().outcome)
        self.compute.reboot.assert_called_once_with('a')
        for other in (self.compute.evacuate, self.compute.force_down, self.compute.reset,
                      self.volumes.superpose, self.backups.start):
            other.assert_not_called()

    def test_server_that_nova_marked_as_stopped_is_rebooted(self) -> None:
        self.server = base.make_server('a', status='SHUTOFF')
        self.compute.stopped_by_itself.return_value = True
        self.assertEqual(model.RESTARTED, self._attempt().outcome)

    def test_running_server_is_not_rebooted(self) -> None:
        self.compute.runs.return_value = True
        self.assertEqual(model.PRIMARY, self._attempt().outcome)
        self.compute.reboot.assert_not_called()

    @ddt.data(('ACTIVE', False, True, model.RESTARTED), ('ACTIVE', True, False, model.PRIMARY),
              ('SHUTOFF', False, False, model.RESTARTED))
    @ddt.unpack
    def test_server_that_a_failed_evacuation_has_made_active_is_stopped(
            self, status: str, runs_there: bool, stopped: bool, outcome: str) -> None:
        self.server = base.make_server('a', status=status)
        self.compute.runs.return_value = runs_there
        # Nova itself has marked it as stopped by then.
        self.compute.stopped_by_itself.return_value = True
        fact = left.fact(base.make_server('a', status='PAUSED'), ['it is PAUSED'], 0.0)
        self.store.history.clear()
        self.made = self.make_recovery('a', why=(*_CRASH, fact))
        self.assertEqual(outcome, self._attempt().outcome)
        self.assertEqual(stopped, self.compute.stop.called)
        self.compute.reboot.assert_not_called()

    @ddt.data({'status': 'SHUTOFF'}, {'status': 'PAUSED'}, {'status': 'ERROR'}, {'host': 'h2'},
              None)
    def test_server_that_must_not_run_is_not_rebooted(self, values: dict[str, Any] | None) -> None:
        self.server = None if values is None else base.make_server('a', **values)
        self.assertEqual(model.ABORTED, self._attempt().outcome)
        self.compute.reboot.assert_not_called()

    def test_mode_ends_the_restart(self) -> None:
        self.set_mode(model.PAUSE)
        self.assertEqual(model.ABORTED, self._attempt().outcome)
        self.compute.reboot.assert_not_called()

    def test_abort_by_an_operator_ends_the_restart(self) -> None:
        self.store.request_abort(self.made.id, 'user u1')
        self.assertEqual(model.ABORTED, self._attempt().outcome)

    @ddt.data(exception.Unreachable('away'), exception.Refused('not yours'))
    def test_server_is_rebooted_if_its_state_is_unknown(self, answer: Exception) -> None:
        self.compute.runs.side_effect = answer
        self.assertEqual(model.FAILED, self._attempt().outcome)
        self.compute.reboot.assert_not_called()

    def test_reboot_that_nova_does_not_finish_fails(self) -> None:
        self.compute.reboot.side_effect = None
        recovery = self._attempt()
        self.assertEqual((model.FAILED, 3), (recovery.outcome, self.compute.reboot.call_count))
        self.assertIn('asked 3 times', recovery.error or '')

    def test_reboot_by_an_earlier_engine_is_not_repeated(self) -> None:
        self.made = self.store.change(self.taken_over(self.made, 'e0'),
                                      state=model.COMMITTED)
        self.compute.runs.return_value = True
        self.assertEqual(model.RESTARTED, self._attempt().outcome)
        self.compute.reboot.assert_not_called()

    @ddt.data(('rebooting_hard', 1), ('migrating', 0), (None, 0))
    @ddt.unpack
    def test_restart_ends_when_the_host_fails(self, task: str | None, resets: int) -> None:
        self.made = self.store.change(self.taken_over(self.made, 'e0'),
                                      state=model.COMMITTED)
        self.server = base.make_server('a', task=task)
        self.suspect()
        self.assertEqual(model.FAILED, self._attempt().outcome)
        self.assertEqual(resets, self.compute.reset.call_count)
        self.compute.reboot.assert_not_called()


class _PassingClock(clocks.Clock):
    """A clock that advances by ten seconds whenever it is read."""

    def now(self) -> float:
        """Return the time."""
        self.sleep(10.0)
        return self.time


class CrashesTest(base.RecoveryTest):
    """A crash that cannot be handled yet is tried again for a while."""

    def setUp(self) -> None:
        super().setUp()
        self.memory: Any = self.store

    def _attempts(self, answer: Callable[[], str | None],
                  last: Callable[[float], bool] = lambda age: True) -> list[float]:
        """Return the ages of a crash at all attempts to handle it, in seconds.

        :param last: returns whether no attempt is expected after one at that age
        """
        passing = _PassingClock()
        ages: list[float] = []
        enough, idle = threading.Event(), threading.Event()
        others = iter(['not yet'] * 5)

        def act(host: str, server: str, why: crashes.Why) -> str | None:
            if server == 'b':
                # It waits long enough for the first crash to be tried again if that waits, too.
                held = next(others, None)
                if held is None:
                    idle.set()
                return held
            self.assertEqual(('h1', 'a', 1), (host, server, len(why)))
            ages.append(passing.now() - reported)
            if last(ages[-1]):
                enough.set()
            return answer()

        restarts = crashes.Crashes(act, passing, self.memory, again=0.001)
        reported = passing.now()
        restarts.tell('h1', 'a', _CRASH)
        restarts.start()
        self.assertTrue(enough.wait(60.0), ages)
        restarts.tell('h1', 'b', ())
        self.assertTrue(idle.wait(60.0), ages)
        restarts.stop(60.0)
        return ages

    def test_handled_crash_is_not_repeated(self) -> None:
        self.assertEqual(1, len(self._attempts(lambda: None)))

    def test_waiting_crash_is_never_given_up(self) -> None:
        ages = self._attempts(lambda: 'h1 is suspected', lambda age: age >= 7200.0)
        pauses = [later - age for age, later in itertools.pairwise(ages)]
        self.assertTrue(all(pause <= 40.0 + min(0.1 * age, 60.0)
                            for age, pause in zip(ages, pauses, strict=False)), ages)

    def test_crash_that_hangs_is_a_problem(self) -> None:
        hung, goes_on = threading.Event(), threading.Event()

        def hang(*_arguments: Any) -> None:
            hung.set()
            goes_on.wait(60.0)
        restarts = crashes.Crashes(hang, self.clock, self.memory)
        self.assertEqual([], restarts.problems())
        restarts.start()
        self.addCleanup(restarts.stop, 60.0)
        self.addCleanup(goes_on.set)
        # Nothing has crashed, however long ago that was.
        restarts._progress._monotonic = lambda: time.monotonic() + 700.0
        self.assertEqual([], restarts.problems())
        restarts._progress._monotonic = time.monotonic
        restarts.tell('h1', 'a', _CRASH)
        self.assertTrue(hung.wait(60.0))
        self.assertEqual([], restarts.problems())
        restarts._progress._monotonic = lambda: time.monotonic() + 700.0
        self.assertIn('thread crashes has made no progress', str(restarts.problems()))
        goes_on.set()
        until = time.monotonic() + 60.0
        while restarts.problems() and time.monotonic() < until:
            time.sleep(0.01)
        # It waits for another crash.
        self.assertEqual([], restarts.problems())

    def test_crash_waits_for_an_unreachable_service(self) -> None:
        answers = iter([exception.Unreachable('away')])
        expected = iter([False, True])

        def answer() -> str | None:
            for error in answers:
                raise error
            return None
        self.assertEqual(2, len(self._attempts(answer, lambda age: next(expected))))

    def test_crash_waits_after_an_unexpected_error(self) -> None:
        answers = iter([ValueError('played')])
        expected = iter([False, True])

        def answer() -> str | None:
            for error in answers:
                raise error
            return None
        self.assertEqual(2, len(self._attempts(answer, lambda age: next(expected))))


class RecordedCrashesTest(base.RecoveryTest):
    """A crash that has to wait outlives all engines."""

    def setUp(self) -> None:
        super().setUp()
        self.memory: Any = self.store
        self.answer: str | None = 'h1 is fenced'
        self.acted: list[tuple[str, str, crashes.Why]] = []

    def _act(self, host: str, server: str, why: crashes.Why) -> str | None:
        self.acted.append((host, server, why))
        return self.answer

    def _run(self, *, tell: bool) -> None:
        """Run an engine until it has acted once on each crash that it has or gets."""
        engine = crashes.Crashes(self._act, self.clock, self.memory, again=3600.0)
        engine.start()
        if tell:
            engine.tell('h1', 'a', _CRASH)
        engine.stop(60.0)

    def test_waiting_crash_is_continued_by_the_next_engine(self) -> None:
        self._run(tell=True)
        [crash] = self.store.crashes()
        self.assertEqual(('h1', 'a', self.clock.now()), (crash.host, crash.server, crash.heard))
        self.answer = None
        self._run(tell=False)
        self.assertEqual([('h1', 'a', _CRASH)] * 2, self.acted)
        self.assertEqual([], self.store.crashes())

    def test_crash_that_need_not_wait_is_not_recorded(self) -> None:
        self.answer = None
        with mock.patch.object(self.store, 'keep_crash') as keep:
            self._run(tell=True)
        keep.assert_not_called()

    def test_crash_that_the_database_refuses_ends_no_thread(self) -> None:
        with mock.patch.object(self.store, 'keep_crash', side_effect=ValueError('too long')):
            engine = crashes.Crashes(self._act, self.clock, self.memory, again=3600.0)
            engine.start()
            engine.tell('h1', 'a' * 40, _CRASH)
            engine.tell('h1', 'b', _CRASH)
            engine.stop(60.0)
        self.assertEqual(['a' * 40, 'b'], [server for _, server, _ in self.acted])

    def test_boot_that_the_database_refuses_ends_no_thread(self) -> None:
        refused = threading.Event()

        def refuse(*_arguments: Any) -> None:
            refused.set()
            raise ValueError('too long')
        with mock.patch.object(self.store, 'booted', side_effect=refuse):
            engine = crashes.Crashes(self._act, self.clock, self.memory, again=3600.0)
            engine.start()
            engine.booted('h1', 'k1')
            self.assertTrue(refused.wait(60.0))
            engine.tell('h1', 'b', _CRASH)
            engine.stop(60.0)
        self.assertEqual(['b'], [server for _, server, _ in self.acted])

    def test_boot_is_recorded_after_the_crashes_that_it_has_caused(self) -> None:
        crashed = self._run_until_booted(model.ANY_SERVER)
        self.assertEqual([('h1', model.ANY_SERVER), ('h1', 'a')],
                         [(host, server) for host, server, _ in self.acted])
        self.assertEqual(['a'], [crash.server for crash in crashed])

    def test_boot_waits_for_crashes_that_are_not_recorded(self) -> None:
        keep = self.store.keep_crash
        failures = iter([exception.Unreachable('no')] * 2)

        def failing(crash: model.Crash) -> None:
            for failure in failures:
                raise failure
            keep(crash)
        with mock.patch.object(self.store, 'keep_crash', failing):
            crashed = self._run_until_booted('a')
        self.assertEqual(['a'], [crash.server for crash in crashed])

    def _run_until(self, event: threading.Event, engine: crashes.Crashes) -> None:
        """Run an engine until an event, at most for a minute if it hangs."""
        engine.start()
        for _ in range(6000):
            if event.wait(0.01):
                break
            self.clock.time += 1.0
        engine.stop(60.0)
        self.assertTrue(event.is_set())

    def _run_until_booted(self, server: str) -> list[model.Crash]:
        """Report a crash and a boot, and run an engine until it has recorded the boot.

        :returns: the crashes that were recorded before the boot
        """
        recorded = threading.Event()
        known: list[model.Crash] = []

        def act(host: str, server: str, why: crashes.Why) -> str | None:
            self.acted.append((host, server, why))
            if server == model.ANY_SERVER:
                engine.tell(host, 'a', why)
                return None
            return 'h1 is fenced'

        def booted(name: str, kernel: str) -> None:
            self.assertEqual(('h1', 'k2'), (name, kernel))
            known.extend(self.store.crashes())
            recorded.set()
        engine = crashes.Crashes(act, self.clock, self.memory, again=0.001)
        engine.tell('h1', server, _CRASH)
        engine.booted('h1', 'k2')
        with mock.patch.object(self.store, 'booted', booted):
            self._run_until(recorded, engine)
        return known

    def test_server_that_crashes_again_and_again_waits_once(self) -> None:
        engine = crashes.Crashes(self._act, self.clock, self.memory, again=0.001)
        for _ in range(20):
            engine.tell('h1', 'a', _CRASH)
        acted, record = threading.Event(), self._act

        def act(host: str, server: str, why: crashes.Why) -> str | None:
            if len(self.acted) >= 40:
                acted.set()
            return record(host, server, why)
        engine._act = act
        began = self.clock.now()
        engine.start()
        while not acted.wait(0.01):
            # One attempt at a time is due, not twenty.
            self.clock.time += 1.0
        engine.stop(60.0)
        self.assertGreaterEqual(self.clock.now() - began, 20.0)

    def test_crash_of_long_ago_is_acted_on(self) -> None:
        self.store.keep_crash(model.Crash('h1', 'a', _CRASH, self.clock.now() - 7200.0))
        self.answer = None
        self._run(tell=False)
        self.assertEqual(1, len(self.acted))
        self.assertEqual([], self.store.crashes())

    def test_database_that_is_away_is_asked_again(self) -> None:
        with mock.patch.object(self.store, 'keep_crash', side_effect=exception.Unreachable('no')):
            self._run(tell=True)
        self.assertEqual([], self.store.crashes())
        self._run(tell=True)
        self.assertEqual(1, len(self.store.crashes()))

    def _run_until_dropped(self, drop: Callable[[model.Crash], None], **replaced: Any) -> None:
        """Report a crash, and run an engine until the crash is removed from the database.

        :param drop: removes the crash
        :param replaced: other methods of the store
        """
        removed = threading.Event()

        def dropped(crash: model.Crash) -> None:
            drop(crash)
            removed.set()
        with mock.patch.multiple(self.store, drop_crash=dropped, **replaced):
            engine = crashes.Crashes(self._act, self.clock, self.memory, again=0.001)
            engine.tell('h1', 'a', _CRASH)
            self._run_until(removed, engine)
        self.assertEqual([], self.store.crashes())

    def test_removal_that_fails_is_repeated_and_the_crash_not_acted_on_again(self) -> None:
        drop = self.store.drop_crash
        answers = iter(['h1 is fenced', None])
        failures = iter([exception.Unreachable('no')] * 2)

        def act(host: str, server: str, why: crashes.Why) -> str | None:
            self.acted.append((host, server, why))
            return next(answers)

        def failing(crash: model.Crash) -> None:
            for failure in failures:
                raise failure
            drop(crash)
        with mock.patch.object(self, '_act', act):
            self._run_until_dropped(failing)
        self.assertEqual(2, len(self.acted))

    def test_crash_whose_recording_was_not_confirmed_is_removed(self) -> None:
        keep = self.store.keep_crash

        def kept(crash: model.Crash) -> None:
            keep(crash)
            self.answer = None
            raise exception.Unreachable('the answer is lost')
        self._run_until_dropped(self.store.drop_crash, keep_crash=kept)
        self.assertEqual(2, len(self.acted))

    def test_later_crash_is_not_removed_with_an_earlier_one(self) -> None:
        first, second = (model.Crash('h1', 'a', _CRASH, at) for at in (1.0, 2.0))
        for crash in (second, first):
            self.store.keep_crash(crash)
        self.store.drop_crash(first)
        self.assertEqual([second], self.store.crashes())
        self.store.drop_crash(second)
        self.assertEqual([], self.store.crashes())
