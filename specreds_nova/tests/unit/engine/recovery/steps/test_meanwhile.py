# SPDX-License-Identifier: Apache-2.0
"""What happens between a look of an engine and the act that cannot be taken back."""

from collections.abc import Callable
from typing import Any

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict as verdicts
from specreds_nova.engine.recovery.steps import decide
from specreds_nova.engine.recovery.steps import fence
from specreds_nova.engine.recovery.steps import restart
from specreds_nova.tests.unit.engine.recovery import base

_READY = verdicts.StepVerdict(verdicts.READY)
_STATUS = {'primary_asked': True, 'primary_runs': False}


class MeanwhileTestCase(base.RecoveryTest):
    """A server on a host that is silent.

    :ivar server: the server as Nova shows it; None if it is deleted
    """

    recovery: model.Recovery

    def setUp(self) -> None:
        super().setUp()
        self.suspect()
        self.server: model.Server | None = base.make_server('a')
        self.compute.server.side_effect = lambda _name: self.server
        self.compute.stopped_by_itself.return_value = False
        self.compute.candidates.return_value = ['h2']
        self.backups.check.return_value = {'eligible': True, 'reasons': [], 'immovable': None}
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        self.suspects.heard_after.return_value = True

    def become(self, **values: Any) -> None:
        """Let Nova show the server with these values."""
        self.server = base.make_server('a', **values)

    def stop(self) -> None:
        """Stop the server, as a user does."""
        self.become(status='SHUTOFF')

    def come_back(self) -> None:
        """Let the host be heard again, with the server."""
        self.suspects.suspected.side_effect = lambda _host: False
        self.suspects.is_well.return_value = True

    def come_back_without(self) -> None:
        """Let the host be heard again, without the server."""
        self.come_back()
        self.suspects.running.return_value = False

    def overtake(self) -> None:
        """Let another engine take the recovery over."""
        self.taken_over(self.recovery, 'e2')

    @staticmethod
    def after(then: Callable[[], object], answer: Any) -> Callable[..., Any]:
        """Return a function that lets something happen, and answers or raises."""
        def called(*_arguments: object) -> Any:
            then()
            if isinstance(answer, Exception):
                raise answer
            return answer
        return called


class DecideTest(MeanwhileTestCase):
    """Its backup is ready."""

    def setUp(self) -> None:
        super().setUp()
        self.recovery = self.make_recovery(
            state=model.RACING, destination='h2', superposition='sp')
        self.backups.harden.return_value = self.backups.status.return_value = _STATUS
        self.volumes.collapse.return_value = 'promoted'
        self.state: str | None = 'superposed'
        self.volumes.state.side_effect = lambda _id: self.state
        self.volumes.drop.side_effect = self.after(lambda: self.reach(None), None)

    def reach(self, state: str | None) -> None:
        """Let the superposition be in a state."""
        self.state = state

    def decide(self, raced: verdicts.StepVerdict = _READY) -> str:
        """Take the step, and return the kind of the verdict."""
        recovery = self.store.get(self.recovery.id)
        assert recovery is not None, 'it was made'
        return decide.decide(runs.Run(self.context, recovery), raced).kind

    def unanswered(self, then: Callable[[], object]) -> None:
        """Let something happen while Cinder does not answer the first request to decide."""
        answers = iter([exception.Unreachable('Cinder')])

        def collapse(_superposition: str) -> str:
            then()
            for error in answers:
                raise error
            return 'promoted'
        self.volumes.collapse.side_effect = collapse

    def test_backup_is_promoted_if_nothing_happens_meanwhile(self) -> None:
        self.assertEqual(verdicts.PROMOTED, self.decide())
        self.volumes.collapse.assert_called_once_with('sp')

    def test_server_that_a_user_stops_meanwhile_is_not_promoted(self) -> None:
        self.backups.harden.side_effect = self.after(self.stop, _STATUS)
        self.assertEqual(verdicts.ABORTED, self.decide())
        self.volumes.collapse.assert_not_called()

    def test_server_that_its_sentinel_sees_meanwhile_is_not_decided_on(self) -> None:
        self.backups.status.return_value = {**_STATUS, 'primary_runs': True}
        self.assertEqual(verdicts.PRIMARY, self.decide())
        self.volumes.collapse.assert_not_called()

    def test_server_that_its_sentinel_sees_during_the_hardening_meanwhile_is_spared(self) -> None:
        self.backups.harden.return_value = {**_STATUS, 'primary_runs': True}
        self.backups.status.side_effect = exception.Unreachable('h2')
        self.assertEqual(verdicts.PRIMARY, self.decide())
        self.volumes.collapse.assert_not_called()

    def test_host_that_is_heard_and_answers_nothing_loses_its_backup(self) -> None:
        self.suspects.suspected.side_effect = lambda host: host == 'h1'
        for call in (self.backups.harden, self.backups.status, self.backups.abort):
            call.side_effect = exception.Unreachable('h2')
        self.assertRaises(exception.RetryAttempt, self.decide)
        self.volumes.collapse.assert_not_called()
        self.volumes.drop.assert_called_with('sp')

    def test_host_that_is_back_meanwhile_keeps_its_server(self) -> None:
        self.backups.status.side_effect = self.after(self.come_back, _STATUS)
        self.assertEqual(verdicts.PRIMARY, self.decide())
        self.volumes.collapse.assert_not_called()

    def test_decision_that_another_engine_has_made_meanwhile_is_not_made_again(self) -> None:
        attempt = self.begin_step(self.recovery, runs.COLLAPSE)
        self.end_step(self.recovery, runs.COLLAPSE, attempt,
                      {'superposition': 'sp', 'outcome': 'promoted'})
        self.assertEqual(verdicts.PROMOTED, self.decide())
        self.volumes.collapse.assert_not_called()

    def test_host_that_is_back_meanwhile_ends_the_request_for_a_decision(self) -> None:
        self.unanswered(self.come_back)
        self.assertEqual(verdicts.PRIMARY, self.decide())
        self.volumes.collapse.assert_called_once_with('sp')

    def test_engine_that_is_overtaken_meanwhile_does_not_ask_again_for_a_decision(self) -> None:
        self.unanswered(self.overtake)
        self.assertRaises(exception.Superseded, self.decide)
        self.volumes.collapse.assert_called_once_with('sp')

    def kept(self, state: str) -> None:
        """Have a backup that has lost removed, although its superposition is in a state."""
        self.state = state
        self.assertEqual(verdicts.PROMOTED, self.decide(
            verdicts.StepVerdict(verdicts.PRIMARY, 'it has written')))
        self.backups.abort.assert_not_called()
        self.volumes.drop.assert_not_called()

    def test_backup_that_is_promoted_meanwhile_is_not_removed(self) -> None:
        self.kept('promoted')

    def test_backup_that_is_being_decided_on_meanwhile_is_not_removed(self) -> None:
        self.kept('collapsing')

    def test_version_that_is_promoted_meanwhile_is_not_given_up(self) -> None:
        self.volumes.drop.side_effect = self.after(lambda: self.reach('promoted'), None)
        self.assertEqual(verdicts.PROMOTED, self.decide(
            verdicts.StepVerdict(verdicts.PRIMARY, 'it has written')))

    def test_decision_that_ended_meanwhile_has_an_unknown_outcome(self) -> None:
        self.begin_step(self.recovery, runs.COLLAPSE)
        self.volumes.state.side_effect = ['superposed', *[None] * 9]
        self.assertRaises(exception.RetryAttempt, self.decide, verdicts.StepVerdict(
            verdicts.ABORTED, 'an operator wants it to end'))
        [*_, last] = (step for step in self.store.history[self.recovery.id].steps
                      if step.name == runs.COLLAPSE)
        self.assertEqual('gone', last.detail['outcome'])

    def test_server_that_has_moved_meanwhile_needs_no_other_race(self) -> None:
        self.volumes.collapse.side_effect = self.after(
            lambda: self.become(host='h3'), exception.Unreachable('Cinder'))
        self.state = None
        self.assertEqual(verdicts.ADOPTED,
                         self.decide(verdicts.StepVerdict(verdicts.DECIDING)))


@ddt.ddt
class FenceTest(MeanwhileTestCase):
    """It has no backup, and is to be evacuated."""

    def setUp(self) -> None:
        super().setUp()
        self.recovery = self.make_recovery()
        self.volumes.superpose.return_value = 'sp'
        self.volumes.state.return_value = None
        self.volumes.fence.return_value = 2

    def fence(self, read: model.Server | None = None) -> str:
        """Take the step, and return the kind of the verdict.

        :param read: the server as it was read before
        """
        return fence.fence(runs.Run(self.context, self.recovery, read),
                           verdicts.StepVerdict(verdicts.EVACUATE, 'it has no room')).kind

    def test_server_that_a_user_stops_meanwhile_is_not_decided_on(self) -> None:
        self.volumes.superpose.side_effect = self.after(self.stop, 'sp')
        self.assertEqual(verdicts.ABORTED, self.fence())
        self.volumes.collapse.assert_not_called()

    def test_server_that_was_deleted_meanwhile_is_not_fenced(self) -> None:
        read, self.server = self.server, None
        self.assertEqual(verdicts.ABORTED, self.fence(read))
        self.volumes.superpose.assert_not_called()

    def test_host_that_has_failed_again_meanwhile_gets_all_of_its_time(self) -> None:
        self.context = self.make_context(evacuate_after=30.0)
        self.clock.sleep(20.0)
        host = self.store.host('h1')
        failed = self.clock.now()
        self.store.change_host(host, state=model.SUSPECTED, since=self.clock.wall())
        times: list[float] = []
        self.volumes.superpose.side_effect = self.after(
            lambda: times.append(self.clock.now()), exception.Refused('no RBD'))
        self.assertEqual(verdicts.PROMOTED, self.fence())
        self.assertGreaterEqual(times[0], failed + 30.0)

    @ddt.data(3600.0, -3600.0)
    def test_clock_that_is_set_changes_no_wait(self, jump: float) -> None:
        self.context = self.make_context(evacuate_after=30.0)
        times: list[float] = []
        self.volumes.superpose.side_effect = self.after(
            lambda: times.append(self.clock.now()), exception.Refused('no RBD'))
        self.context.leases.note([self.store.host('h1')], self.clock.now())
        began = self.clock.now()
        self.clock.sleep(10.0)
        self.clock.ahead += jump
        self.assertEqual(verdicts.PROMOTED, self.fence())
        self.assertEqual(began + 30.0, times[0])


class ShutOutTest(MeanwhileTestCase):
    """Its volumes cannot be superposed."""

    def setUp(self) -> None:
        super().setUp()
        self.recovery = self.make_recovery()
        self.volumes.fence.return_value = 2

    def shut_out(self) -> str:
        """Take the step, and return the kind of the verdict."""
        return fence.shut_out(runs.Run(self.context, self.recovery), 'it is encrypted').kind

    def changing(self, *servers: model.Server | None) -> None:
        """Let Nova show the server in different ways, the last of which stays."""
        shown = list(servers)
        self.compute.server.side_effect = lambda _name: (
            shown.pop(0) if len(shown) > 1 else shown[0])

    def test_server_that_has_moved_meanwhile_is_not_shut_out(self) -> None:
        self.changing(self.server, self.server, base.make_server('a', host='h3'))
        self.assertEqual(verdicts.ABORTED, self.shut_out())
        self.volumes.fence.assert_not_called()

    def test_server_that_was_deleted_meanwhile_is_not_shut_out(self) -> None:
        self.changing(self.server, self.server, None)
        self.assertEqual(verdicts.ABORTED, self.shut_out())
        self.volumes.fence.assert_not_called()

    def test_engine_that_is_overtaken_meanwhile_does_not_fence_again(self) -> None:
        self.volumes.fence.side_effect = self.after(
            self.overtake, exception.Unreachable('Cinder'))
        self.assertRaises(exception.Superseded, self.shut_out)
        self.volumes.fence.assert_called_once()

    def unfenced(self, then: Callable[[], object]) -> None:
        """Let Cinder refuse the fence, which the operator has made, after something happens."""
        self.context = self.make_context(evacuate_unfenced=True)
        self.volumes.fence.side_effect = self.after(then, exception.Refused('no RBD'))

    def test_server_that_a_user_stops_meanwhile_is_not_evacuated(self) -> None:
        self.unfenced(self.stop)
        self.assertEqual(verdicts.ABORTED, self.shut_out())
        self.assertTrue(runs.before_commit(self.store.history[self.recovery.id]))

    def test_server_whose_host_is_back_meanwhile_without_it_is_started_there(self) -> None:
        self.unfenced(self.come_back_without)
        self.assertRaises(exception.RetryAttempt, self.shut_out)
        recovery = self.store.history[self.recovery.id]
        self.assertTrue(runs.before_commit(recovery))
        self.assertTrue(restart.concerns(recovery))

    def test_engine_that_is_overtaken_meanwhile_evacuates_nothing(self) -> None:
        self.unfenced(self.overtake)
        self.assertRaises(exception.Superseded, self.shut_out)
        self.assertEqual(model.SUSPECTED, self.store.host('h1').state)


class SparedTest(MeanwhileTestCase):
    """Its host is well again, without the server."""

    def test_server_that_has_moved_meanwhile_is_not_recovered(self) -> None:
        read = self.server
        self.recovery = self.make_recovery()
        self.come_back_without()
        self.become(host='h3')
        verdict = runs.Run(self.context, self.recovery, read).spared()
        assert verdict is not None, 'it has moved'
        self.assertEqual(verdicts.ABORTED, verdict.kind)


class RestartTest(MeanwhileTestCase):
    """It has crashed on a host that is well."""

    def setUp(self) -> None:
        super().setUp()
        host = self.store.host('h1')
        self.store.change_host(host, state=model.TRUSTED)
        self.come_back_without()
        self.recovery = self.make_recovery(
            why=({'kind': 'crash', 'words': 'it has crashed', 'at': 1000.0},))
        self.compute.runs.return_value = False
        self.compute.reboot.side_effect = self.after(self.start, None)

    def start(self) -> None:
        """Let the server run."""
        self.compute.runs.return_value = True

    def restart(self) -> str:
        """Take the step, and return the outcome."""
        return restart.attempt(runs.Run(self.context, self.recovery))

    def test_crashed_server_is_started(self) -> None:
        self.assertEqual(model.RESTARTED, self.restart())
        self.compute.reboot.assert_called_once_with('a')

    def test_server_that_runs_meanwhile_is_not_rebooted(self) -> None:
        change = self.store.change

        def slowly(*arguments: Any, **values: Any) -> model.Recovery:
            if values.get('state') == model.COMMITTED:
                self.clock.sleep(1.0)
                self.start()
            return change(*arguments, **values)
        self.patch(self.store, 'change', slowly)
        self.restart()
        self.compute.reboot.assert_not_called()

    def test_server_whose_host_is_lost_meanwhile_is_not_rebooted(self) -> None:
        self.suspects.is_well.return_value = False
        self.assertEqual(model.FAILED, self.restart())
        self.compute.reboot.assert_not_called()

    def test_engine_that_is_overtaken_meanwhile_does_not_reboot_again(self) -> None:
        self.compute.reboot.side_effect = self.after(self.overtake, None)
        self.assertRaises(exception.Superseded, self.restart)
        self.compute.reboot.assert_called_once_with('a')

    def test_server_that_nova_works_on_meanwhile_is_waited_for(self) -> None:
        self.become(task='rebooting_hard')
        self.assertEqual(model.FAILED, self.restart())
        self.compute.reboot.assert_not_called()

    def test_reboot_may_end_meanwhile(self) -> None:
        times: list[float] = []
        self.compute.reboot.side_effect = self.after(
            lambda: times.append(self.clock.now()), None)
        self.assertEqual(model.FAILED, self.restart())
        self.assertGreaterEqual(times[1] - times[0], 10.0)
