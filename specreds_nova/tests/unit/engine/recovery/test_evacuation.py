# SPDX-License-Identifier: Apache-2.0
"""Only the engine that owns a recovery forces the host down."""

from collections.abc import Callable
import contextlib
import dataclasses
from typing import Any
from unittest import mock

from specreds_nova import exception as backup_errors
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import left
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.tests.unit.engine.recovery import base


class MovingTest(base.RecoveryTest):
    """A recovery whose server Nova has to evacuate."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect(state=model.FENCED)
        self.recovery = self.make_recovery('a', state=model.COMMITTED)
        self.compute.server.side_effect = lambda name: base.make_server(name)
        self.compute.candidates.return_value = ['h2']
        self.compute.permits.return_value = True
        self.context = self.make_context(adopt_timeout=10.0)

    def move(self) -> None:
        """Run the evacuation until it has to wait."""
        evacuation.evacuate(runs.Run(self.context, self.recovery), 'h1', {})

    def adopt(self, seconds: float = 10.0) -> None:
        """Run the evacuation of a server with a backup, until the engine is stopped."""
        with contextlib.suppress(exception.Interrupted):
            evacuation.evacuate(runs.Run(self.stopped_after(seconds), self.recovery), 'h1', {},
                                lambda host: True)

    def test_owner_forces_the_host_down(self) -> None:
        self.move()
        self.compute.force_down.assert_called_with('h1', True)
        self.compute.evacuate.assert_called()

    def test_superseded_meanwhile_an_engine_forces_no_host_down(self) -> None:
        self.taken_over(self.recovery, 'e2')
        self.assertRaises(exception.Superseded, self.move)
        self.compute.force_down.assert_not_called()

    def test_host_trusted_meanwhile_is_not_forced_down(self) -> None:
        self.suspect(state=model.TRUSTED)
        self.move()
        self.compute.force_down.assert_not_called()

    def test_host_trusted_meanwhile_is_forced_up_again(self) -> None:
        def force_down(host: str, down: bool) -> bool:
            if down:
                self.suspect(state=model.TRUSTED)
            return True

        self.compute.force_down.side_effect = force_down
        self.move()
        self.assertEqual([(('h1', True),), (('h1', False),)],
                         [call[1:2] for call in self.compute.force_down.mock_calls])
        self.compute.evacuate.assert_not_called()

    def test_repeated_request_ends_what_users_began_with_fenced_volumes(self) -> None:
        volumes = ('v1', 'v2')
        self.compute.server.side_effect = lambda name: base.make_server(name, volumes=volumes)
        self.move()
        self.volumes.fence.assert_not_called()
        run = runs.Run(self.context, self.recovery)
        with run.step(runs.SHUT_OUT) as detail:
            detail['outcome'] = 'fenced'
        self.compute.evacuate.reset_mock()

        def fence(server: model.Server, host: str, recovery_id: str) -> int:
            # Nova has asked once by then, and has taken the first volume from the host.
            self.assertEqual(('h1', run.id), (host, recovery_id))
            self.compute.evacuate.assert_called()
            if server.volumes == ('v1',):
                raise exception.Refused('volume v1 is not attached on host h1')
            return 1
        self.volumes.fence.side_effect = fence
        evacuation.evacuate(run, 'h1', {})
        self.assertEqual({('v1',), ('v2',)}, {
            call.args[0].volumes for call in self.volumes.fence.mock_calls})
        self.assertLess(1, self.compute.evacuate.call_count)

    def test_server_that_changes_meanwhile_in_another_fence_is_not_evacuated(self) -> None:
        task: list[str | None] = [None]
        self.compute.server.side_effect = lambda name: base.make_server(
            name, task=task[-1], volumes=('v1',))
        run = runs.Run(self.context, self.recovery)
        with run.step(runs.SHUT_OUT) as detail:
            detail['outcome'] = 'fenced'

        def fence(*_arguments: object) -> int:
            self.clock.sleep(5.0)
            task.append('powering-off')
            return 1
        self.volumes.fence.side_effect = fence
        evacuation.evacuate(run, 'h1', {})
        self.volumes.fence.assert_called_once()
        self.compute.evacuate.assert_called_once()

    def evacuated(self, *states: str) -> None:
        """Run an evacuation that ends on another host, where the server has these states."""
        left = list(states)

        def server(name: str) -> model.Server:
            if not self.compute.evacuate.called:
                return base.make_server(name)
            return base.make_server(name, host='h2', status=left.pop(0) if left[1:] else left[0])
        self.compute.server.side_effect = server
        self.move()

    def test_server_that_nova_stops_after_the_evacuation_is_started(self) -> None:
        self.compute.stopped_by_itself.return_value = True
        self.compute.reboot.side_effect = [exception.Refused('it is powering-off'), None]
        self.evacuated(*['SHUTOFF'] * 6, 'ACTIVE')
        self.assertEqual([mock.call('a')] * 2, self.compute.reboot.mock_calls)

    def test_server_that_a_user_has_stopped_stays_stopped_after_the_evacuation(self) -> None:
        self.compute.stopped_by_itself.return_value = False
        self.evacuated('SHUTOFF')
        self.compute.reboot.assert_not_called()

    def test_claim_is_released_right_before_the_evacuation(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h2')
        calls: list[str] = []
        for service, names in ((self.compute, ('force_down', 'evacuate')),
                               (self.backups, ('release',))):
            for name in names:
                getattr(service, name).side_effect = self.noting(calls, name)
        self.adopt()
        self.assertEqual(['force_down', 'release', 'evacuate'], calls[:3])
        self.backups.release.assert_called_with('h2', self.recovery.id)

    def test_claim_is_kept_if_the_server_has_changed(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h2')
        server = base.make_server('a')
        # Nova answers late, and a user has stopped the server meanwhile.
        def force_down(host: str, down: bool) -> bool:
            self.clock.sleep(5.0)
            return True
        self.compute.force_down.side_effect = force_down
        self.compute.server.side_effect = [
            server, dataclasses.replace(server, task='powering-off'), None]
        self.adopt()
        self.backups.release.assert_not_called()
        self.compute.evacuate.assert_not_called()

    def test_server_that_changes_during_the_release_of_its_claim_stays(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h2')
        server = base.make_server('a')
        self.backups.release.side_effect = lambda *arguments: self.clock.sleep(5.0)
        self.compute.server.side_effect = [
            server, dataclasses.replace(server, task='powering-off'), None]
        self.adopt()
        self.compute.evacuate.assert_not_called()

    def test_claim_that_cannot_be_released_does_not_prevent_the_evacuation(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h2')
        self.backups.release.side_effect = exception.Unreachable('no')
        self.adopt()
        self.compute.evacuate.assert_called()

    def test_evacuation_that_nova_may_still_begin_is_not_requested_again(self) -> None:
        self.context = self.make_context(adopt_timeout=40.0)
        times: list[float] = []

        def evacuate(*args: Any) -> None:
            times.append(self.clock.now())
            raise (exception.Unanswered if len(times) == 1 else exception.Unreachable)('no')
        self.compute.evacuate.side_effect = evacuate
        self.move()
        self.assertGreaterEqual(times[1] - times[0], 30.0)
        self.assertLess(times[2] - times[1], 10.0)

    def test_member_of_an_affinity_group_is_forced(self) -> None:
        # Nova's scheduler would refuse each host but the one that has failed.
        for policy in ('affinity', 'anti-affinity'):
            self.compute.reset_mock()
            self.compute.server.side_effect = lambda name, policy=policy: base.make_server(
                name, group={'id': 'g', 'policy': policy, 'members': ['a', 'b']})
            self.move()
            self.assertEqual(('a', 'h2', policy == 'affinity'),
                             self.compute.evacuate.mock_calls[0].args)

    def test_policies_of_nova_are_not_passed_over(self) -> None:
        # The host has no licence for the server, or is another tenant's.
        self.compute.permits.return_value = False
        self.compute.server.side_effect = lambda name: base.make_server(
            name, group={'id': 'g', 'policy': 'affinity', 'members': ['a', 'b']})
        self.move()
        self.assertEqual({('a', 'h2', False)},
                         {call.args for call in self.compute.evacuate.mock_calls})

    def test_backup_that_nova_does_not_adopt_is_forced_if_policies_allow(self) -> None:
        self.suspects.suspected.return_value = False
        for permitted in (True, False):
            self.compute.evacuate.reset_mock()
            self.compute.permits.return_value = permitted
            self.recovery = self.store.change(self.recovery, destination='h2')
            self.adopt(30.0)
            forced = [call.args[2] for call in self.compute.evacuate.mock_calls]
            self.assertEqual([False, False], forced[:2])
            self.assertEqual({permitted}, set(forced[2:]))

    @staticmethod
    def noting(calls: list[str], name: str) -> Callable[..., bool]:
        """Return a function that notes its calls."""
        def called(*args: Any) -> bool:
            calls.append(name)
            return True
        return called

    def test_server_that_nova_has_stopped_is_active_again(self) -> None:
        self.compute.server.side_effect = lambda name: base.make_server(name, status='SHUTOFF')
        self.compute.stopped_by_itself.return_value = True
        self.move()
        self.compute.reset.assert_called_with('a')

    def test_server_that_a_user_has_stopped_stays_stopped(self) -> None:
        self.compute.server.side_effect = lambda name: base.make_server(name, status='SHUTOFF')
        self.compute.stopped_by_itself.return_value = False
        self.move()
        self.compute.reset.assert_not_called()
        self.compute.evacuate.assert_called()


class HangingTest(base.CommittedTest):
    """Evacuations that hang in Nova."""

    def setUp(self) -> None:
        super().setUp()
        self.compute.server.side_effect = lambda name: base.make_server(name, task='rebuilding')
        self.compute.evacuation.return_value = model.Evacuation('h3', claimed=True)
        self.suspects.heard_after.return_value = True
        self.suspects.running.return_value = False
        self.suspects.boot.side_effect = ['one', *['two'] * 30]
        self.backups.boot.return_value = {'uptime': 9000.0, 'service_uptime': 8000.0}

    def _evacuate(self, let_out: evacuation.LetOut | None = None) -> None:
        with contextlib.suppress(exception.Interrupted):
            evacuation.evacuate(
                runs.Run(self.stopped_after(30.0), self.recovery), 'h1', {}, let_out)

    def test_evacuation_whose_worker_has_ended_is_requested_again(self) -> None:
        self._evacuate()
        self.compute.reset.assert_called_with('a')
        self.compute.evacuate.assert_called_with('a', 'h2', False)

    def test_evacuation_to_a_backup_whose_host_has_died_is_requested_again(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h3')
        self.suspects.suspected.side_effect = lambda host: host in ('h1', 'h3')
        self.suspects.boot.side_effect = None
        self._evacuate(lambda _host: True)
        self.compute.reset.assert_called_with('a')
        self.compute.evacuate.assert_called_with('a', 'h2', False)

    def _force_down_late(self, seconds: float, then: Callable[[], None]) -> None:
        """Let something happen while a service does not answer."""
        def force_down(host: str, down: bool) -> bool:
            self.context.clock.sleep(seconds)
            then()
            return True
        self.compute.force_down.side_effect = force_down

    def test_server_that_has_moved_while_a_service_was_away_is_left(self) -> None:
        def move() -> None:
            self.compute.server.side_effect = lambda name: base.make_server(name, host='h3')
        self._force_down_late(27.0, move)
        self._evacuate()
        self.compute.reset.assert_not_called()
        self.compute.evacuate.assert_not_called()

    def test_evacuation_that_goes_on_after_a_service_was_away_is_left(self) -> None:
        def run() -> None:
            self.suspects.running.return_value = True
        self._force_down_late(5.0, run)
        self._evacuate()
        self.compute.reset.assert_not_called()
        self.compute.evacuate.assert_not_called()

    def test_evacuation_that_still_hangs_after_a_service_was_away_is_requested(self) -> None:
        self._force_down_late(5.0, lambda: None)
        self._evacuate()
        self.compute.reset.assert_called_with('a')
        self.compute.evacuate.assert_called_with('a', 'h2', False)

    def test_worker_is_known_by_a_beat_after_its_claim(self) -> None:
        # The beats before may be those of a process that ended before the claim.
        self.suspects.heard_after.return_value = False
        self._evacuate()
        self.suspects.heard_after.return_value = True
        self.suspects.boot.side_effect = None
        self.suspects.boot.return_value = 'two'
        self._evacuate()
        self.compute.reset.assert_not_called()

    def test_worker_that_ended_before_its_first_beat_is_known_by_the_age_of_the_next(self) -> None:
        self.suspects.boot.side_effect = None
        for answer, reset in (
                ({'uptime': 9000.0, 'service_uptime': 4.0}, True),
                ({'uptime': 9000.0, 'service_uptime': 60.0}, False)):
            self.compute.reset.reset_mock()
            self.backups.boot.return_value = answer
            self._evacuate()
            self.assertEqual(reset, self.compute.reset.called, str(answer))

    def test_worker_that_ended_before_the_engine_looked_is_known_by_its_last_note(self) -> None:
        self.suspects.boot.side_effect = None
        began = self.context.clock.now()
        for updated, uptime, reset in (
                (began - 40.0, 20.0, True), (began - 30.0, 50.0, False),
                # The clocks may differ by that much.
                (began - 25.0, 20.0, False), (0.0, 20.0, False)):
            self.compute.reset.reset_mock()
            self.compute.evacuation.return_value = model.Evacuation('h3', True, updated)
            self.backups.boot.side_effect = lambda host, uptime=uptime: {
                'service_uptime': uptime + self.context.clock.now() - began}
            self._evacuate()
            self.assertEqual(reset, self.compute.reset.called, f'{updated:g} {uptime:g}')

    def test_host_that_does_not_say_since_when_it_runs_is_waited_for(self) -> None:
        self.suspects.boot.side_effect = None
        for error in (exception.Unreachable('h3'), backup_errors.BackupNotFound(reason='old')):
            self.backups.boot.side_effect = error
            self._evacuate()
        self.compute.reset.assert_not_called()

    def test_request_that_no_worker_has_taken_stays_queued(self) -> None:
        self.compute.evacuation.return_value = model.Evacuation('h3', claimed=False)
        self._evacuate()
        self.compute.reset.assert_not_called()

    def test_guest_that_the_ended_worker_has_started_is_left(self) -> None:
        for runs_there in (True, None):
            self.suspects.running.return_value = runs_there
            self.suspects.boot.side_effect = ['one', *['two'] * 30]
            self._evacuate()
        self.compute.reset.assert_not_called()

    def test_backup_that_its_host_still_has_is_adopted_after_a_restart(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h3')
        self._evacuate(lambda host: True)
        self.compute.reset.assert_not_called()

    def test_backup_that_serves_is_adopted_instead_of_waiting_for_its_end(self) -> None:
        self.recovery = self.store.change(self.recovery, destination='h2', superposition='s')
        self.suspects.boot.side_effect = None
        self.suspects.is_well.return_value = True
        for state, serves, reset in (('merged', True, False), ('promoted', False, False),
                                     ('promoted', True, True), ('merging', True, True)):
            self.compute.reset.reset_mock()
            self.volumes.state.return_value = state
            self._evacuate(mock.Mock(return_value=serves))
            self.assertEqual(reset, self.compute.reset.called, f'{state} {serves}')
        self.assertEqual(('a', 'h2'), self.compute.evacuate.mock_calls[0].args[:2])


class SecondFailureTest(base.RecoveryTest):
    """The new host of an adopted server fails as well, while the server merges."""

    def setUp(self) -> None:
        super().setUp()
        self.suspect(state=model.FENCED)
        self.recovery = self.store.change(
            self.make_recovery('a', state=model.MERGING), destination='h2')
        self.compute.server.side_effect = lambda name: base.make_server(name, host='h2')
        self.compute.candidates.return_value = ['h3']
        self.context = self.make_context(adopt_timeout=30.0)

    def _evacuate(self) -> verdicts.StepVerdict | None:
        return evacuation.evacuate(runs.Run(self.context, self.recovery), 'h2', {})

    def _hang(self) -> None:
        """Let the evacuation hang in Nova, while the host that the server leaves is back."""
        self.suspect('h2', model.TRUSTED)
        self.compute.server.side_effect = lambda name: base.make_server(
            name, host='h2', task='rebuilding')
        self.compute.evacuation.return_value = model.Evacuation('h3', claimed=True)
        self.suspects.suspected.return_value = False
        self.suspects.heard_after.return_value = True

    def test_failed_host_is_cleaned_before_it_is_trusted(self) -> None:
        self.suspect('h2')
        self._evacuate()
        self.compute.force_down.assert_called_with('h2', True)
        self.compute.evacuate.assert_called_with('a', 'h3', False)
        self.assertEqual(model.FENCED, self.store.host('h2').state)

    def test_host_that_has_not_failed_is_left_alone(self) -> None:
        for state in (model.TRUSTED, model.HELD):
            self.suspect('h2', state)
            verdict = self._evacuate()
            assert verdict is not None
            self.assertEqual('h2 is back; no action is needed', verdict.why)
            self.assertEqual(state, self.store.host('h2').state)
        self.compute.force_down.assert_not_called()
        self.compute.evacuate.assert_not_called()

    def test_host_that_is_trusted_meanwhile_is_up_again(self) -> None:
        def force_down(host: str, down: bool) -> bool:
            if down:
                self.suspect(host, model.TRUSTED)
            return True

        self.suspect('h2')
        self.compute.force_down.side_effect = force_down
        verdict = self._evacuate()
        assert verdict is not None
        self.assertEqual('h2 is back; no action is needed', verdict.why)
        self.compute.force_down.assert_called_with('h2', False)
        self.compute.evacuate.assert_not_called()

    def test_evacuation_that_hangs_when_the_host_is_back_is_reset_and_the_server_started(
            self) -> None:
        self._hang()
        for runs_there, started in ((False, True), (True, False), (None, False)):
            self.compute.reboot.reset_mock()
            self.suspects.boot.side_effect = ['one', *['two'] * 30]
            self.suspects.running.side_effect = lambda host, server, there=runs_there: (
                there if host == 'h2' else False)
            verdict = self._evacuate()
            assert verdict is not None
            self.assertEqual('h2 is back; no action is needed', verdict.why)
            self.compute.reset.assert_called_with('a')
            self.assertEqual(started, self.compute.reboot.called, str(runs_there))
        self.compute.evacuate.assert_not_called()

    def test_server_that_did_not_run_is_stopped_when_the_host_is_back(self) -> None:
        fact = left.fact(base.make_server('a', status='PAUSED'), ['it is PAUSED'], 0.0)
        self.recovery = dataclasses.replace(self.recovery, why=(fact,))
        self._hang()
        self.suspects.running.side_effect = lambda host, server: False
        self.suspects.boot.side_effect = ['one', *['two'] * 30]
        verdict = self._evacuate()
        assert verdict is not None
        self.assertEqual('h2 is back; no action is needed', verdict.why)
        self.compute.reset.assert_called_with('a')
        self.compute.stop.assert_called_once_with('a')
        self.compute.reboot.assert_not_called()

    def test_evacuation_that_nova_does_not_reset_is_left(self) -> None:
        self._hang()
        self.suspects.running.return_value = False
        self.suspects.boot.side_effect = ['one', *['two'] * 30]
        self.compute.reset.side_effect = exception.Refused('no')
        verdict = self._evacuate()
        assert verdict is not None
        self.assertEqual('h2 is back; no action is needed', verdict.why)
        self.compute.reboot.assert_not_called()
