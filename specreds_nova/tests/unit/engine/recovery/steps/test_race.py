# SPDX-License-Identifier: Apache-2.0
"""The race: how often services are called, and what the backup's host reports."""

import dataclasses

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict
from specreds_nova.engine.recovery.steps import race
from specreds_nova.engine.recovery.steps import start
from specreds_nova.engine.suspicion import leases
from specreds_nova.tests.unit.engine.recovery import base

_INTERVAL = 5.0
_NOT_YET = {'phase': 'running', 'ready': False, 'domain': {'state': 'running'}}
_READY = {'phase': 'running', 'ready': True, 'domain': {'state': 'running'}}


class RacingTest(base.RecoveryTest):
    """A backup whose host is called at long intervals."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.context = self.make_context(status_interval=_INTERVAL, dirty_interval=1000.0)
        self.compute.server.side_effect = lambda name: base.make_server(name)
        self.recovery = self.make_recovery(
            state=model.RACING, destination='h2', superposition='sp')
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        self.began = self.clock.now()

    def race(self) -> verdict.StepVerdict:
        """Run the race."""
        run = runs.Run(self.context, self.recovery)
        return race.race(run, verdict.StepVerdict(verdict.STARTED))

    def test_status_of_the_start_is_not_requested_again(self) -> None:
        run = runs.Run(self.context, self.recovery)
        run.answer = _NOT_YET
        self.backups.status.side_effect = [_READY]
        self.assertEqual(verdict.READY, race.race(
            run, verdict.StepVerdict(verdict.STARTED)).kind)
        self.backups.status.assert_called_once_with('h2', run.backup_id)

    def test_primary_of_a_ready_backup_is_not_checked(self) -> None:
        # The decision checks it.
        self.context = self.make_context(status_interval=_INTERVAL, dirty_interval=1.0)
        self.backups.status.side_effect = [_NOT_YET, _NOT_YET, _READY]
        self.assertEqual(verdict.READY, self.race().kind)
        self.volumes.dirty.assert_called_once_with('sp')

    def test_abort_ends_the_race_within_two_seconds(self) -> None:
        def status(host: str, backup: str) -> dict[str, object]:
            self.store.request_abort(self.recovery.id, 'user u1')
            return _NOT_YET
        self.context = self.make_context(status_interval=0.5, dirty_interval=1000.0)
        self.backups.status.side_effect = status
        self.assertEqual(verdict.ABORTED, self.race().kind)
        self.assertLessEqual(self.clock.now() - self.began, 2.0)

    def test_engine_that_was_superseded_leaves_the_race(self) -> None:
        def status(host: str, backup: str) -> dict[str, object]:
            self.taken_over(self.recovery, 'e2')
            return _NOT_YET
        self.backups.status.side_effect = status
        # Another process of the engine that has the same name is noticed later.
        for seconds in (2 * _INTERVAL, 4 * _INTERVAL):
            began = self.clock.now()
            self.recovery = self.store.history[self.recovery.id]
            self.assertRaises(exception.Superseded, self.race)
            self.assertLessEqual(self.clock.now() - began, seconds)

    def test_status_is_polled(self) -> None:
        self.backups.status.side_effect = [_NOT_YET, _NOT_YET, _READY]
        self.assertEqual(verdict.READY, self.race().kind)
        self.assertGreaterEqual(self.clock.now() - self.began, 2 * _INTERVAL)

    def test_request_of_a_user_ends_the_race(self) -> None:
        self.backups.status.return_value = _NOT_YET
        for task in ('suspending', 'shelving', 'migrating'):
            began = self.clock.now()
            self.compute.server.side_effect = lambda name, task=task: base.make_server(
                name, task=task)
            result = self.race()
            self.assertEqual(verdict.ABORTED, result.kind)
            self.assertIn(task, result.why)
            self.assertLess(self.clock.now() - began, 20.0)

    def test_reboot_does_not_end_the_race(self) -> None:
        self.compute.server.side_effect = lambda name: base.make_server(
            name, task='reboot_started_hard')
        self.backups.status.side_effect = [*[_NOT_YET] * 9, _READY]
        self.assertEqual(verdict.READY, self.race().kind)
        self.assertGreater(self.compute.server.call_count, 1)

    def test_silent_nova_does_not_end_the_race(self) -> None:
        self.compute.server.side_effect = [base.make_server('a'),
                                           *[exception.Unreachable('no')] * 9]
        self.backups.status.side_effect = [*[_NOT_YET] * 9, _READY]
        self.assertEqual(verdict.READY, self.race().kind)

    def test_primary_that_runs_by_its_sentinel_wins(self) -> None:
        self.backups.status.side_effect = [{**_NOT_YET, 'primary_runs': None},
                                           {**_READY, 'primary_runs': True}]
        self.assertEqual((verdict.PRIMARY, 'the sentinel of h1 reports that it runs'),
                         self.race())

    def test_sentinel_without_the_server_changes_nothing(self) -> None:
        self.backups.status.return_value = {**_READY, 'primary_runs': False}
        self.assertEqual(verdict.READY, self.race().kind)

    def test_timeout_of_the_owner_is_limited(self) -> None:
        self.context = self.make_context(ready_timeout_max=600, dirty_interval=1000.0)
        self.compute.server.side_effect = lambda name: base.make_server(
            name, metadata={'specreds:ready_timeout': '1e9'})
        for seconds in (None, 1e9):
            began = self.clock.now()
            self.backups.status.return_value = {**_NOT_YET, 'ready_timeout': seconds}
            self.assertEqual(verdict.READY, self.race().kind)
            self.assertTrue(600.0 <= self.clock.now() - began < 602.0)

    def test_clock_that_was_set_does_not_change_the_timeout(self) -> None:
        self.context = self.make_context(ready_timeout=100.0, dirty_interval=1000.0)
        self.backups.status.return_value = _NOT_YET
        self.backups.start.return_value = _NOT_YET
        for ahead in (3600.0, -3600.0):
            self.clock.ahead = ahead
            run = runs.Run(self.context, self.make_recovery(
                f'server {ahead}', state=model.RACING, destination='h2', superposition='sp'))
            began = self.clock.now()
            started = start.start(
                run, verdict.StepVerdict(verdict.STARTED), verdict.StepVerdict(verdict.STARTED))
            self.assertEqual(verdict.READY, race.race(run, started).kind)
            self.assertTrue(100.0 <= self.clock.now() - began < 110.0)

    def test_clock_of_another_engine_does_not_prolong_the_timeout(self) -> None:
        self.context = self.make_context(ready_timeout=100.0, dirty_interval=1000.0)
        self.backups.status.return_value = _NOT_YET
        self.clock.ahead = 3600.0
        run = runs.Run(self.context, self.recovery)
        with run.step(runs.START):
            pass
        run.flush()
        self.recovery = self.taken_over(self.recovery, 'e2')
        self.assertEqual(verdict.READY, self.race().kind)
        self.assertTrue(100.0 <= self.clock.now() - self.began < 110.0)

    def test_report_of_the_host_ends_the_race(self) -> None:
        def report(host: str, signs: list[str], seconds: float) -> bool:
            self.assertEqual(('h2', _INTERVAL), (host, round(seconds, 1)))
            backup = self.backups.status.call_args.args[1]
            self.assertEqual([f'{backup} frame', backup], signs)
            self.clock.sleep(0.2)
            return True
        self.suspects.await_ready.side_effect = report
        self.backups.status.side_effect = [_NOT_YET, _READY]
        self.assertEqual(verdict.READY, self.race().kind)
        self.assertLess(self.clock.now() - self.began, 1.0)

    def test_wrong_report_does_not_shorten_the_interval(self) -> None:
        # A report that contradicts the status does not lead to more calls.
        self.suspects.await_ready.side_effect = None
        self.suspects.await_ready.return_value = True
        self.backups.status.side_effect = [*[_NOT_YET] * 4, _READY]
        self.assertEqual(verdict.READY, self.race().kind)
        # Once for a first frame, and once for its being ready.
        self.assertEqual(2, self.suspects.await_ready.call_count)
        self.assertGreaterEqual(self.clock.now() - self.began, 2 * _INTERVAL)

    def test_timeout_of_the_image_ends_the_race(self) -> None:
        # The host reads the image's properties; the engine does not.
        self.backups.status.return_value = {**_NOT_YET, 'ready_timeout': 12.0}
        result = self.race()
        self.assertEqual(verdict.READY, result.kind)
        self.assertIn('12 s', result.why)
        self.assertLess(self.clock.now() - self.began, 20.0)

    def test_slow_sweep_is_repeated_less_often(self) -> None:
        def slow(superposition: str) -> bool:
            self.clock.sleep(1.0)
            return False
        self.context = self.make_context(status_interval=1.0, dirty_interval=2.0)
        self.volumes.dirty.side_effect = slow
        self.backups.status.side_effect = lambda *_: (
            _READY if self.clock.now() > self.began + 60.0 else _NOT_YET)
        self.assertEqual(verdict.READY, self.race().kind)
        self.assertIn(self.volumes.dirty.call_count, range(4, 8))

    def test_very_slow_sweep_is_repeated_after_30s(self) -> None:
        def very_slow(superposition: str) -> bool:
            self.clock.sleep(20.0)
            return False
        self.context = self.make_context(status_interval=1.0, dirty_interval=2.0)
        self.volumes.dirty.side_effect = very_slow
        self.backups.status.side_effect = lambda *_: (
            _READY if self.clock.now() > self.began + 95.0 else _NOT_YET)
        self.assertEqual(verdict.READY, self.race().kind)
        self.assertEqual(2, self.volumes.dirty.call_count)


class FirstFrameTest(base.RecoveryTest):
    """A backup that sends frames and is not ready, of a host that is silent since t = -1 s."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.store.report('h1', 'sentinel', model.LIVE)
        self.context = self.make_context(status_interval=0.5, dirty_interval=1000.0)
        self.context = dataclasses.replace(
            self.context, leases=leases.Leases(lambda host, since: self.heard_at))
        self.context.leases.note([self.store.host('h1')], self.clock.now())
        self.compute.server.side_effect = lambda name: base.make_server(name)
        self.recovery = self.make_recovery(
            state=model.RACING, destination='h2', superposition='sp')
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        self.suspects.lost.return_value = True
        self.began = self.clock.now()
        self.heard_at: float | None = self.began - 1.0
        self.status = {**_NOT_YET, 'first_frame': True, 'primary_asked': True,
                       'primary_silent': True, 'primary_runs': None}
        self.backups.status.side_effect = lambda *_: (
            _READY if self.clock.now() - self.began >= 20.0 else self.status)

    def decided(self) -> float:
        """Return the seconds until the race ends, and check what is recorded."""
        run = runs.Run(self.context, self.recovery)
        verdict_of_it = race.race(run, verdict.StepVerdict(verdict.STARTED))
        self.assertEqual(verdict.READY, verdict_of_it.kind)
        seconds = self.clock.now() - self.began
        self.recovery = run.recovery
        self.assertEqual(seconds < 20.0, run.recovery.steps[-1].detail.get('early', False))
        return seconds

    def test_decides_five_seconds_after_the_last_beat(self) -> None:
        self.assertAlmostEqual(race.NOT_BEFORE - 1.0, self.decided(), 1)

    def test_decides_later_if_an_engine_has_not_said_when_it_heard_the_host(self) -> None:
        self.heard_at = None
        self.assertAlmostEqual(race.NOT_BEFORE + leases.FRESH, self.decided(), 1)

    def test_decides_at_once_of_a_host_that_is_silent_for_longer(self) -> None:
        self.heard_at = self.began - 60.0
        self.assertEqual(0.0, self.decided())

    def test_timeline_has_the_first_frame_and_how_long_it_was_too_early(self) -> None:
        frame = {**self.status}
        self.backups.status.side_effect = lambda *_: {
            **frame, 'first_frame': self.clock.now() - self.began >= 2.0}
        self.assertAlmostEqual(race.NOT_BEFORE - 1.0, self.decided(), 1)
        detail = self.recovery.steps[-1].detail
        self.assertAlmostEqual(2.0, detail['first_frame_s'], 1)
        self.assertAlmostEqual(race.NOT_BEFORE - 3.0, detail['held_s'], 1)

    def ready(self) -> None:
        """Check that the backup gets ready before the decision."""
        self.assertGreaterEqual(self.decided(), 20.0)

    def test_guest_without_a_frame_gets_ready(self) -> None:
        self.status['first_frame'] = False
        self.ready()

    def test_backup_gets_ready_where_the_sentinel_could_not_be_asked(self) -> None:
        self.status['primary_silent'] = False
        self.ready()

    def test_backup_gets_ready_if_the_sentinel_answers(self) -> None:
        self.status['primary_runs'] = False
        self.ready()

    def test_backup_gets_ready_if_the_sentinel_was_silent_before(self) -> None:
        self.store.report('h1', 'sentinel', model.SILENT)
        self.ready()

    def test_backup_gets_ready_if_gates_would_hold_the_host(self) -> None:
        self.suspects.lost.return_value = False
        self.ready()

    def test_backup_of_a_trusted_host_gets_ready(self) -> None:
        self.suspect(state=model.TRUSTED)
        self.ready()
