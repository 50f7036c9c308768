# SPDX-License-Identifier: Apache-2.0
"""The janitor's rounds."""

from unittest import mock

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.recovery import janitor
from specreds_nova.engine.suspicion import settings as monitoring
from specreds_nova.tests.unit.engine.recovery import base


class JanitorTest(base.RecoveryTest):
    """Leftovers of hosts, recoveries and superpositions are put in order."""

    def setUp(self) -> None:
        super().setUp()
        self.dispatcher = mock.Mock()
        self.heeded: list[tuple[str, str | None, str]] = []
        self.volumes.ours.return_value = {}
        self.janitor = janitor.Janitor(
            self.context, self.dispatcher, lambda *word: self.heeded.append(word), 1e6)

    def _return_host(self) -> None:
        self.suspects.suspected.return_value = False
        self.suspects.is_well.return_value = self.suspects.well_to_all.return_value = True

    def _state(self) -> str:
        return self.store.host('h1').state

    def test_host_that_has_returned_is_trusted(self) -> None:
        self.suspect()
        self._return_host()
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self._state())
        self.backups.returned.assert_not_called()

    def test_held_host_that_has_returned_is_trusted(self) -> None:
        self.store.change_host(self.store.host('h1'), held=('8 of 9',))
        self.janitor.look()
        self.assertEqual(model.HELD, self.store.host('h1').shown)
        self.observer.host.assert_not_called()
        self._return_host()
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self.store.host('h1').shown)
        self.janitor.look()
        self.observer.host.assert_called_once_with('release', self.store.host('h1'))

    def test_hold_lasts_while_another_engine_does_not_hear_the_host(self) -> None:
        self.store.change_host(self.store.host('h1'), held=('e2 hears h1',))
        self._return_host()
        self.suspects.well_to_all.return_value = False
        self.janitor.look()
        self.assertEqual(model.HELD, self.store.host('h1').shown)
        self.suspects.well_to_all.return_value = True
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self.store.host('h1').shown)

    def _observed(self, server: str) -> model.Recovery:
        recovery = self.make_recovery_of(server)
        self.store.observe(self.store.host('h1'), [recovery], held=('the mode of h1 is observe',))
        return recovery

    def make_recovery_of(self, server: str) -> model.Recovery:
        """Return a recovery that is only observed, of a host that is not back."""
        return model.Recovery(
            id=f'of {server}', server=server, server_name=server, project='p', host='h1',
            suspected=self.clock.wall(), created=self.clock.wall(), state=model.ENDED,
            outcome=model.OBSERVED)

    def test_observed_recovery_says_when_its_host_was_back(self) -> None:
        self._observed('a')
        self.janitor.look()
        self.assertIsNone(self.store.history['of a'].ended)
        self.clock.sleep(40.0)
        self._return_host()
        self.janitor.look()
        self.assertEqual(self.clock.wall(), self.store.history['of a'].ended)
        self.clock.sleep(40.0)
        self.janitor.look()
        self.assertEqual(self.clock.wall() - 40.0, self.store.history['of a'].ended)

    def test_observed_recovery_says_whether_a_host_had_room(self) -> None:
        for server in ('a', 'b', 'gone'):
            self._observed(server)
        self.compute.server.side_effect = lambda server: (
            None if server == 'gone' else base.make_server(server))
        self.compute.candidates.side_effect = lambda server: ['h7'] if server.id == 'a' else []
        for _ in range(2):
            self.janitor.look()
        self.assertEqual(2, self.compute.candidates.call_count)
        self.assertEqual(
            [('h7', None), (None, 'no host has room for its backup'),
             (None, 'the server is deleted')],
            [(recovery.destination, recovery.error) for recovery in self.store.history.values()])

    def test_flaps_are_recorded_and_forgotten(self) -> None:
        self.suspect()
        self._return_host()
        self.suspects.flaps.return_value = 2
        self.janitor.look()
        self.assertEqual(2, self.store.host('h1').flaps)
        self.clock.sleep(monitoring.Settings.flap_period - 1.0)
        self.janitor.look()
        self.assertEqual(2, self.store.host('h1').flaps)
        self.clock.sleep(2.0)
        self.janitor.look()
        self.assertEqual(0, self.store.host('h1').flaps)

    def test_host_is_not_trusted_during_a_recovery(self) -> None:
        self.suspect()
        recovery = self.make_recovery('a', state=model.RACING)
        self._return_host()
        self.janitor.look()
        self.assertEqual(model.SUSPECTED, self._state())
        self.store.change(recovery, state=model.ENDED, outcome=model.PRIMARY)
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self._state())

    def test_host_is_trusted_during_a_merge_elsewhere(self) -> None:
        self.suspect()
        self.make_recovery('a', state=model.MERGING)
        self._return_host()
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self._state())

    def test_fenced_host_is_trusted_after_its_cleaning(self) -> None:
        self.suspect(state=model.FENCED)
        self._return_host()
        self.compute.service.return_value = {'forced_down': True}
        self.backups.returned.return_value = {'clean': False, 'left': ['a']}
        self.janitor.look()
        self.assertEqual(model.FENCED, self._state())
        self.compute.force_down.assert_not_called()
        self.backups.returned.return_value = {'clean': True}
        self.compute.force_down.return_value = False
        self.janitor.look()
        self.assertEqual(model.FENCED, self._state())
        self.compute.force_down.return_value = True
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self._state())
        self.compute.force_down.assert_called_with('h1', False)

    def _trust_evacuated_host(self) -> None:
        """Trust a host whose server was evacuated, and that is then forced down."""
        self.suspect(state=model.FENCED)
        recovery = self.make_recovery('a', state=model.COMMITTED)
        self.store.change(recovery, state=model.ENDED, outcome=model.RECOVERED)
        self._return_host()
        self.compute.service.return_value = {'forced_down': False}
        self.backups.returned.return_value = {'clean': True}
        self.compute.force_down.return_value = True
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self._state())
        self.clock.sleep(10.0)
        self.compute.service.return_value = {'forced_down': True}

    def _lift(self) -> None:
        self.janitor.look()
        self.janitor.lift({'h1': {'forced_down': True}, 'h2': {'forced_down': False}})

    def test_late_request_that_forces_a_trusted_host_down_is_taken_back(self) -> None:
        self._trust_evacuated_host()
        self._lift()
        self.compute.force_down.assert_called_once_with('h1', False)

    def test_late_requests_that_are_carried_out_together_are_all_taken_back(self) -> None:
        self._trust_evacuated_host()
        for _ in range(5):
            self._lift()
            self.clock.sleep(30.0)
        self.assertEqual(5, self.compute.force_down.call_count)

    def test_operator_who_forces_a_host_down_once_more_has_the_last_word(self) -> None:
        self._trust_evacuated_host()
        self._lift()
        [note] = self.store.host('h1').why
        self.assertIn('will not be if it is forced down again', note['words'])
        self.compute.service.return_value = {'forced_down': False}
        self.clock.sleep(61.0)
        self.compute.service.return_value = {'forced_down': True}
        for _ in range(3):
            self._lift()
        self.compute.force_down.assert_called_once_with('h1', False)

    def test_next_failure_of_a_lifted_host_counts_anew(self) -> None:
        self._trust_evacuated_host()
        self._lift()
        self.clock.sleep(61.0)
        self._trust_evacuated_host()
        self._lift()
        self.assertEqual((), self.store.host('h1').why[1:])
        self.assertEqual(2, self.compute.force_down.call_count)

    def test_host_of_a_late_request_stays_down_unless_engines_act(self) -> None:
        self._trust_evacuated_host()
        self.set_mode(model.PAUSE)
        self._lift()
        self.compute.force_down.assert_not_called()

    def test_host_that_was_trusted_long_ago_was_forced_down_by_an_operator(self) -> None:
        self._trust_evacuated_host()
        self.clock.sleep(3600.0)
        self._lift()
        self.compute.force_down.assert_not_called()

    def test_host_that_was_not_evacuated_was_forced_down_by_an_operator(self) -> None:
        self.suspect()
        recovery = self.make_recovery('a', state=model.RACING)
        self.store.change(recovery, state=model.ENDED, outcome=model.PRIMARY)
        self._return_host()
        self.janitor.look()
        self.compute.service.return_value = {'forced_down': True}
        self._lift()
        self.compute.force_down.assert_not_called()

    def test_host_that_an_operator_has_disabled_as_well_stays_down(self) -> None:
        self._trust_evacuated_host()
        self.compute.service.return_value = {'forced_down': True, 'enabled': False}
        self._lift()
        self.compute.force_down.assert_not_called()

    def test_host_that_has_trouble_meanwhile_stays_down(self) -> None:
        self._trust_evacuated_host()
        self.suspects.is_well.return_value = False
        self._lift()
        self.compute.force_down.assert_not_called()

    def test_host_that_an_operator_has_lifted_meanwhile_is_left_alone(self) -> None:
        self._trust_evacuated_host()
        self.compute.service.return_value = {'forced_down': False}
        self._lift()
        self.compute.force_down.assert_not_called()

    def test_suspected_and_fenced_hosts_stay_down(self) -> None:
        self._trust_evacuated_host()
        self.suspects.suspected.return_value = True
        self._lift()
        self._return_host()
        # Another engine has fenced it since this one has looked.
        self.suspect(state=model.FENCED)
        self.janitor.lift({'h1': {'forced_down': True}})
        self.compute.force_down.assert_not_called()

    def test_second_host_of_a_server_is_lifted_as_well(self) -> None:
        self._trust_evacuated_host()
        recovery = self.make_recovery('b', host='h3', destination='h1', state=model.COMMITTED)
        self.store.change(recovery, state=model.MERGING)
        self.store.history.pop(next(iter(self.store.history)))
        self._lift()
        self.compute.force_down.assert_called_once_with('h1', False)

    def test_silent_host_is_dispatched_again(self) -> None:
        host = self.suspect()
        self.janitor.look()
        self.dispatcher.again.assert_called_once_with(host)
        self.assertEqual(model.SUSPECTED, self._state())

    def test_silent_host_is_dispatched_again_now_and_then(self) -> None:
        self.suspect()
        for _ in range(10):
            self.janitor.look()
            self.clock.sleep(2.0)
        self.assertEqual(2, self.dispatcher.again.call_count)

    def test_dispatch_is_repeated_at_once_if_nova_did_not_answer(self) -> None:
        self.suspect()
        self.dispatcher.again.side_effect = [exception.Unreachable('no answer'), 0]
        self.janitor.look()
        self.janitor.look()
        self.assertEqual(2, self.dispatcher.again.call_count)

    def test_suspicion_by_an_operator_counts_once(self) -> None:
        host = self.suspect()
        self.store.change_host(host, word=model.SUSPECT, word_reason='a drill')
        self.suspects.is_well.return_value = True
        self.janitor.look()
        self.assertEqual([('h1', model.SUSPECT, 'a drill')], self.heeded)
        self.assertEqual((model.TRUSTED, None), (self._state(), self.store.host('h1').word))

    def test_clear_by_an_operator_aborts_recoveries(self) -> None:
        host = self.suspect()
        racing = self.make_recovery('a', state=model.RACING)
        committed = self.make_recovery('b', state=model.COMMITTED)
        self.store.change_host(host, word=model.CLEAR, word_reason='it hung (user u1)')
        self.janitor.look()
        self.assertEqual('an operator cleared h1: it hung (user u1)',
                         self.store.history[racing.id].abort)
        self.assertFalse(self.store.history[committed.id].abort)

    def test_clear_is_withdrawn_when_the_host_is_heard(self) -> None:
        self.store.change_host(self.store.host('h1'), word=model.CLEAR)
        self.janitor.look()
        self.assertEqual(model.CLEAR, self.store.host('h1').word)
        self._return_host()
        self.janitor.look()
        self.assertIsNone(self.store.host('h1').word)

    def test_superpositions_of_ended_recoveries_are_dropped(self) -> None:
        ended, active = self.make_recovery('a'), self.make_recovery('b')
        self.store.change(ended, state=model.ENDED, outcome=model.PRIMARY)
        self.volumes.ours.return_value = {'s1': ended.id, 's2': active.id, 's3': 'unknown'}
        self.janitor.look()
        self.assertEqual([mock.call('s1'), mock.call('s3')], self.volumes.drop.mock_calls)

    def test_superposition_of_a_recovery_that_begins_meanwhile_stays(self) -> None:
        self.volumes.ours.side_effect = lambda: {'s1': self.make_recovery('a').id}
        self.janitor.look()
        self.volumes.drop.assert_not_called()

    def test_words_are_heeded_without_a_look_at_the_hosts(self) -> None:
        self.store.change_host(self.store.host('h1'), word=model.SUSPECT, word_reason='smoke')
        self.janitor.heed()
        self.assertEqual([('h1', model.SUSPECT, 'smoke')], self.heeded)
        self.store.change_host(self.store.host('h1'), word=None, word_reason=None)
        self.janitor.heed()
        self.janitor.heed()
        self.assertEqual([('h1', None, '')], self.heeded[1:])

    def test_slow_host_holds_up_no_other_one(self) -> None:
        looks: list[object] = []
        waiting = janitor.Janitor(
            self.context, self.dispatcher, mock.Mock(), 1e6, looks.extend)
        for name in ('h1', 'h2'):
            self.suspect(name)
        self.store.change_host(self.store.host('h3'))
        waiting.look()
        self.assertEqual(2, len(looks))

    def test_failure_does_not_prevent_the_other_tasks(self) -> None:
        self.suspect()
        self.suspect('h2')
        self._return_host()
        self.volumes.ours.side_effect = exception.Unreachable('no Cinder')
        with mock.patch.object(self.store, 'change_host', side_effect=[
                exception.Unreachable('no database'), None]) as changed:
            self.janitor.look()
        self.assertEqual(2, changed.call_count)
