# SPDX-License-Identifier: Apache-2.0
"""Evacuations that Nova has lost before any host has claimed them."""

import contextlib
import dataclasses
import itertools

import ddt

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import evacuation
from specreds_nova.engine.recovery import run as runs
from specreds_nova.tests.unit.engine.recovery import base


@ddt.ddt
class UnclaimedTest(base.CommittedTest):
    """A server that is being rebuilt, by a request that no host has claimed."""

    def setUp(self) -> None:
        super().setUp()
        self.recovery = self.store.change(self.recovery, destination='h2', superposition='s')
        self.compute.candidates.return_value = ['h3', 'h2']
        self.context = self.make_context(adopt_timeout=5000.0)
        self.compute.stopped_by_itself.return_value = False
        self.suspects.boot.return_value = 'one'
        self.volumes.state.return_value = 'promoted'
        self.task: str | None = 'rebuilding'
        self.request: str | None = model.PENDING
        self.host, self.claimed = 'h2', False
        self.began = self.clock.now()
        # Seconds after the begin of the evacuation, and host, of each request.
        self.asked: list[tuple[float, str | None]] = []
        self.compute.server.side_effect = lambda name: base.make_server(name, task=self.task)
        self.compute.evacuation.side_effect = lambda name: model.Evacuation(
            self.host, self.claimed, self.began)
        self.compute.evacuation_request.side_effect = lambda name: self.request
        self.compute.reset.side_effect = lambda name: setattr(self, 'task', None)
        self.compute.evacuate.side_effect = self.note

    def note(self, server_id: str, host: str | None, force: bool) -> None:
        """Note a request."""
        del server_id, force
        self.task = 'rebuilding'
        self.asked.append((self.clock.now() - self.began, host))

    def evacuate(self, seconds: float, backup: bool = True) -> None:
        """Have Nova move the server until the engine is stopped."""
        if not backup:
            self.recovery = self.store.change(self.recovery, destination=None)
        with contextlib.suppress(exception.Interrupted):
            evacuation.evacuate(runs.Run(self.stopped_after(seconds), self.recovery), 'h1', {},
                                (lambda host: True) if backup else None)

    def test_request_that_the_conductor_has_given_up_is_repeated_for_the_same_host(self) -> None:
        self.request = model.GIVEN_UP
        self.evacuate(200.0)
        self.assertEqual(['h2'] * len(self.asked), [host for _, host in self.asked])
        # Not before the conductor may have ended, and not more often than it ends.
        self.assertEqual([True] * 2, [75.0 <= when < 90.0 * number for number, (when, _)
                                      in enumerate(self.asked[:2], 1)])

    def test_request_that_nova_has_lost_is_reset_before_the_recovery_fails(self) -> None:
        self.context = self.make_context(adopt_timeout=10.0)
        self.recovery = self.store.change(self.recovery, destination=None)
        self.request = model.GIVEN_UP
        verdict = evacuation.evacuate(runs.Run(self.context, self.recovery), 'h1', {})
        self.assertEqual('failed', verdict and verdict.kind)
        self.assertGreater(self.clock.now(), self.began + 75.0)
        self.assertEqual((None, []), (self.task, self.asked))

    @ddt.data(('h2', None, 300.0), ('', 'rebuilding', 75.0))
    @ddt.unpack
    def test_request_of_which_nothing_is_known_is_waited_for_before_the_recovery_fails(
            self, host: str, task: str | None, seconds: float) -> None:
        self.context = self.make_context(adopt_timeout=10.0)
        self.recovery = self.store.change(self.recovery, destination=None)
        self.host = host
        verdict = evacuation.evacuate(runs.Run(self.context, self.recovery), 'h1', {})
        self.assertEqual('failed', verdict and verdict.kind)
        self.assertGreater(self.clock.now(), self.began + seconds)
        # Another host that Nova may choose later must not get a rival.
        self.assertEqual((task, []), (self.task, self.asked))

    def test_request_of_which_nothing_is_known_is_repeated_ever_more_seldom(self) -> None:
        self.evacuate(2200.0)
        times = [0.0, *(when for when, _ in self.asked)]
        self.assertEqual({'h2'}, {host for _, host in self.asked})
        # The engine asks Nova every 30 s.
        self.assertEqual([300, 600, 1200], [
            (later - sooner) // 100 * 100 for sooner, later in itertools.pairwise(times)])

    def test_request_that_a_host_has_claimed_is_left(self) -> None:
        self.claimed, self.request = True, model.GIVEN_UP
        self.evacuate(1000.0)
        self.assertEqual([], self.asked)

    def test_request_for_which_the_scheduler_chooses_a_host_is_left_until_it_is_given_up(
            self) -> None:
        self.host = ''
        self.evacuate(1000.0, backup=False)
        self.assertEqual([], self.asked)
        self.request = model.GIVEN_UP
        self.evacuate(100.0, backup=False)
        self.assertEqual('h3', self.asked[0][1])

    def test_server_without_a_backup_gets_no_rival_on_another_host(self) -> None:
        self.evacuate(400.0, backup=False)
        self.assertEqual('h2', self.asked[0][1])

    def test_server_whose_task_was_reset_gets_no_rival_on_another_host(self) -> None:
        self.task = None
        self.evacuate(5.0, backup=False)
        self.assertEqual('h2', self.asked[0][1])

    def test_hosts_of_which_none_is_heard_are_named(self) -> None:
        self.task = None
        self.compute.evacuation.side_effect = None
        self.compute.evacuation.return_value = None
        self.suspects.healthy.return_value = ['h9']
        self.evacuate(1.0, backup=False)
        self.assertEqual('h3', self.asked[0][1])

    def silence(self, *silent: str) -> str:
        """Have hosts fall silent for longer than a request may take, and return the error."""
        self.recovery = self.store.change(self.recovery, destination=None)
        self.context = self.make_context(adopt_timeout=300.0)
        self.suspects.suspected.side_effect = lambda host: host in silent
        self.suspects.is_well.side_effect = lambda host: host not in silent
        self.suspects.running.return_value = False
        failure = None
        with contextlib.suppress(exception.Interrupted):
            failure = evacuation.evacuate(runs.Run(self.stopped_after(1000.0), self.recovery),
                                          'h1', {})
        return (failure.why if failure else self.store.history[self.recovery.id].error) or ''

    def test_request_to_a_host_that_is_silent_meanwhile_gets_no_rival(self) -> None:
        self.assertIn('h2 is silent: start nova-compute there', self.silence('h1', 'h2'))
        self.compute.reset.assert_not_called()
        self.assertEqual([], self.asked)

    def test_request_to_a_host_that_is_known_to_be_off_is_made_elsewhere(self) -> None:
        self.assertIn('if it is off: openstack speculative host suspect --dead h2',
                      self.silence('h1', 'h2'))
        now = self.clock.now()
        self.store.change_host(self.store.host('h2'), dead_at=self.clock.wall())
        self.suspects.last_heard.return_value = now - 300.0
        self.evacuate(400.0, backup=False)
        self.assertEqual('h3', self.asked[0][1])

    def test_word_that_a_host_is_off_is_void_once_it_was_heard(self) -> None:
        self.silence('h1', 'h2')
        self.store.change_host(self.store.host('h2'), dead_at=self.clock.wall())
        self.suspects.last_heard.return_value = self.clock.now() + 1.0
        self.evacuate(400.0, backup=False)
        self.assertEqual([], self.asked)

    def test_host_without_a_heartbeat_is_not_silent(self) -> None:
        self.claimed = True
        self.suspects.heard_after.return_value = False
        self.suspects.unplugged.return_value = True
        self.assertIn('no action is needed', self.silence('h1', 'h2'))

    def test_server_stays_on_its_host_if_the_destination_is_silent(self) -> None:
        self.assertEqual('h1 is back; no action is needed', self.silence('h2'))
        self.compute.reset.assert_called_once_with('a')
        self.compute.reboot.assert_called_once_with('a')
        self.assertEqual([], self.asked)

    def test_rebuild_that_a_user_has_requested_is_left(self) -> None:
        self.compute.evacuation.side_effect = None
        self.request = None
        self.evacuate(1000.0)
        self.assertEqual([], self.asked)

    def test_request_without_a_record_is_repeated(self) -> None:
        self.compute.evacuation.side_effect = None
        self.evacuate(400.0)
        self.assertEqual('h2', self.asked[0][1])

    def test_record_of_an_earlier_evacuation_to_the_host_of_the_server_is_ignored(self) -> None:
        # Nova has taken another record for it.
        self.task, self.host = 'rebooting', 'h1'
        self.evacuate(100.0)
        self.assertEqual('h2', self.asked[0][1])

    def test_nova_that_does_not_say_what_has_become_of_a_request_has_time(self) -> None:
        self.compute.evacuation_request.side_effect = exception.Refused('its policy')
        self.evacuate(290.0)
        self.assertEqual([], self.asked)
        self.evacuate(400.0)
        self.assertEqual('h2', self.asked[0][1])


class LateTest(base.CommittedTest):
    """Nova takes longer than adopt_timeout."""

    def setUp(self) -> None:
        super().setUp()
        self.recovery = self.store.change(self.recovery, destination='h2')
        self.compute.server.side_effect = lambda name: base.make_server(name)
        self.compute.stopped_by_itself.return_value = False

    def evacuate(self, seconds: float, backup: bool = True) -> str | None:
        """Have Nova move the server until the engine is stopped; return why that has failed."""
        recovery = self.recovery if backup else dataclasses.replace(
            self.recovery, destination=None)
        failure = evacuation.evacuate(runs.Run(self.stopped_after(seconds), recovery), 'h1', {},
                                      lambda host: True)
        return failure and failure.why

    def test_backup_whose_host_stays_silent_needs_an_operator(self) -> None:
        self.context = self.make_context(adopt_timeout=1800.0)
        self.suspects.suspected.side_effect = lambda host: host != 'h3'
        self.suspects.healthy.return_value = ['h3']
        self.assertRaises(exception.Interrupted, self.evacuate, 110.0)
        self.assertIsNone(self.store.history[self.recovery.id].error)
        self.assertRaises(exception.Interrupted, self.evacuate, 140.0)
        self.assertIn('h2 is silent: start nova-compute there, or power h2 off',
                      self.store.history[self.recovery.id].error or '')

    def test_promoted_backup_stays_with_its_recovery_which_shows_why_it_is_late(self) -> None:
        self.assertRaises(exception.Interrupted, self.evacuate, 1000.0)
        self.assertEqual(
            'Nova has not evacuated it in 30 s: it is ACTIVE, and nothing is being done to it; '
            'its backup may serve on h2; no action is needed: the engine tries again',
            self.store.history[self.recovery.id].error)
        self.assertEqual([('error',)], [call.args[:1] for call
                                        in self.observer.recovery.mock_calls])
        self.assertEqual({'h2'}, {call.args[1] for call in self.compute.evacuate.mock_calls})
        self.assertGreater(self.compute.evacuate.call_count, 10)

    def test_backup_that_a_boot_of_its_host_has_ended_is_not_waited_for(self) -> None:
        # Nova has lost a request to a host that is silent, and the source is back.
        self.compute.server.side_effect = lambda name: base.make_server(name, task='rebuilding')
        self.compute.evacuation.return_value = model.Evacuation('h3', claimed=False)
        self.suspects.suspected.side_effect = lambda host: host == 'h3'
        self.suspects.is_well.side_effect = lambda host: host == 'h1'
        self.suspects.running.return_value = False
        run = runs.Run(self.stopped_after(1000.0), self.recovery)

        def lost(_host: str) -> bool:
            run.change(destination=None)
            return False
        failure = evacuation.evacuate(run, 'h1', {}, lost)
        self.assertEqual('h1 is back; no action is needed', failure and failure.why)
        self.compute.reset.assert_called_once()

    def test_late_adoption_ends_without_an_error(self) -> None:
        until = self.clock.now() + 100.0
        self.compute.server.side_effect = lambda name: base.make_server(
            name, host='h1' if self.clock.now() < until else 'h2')
        run = runs.Run(self.context, self.recovery)
        self.assertIsNone(evacuation.evacuate(run, 'h1', {}, lambda host: True))
        run.flush()
        self.assertIsNone(self.store.history[self.recovery.id].error)

    def test_server_without_a_backup_fails_in_the_end(self) -> None:
        self.assertIn('Nova has not evacuated it in 30 s', self.evacuate(1000.0, False) or '')
        self.assertGreater(self.compute.evacuate.call_count, 1)

    def test_server_without_a_backup_is_waited_for_while_a_host_works_on_it(self) -> None:
        self.compute.server.side_effect = lambda name: base.make_server(name, task='rebuilding')
        self.compute.evacuation.return_value = model.Evacuation('h2', claimed=True)
        self.assertRaises(exception.Interrupted, self.evacuate, 1000.0, False)
        self.assertIn('in 30 s: it is ACTIVE, rebuilding; no action is needed',
                      str(self.store.history[self.recovery.id].error))
        self.suspects.suspected.side_effect = lambda host: host != 'h3'
        self.assertIn('Nova has not', self.evacuate(1000.0, False) or '')

    def test_time_without_an_answer_of_nova_does_not_count(self) -> None:
        back = self.clock.now() + 2400.0

        def server(name: str) -> model.Server:
            if self.clock.now() < back:
                raise exception.Unreachable('Nova is away')
            return base.make_server(name, host='h3' if self.compute.evacuate.called else 'h1')
        self.compute.server.side_effect = server
        self.assertIsNone(self.evacuate(3000.0, False))
        self.compute.evacuate.assert_called_once()
