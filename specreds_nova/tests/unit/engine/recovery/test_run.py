# SPDX-License-Identifier: Apache-2.0
"""A host that has returned saves its server only if the server's domain runs."""

from unittest import mock

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import run as runs
from specreds_nova.engine.recovery import verdict
from specreds_nova.tests.unit.engine.recovery import base


class ServerTest(base.RecoveryTest):
    """The server, as it was read before the recovery was created."""

    def setUp(self) -> None:
        super().setUp()
        self.read = base.make_server('a')
        self.compute.server.return_value = base.make_server('a', volumes=())
        self.recovery = self.make_recovery()

    def test_server_that_was_just_read_is_not_read_again(self) -> None:
        run = runs.Run(self.context, self.recovery, self.read)
        self.assertIs(self.read, run.server())
        self.compute.server.assert_not_called()

    def test_server_is_read_again_for_a_recovery_that_has_waited(self) -> None:
        self.clock.sleep(2.5)
        run = runs.Run(self.context, self.recovery, self.read)
        self.assertIs(self.compute.server.return_value, run.server())


class BackTest(base.RecoveryTest):
    """A host that is heard again during a recovery."""

    def setUp(self) -> None:
        super().setUp()
        self.suspects.suspected.return_value = False
        self.suspects.is_well.return_value = True
        self.server: model.Server = base.make_server('a')
        self.compute.server.side_effect = lambda name: self.server
        self.run_ = runs.Run(self.context, self.make_recovery(state=model.RACING))

    def spared(self) -> str | None:
        """Return the verdict right before the decision, if there is one."""
        result = self.run_.spared()
        return None if result is None else result.kind

    def test_sentinel_spares_its_servers_by_what_is_heard_of_it_meanwhile(self) -> None:
        self.suspects.suspected.return_value = True
        self.suspects.is_well.return_value = False
        self.suspects.speaks.return_value = True
        for look in (self.run_.spared, self.run_.lives):
            self.suspects.spoke_after.return_value = False
            self.assertIsNone(look())
            self.suspects.spoke_after.return_value = True
            result = look()
            assert result is not None
            self.assertEqual(verdict.PRIMARY, result.kind)

    def test_datagram_that_is_due_when_a_recovery_is_taken_over_is_waited_for(self) -> None:
        self.suspects.suspected.return_value = True
        self.suspects.is_well.return_value = False
        self.suspects.speaks.return_value = True
        begun = self.clock.now()
        self.suspects.spoke_after.side_effect = lambda host, at: (
            at == begun and self.clock.now() - begun >= 0.1)
        self.assertEqual(verdict.PRIMARY, self.spared())

    def test_host_that_is_heard_and_answers_no_call_is_given_up_if_others_answer(self) -> None:
        self.suspects.suspected.return_value = False
        lost = exception.Unreachable('a time-out')
        for status, boot, hosts, given_up in (
                (lost, None, ['h2', 'h3'], True), (lost, lost, ['h2', 'h3'], False),
                (lost, lost, ['h2'], True), (None, None, ['h2', 'h3'], False)):
            self.backups.status.side_effect, self.backups.boot.side_effect = status, boot
            self.suspects.healthy.return_value = hosts
            unanswered = runs.UnansweredSince(self.run_, 'h2')
            self.assertFalse(unanswered.lasts())
            self.clock.sleep(31.0)
            self.assertEqual(given_up, unanswered.lasts())
            # A host that was spared has as long again.
            self.assertEqual(given_up, unanswered.lasts())
        self.assertNotIn('h2', [call.args[0] for call in self.backups.boot.mock_calls])

    def test_running_server_saves_the_primary(self) -> None:
        result = self.run_.over()
        assert result is not None
        self.assertEqual(verdict.PRIMARY, result.kind)
        self.assertEqual(verdict.PRIMARY, self.spared())

    def test_mode_ends_a_recovery_whose_primary_is_not_fenced(self) -> None:
        self.suspects.suspected.return_value = True
        self.suspects.is_well.return_value = False
        for mode, ended in ((model.ACT, None), (model.OBSERVE, verdict.ABORTED),
                            (model.PAUSE, verdict.ABORTED)):
            self.set_mode(mode)
            for look in (self.run_.over, self.run_.spared, self.run_.lives):
                result = look()
                self.assertEqual(ended, None if result is None else result.kind)
        self.begin_step(self.run_.recovery, runs.SHUT_OUT)
        self.run_ = runs.Run(self.context, self.store.history[self.run_.id])
        self.assertIsNone(self.run_.over())

    def test_nothing_is_decided_until_the_mode_is_read(self) -> None:
        self.suspects.suspected.return_value = True
        began, read = self.clock.now(), self.store.modes

        def answer() -> list[model.Mode]:
            if self.clock.now() < began + 30.0:
                raise exception.Unreachable('no database')
            return read()
        with mock.patch.object(self.store, 'modes', side_effect=answer):
            self.assertIsNone(self.run_.over())
        self.assertGreaterEqual(self.clock.now(), began + 30.0)

    def test_beats_before_the_engine_took_over_save_no_primary(self) -> None:
        self.suspects.heard_after.return_value = False
        self.assertIsNone(self.run_.over())
        self.suspects.heard_after.assert_called_with('h1', self.run_.recovery.created)

    def test_unknown_decision_is_repeated_although_the_host_is_well_meanwhile(self) -> None:
        recovery = self.run_.recovery
        attempt = self.begin_step(recovery, runs.COLLAPSE)
        self.end_step(recovery, runs.COLLAPSE, attempt, {'outcome': 'gone'})
        self.run_ = runs.Run(self.context, self.store.history[recovery.id])
        # The decision may have fenced the primary, and only another decision shows that.
        self.assertIsNone(self.spared())
        self.assertIsNone(self.run_.lives())
        self.assertIsNone(self.run_.second_opinion({'primary_runs': True}))

    def test_recovery_continues_if_the_server_does_not_run(self) -> None:
        self.suspects.running.return_value = False
        self.assertIsNone(self.run_.over())
        self.assertIsNone(self.spared())

    def test_report_of_running_domains_is_awaited(self) -> None:
        self.suspects.running.return_value = None
        self.assertIsNone(self.run_.over())
        self.suspects.running.side_effect = [None, None, True]
        self.assertEqual(verdict.PRIMARY, self.spared())

    def test_recovery_continues_without_a_report(self) -> None:
        self.suspects.running.return_value = None
        self.assertIsNone(self.spared())

    def test_server_that_nova_marked_as_stopped_is_recovered(self) -> None:
        self.suspects.running.return_value = False
        self.server = base.make_server('a', status='SHUTOFF')
        self.compute.stopped_by_itself.return_value = True
        self.assertIsNone(self.spared())

    def test_server_that_its_owner_has_stopped_is_left_alone(self) -> None:
        self.suspects.running.return_value = False
        self.server = base.make_server('a', status='SHUTOFF')
        self.compute.stopped_by_itself.return_value = False
        self.assertEqual(verdict.PRIMARY, self.spared())

    def test_end_of_a_reboot_is_awaited(self) -> None:
        self.suspects.running.side_effect = [False, False, True]
        self.server = base.make_server('a', task='reboot_started_hard')
        self.assertEqual(verdict.PRIMARY, self.spared())

    def test_server_is_left_to_a_host_that_is_well_and_deletes_it(self) -> None:
        self.suspects.running.return_value = False
        self.server = base.make_server('a', task='deleting')
        began = self.clock.now()
        self.assertEqual(verdict.ABORTED, self.spared())
        self.assertEqual(began, self.clock.now())

    def test_server_that_has_moved_aborts_the_recovery(self) -> None:
        self.suspects.running.return_value = False
        self.server = base.make_server('a', host='h9')
        self.assertEqual(verdict.ABORTED, self.spared())
