# SPDX-License-Identifier: Apache-2.0
"""What is looked after."""

from unittest import mock

from specreds_nova.engine import exception
from specreds_nova.engine import janitor
from specreds_nova.engine import model
from specreds_nova.tests.unit.engine.recovery import base


class JanitorTest(base.RecoveryTest):
    """Whatever is left over is brought in order."""

    def setUp(self) -> None:
        super().setUp()
        self.dispatcher = mock.Mock()
        self.known: set[str] = set()
        self.posted: list[str] = []
        self.heeded: list[tuple[str, str | None, str]] = []
        self.volumes.ours.return_value = {}
        self.janitor = janitor.Janitor(
            self.context, self.dispatcher, lambda: self.known,
            lambda recovery: self.posted.append(recovery.id),
            lambda *told: self.heeded.append(told), 1e6)

    def _back(self) -> None:
        self.suspects.suspected.return_value = False
        self.suspects.is_well.return_value = True

    def _state(self) -> str:
        return self.store.host('h1').state

    def test_a_recovery_without_a_job(self) -> None:
        lost, kept = self.make_recovery('a'), self.make_recovery('b')
        self.known.add(kept.id)
        self.janitor.look()
        self.assertEqual([], self.posted)
        self.clock.sleep(10.0)
        self.janitor.look()
        self.assertEqual([lost.id], self.posted)

    def test_a_host_that_is_back_is_trusted(self) -> None:
        self.suspect()
        self._back()
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self._state())
        self.backups.returned.assert_not_called()

    def test_host_that_was_held_and_is_back(self) -> None:
        self.store.change_host(self.store.host('h1'), held=('8 of 9',))
        self.janitor.look()
        self.assertEqual(model.HELD, self.store.host('h1').shown)
        self._back()
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self.store.host('h1').shown)

    def test_flaps_are_written_down_and_forgotten(self) -> None:
        self.suspect()
        self._back()
        self.suspects.flaps.return_value = 2
        self.janitor.look()
        self.assertEqual(2, self.store.host('h1').flaps)
        self.clock.sleep(self.context.options.flap_period - 1.0)
        self.janitor.look()
        self.assertEqual(2, self.store.host('h1').flaps)
        self.clock.sleep(2.0)
        self.janitor.look()
        self.assertEqual(0, self.store.host('h1').flaps)

    def test_not_while_something_is_under_way(self) -> None:
        self.suspect()
        recovery = self.make_recovery('a', state=model.RACING)
        self._back()
        self.janitor.look()
        self.assertEqual(model.SUSPECTED, self._state())
        self.store.change(recovery, state=model.ENDED, outcome=model.PRIMARY)
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self._state())

    def test_a_merge_elsewhere_keeps_no_host_waiting(self) -> None:
        self.suspect()
        self.make_recovery('a', state=model.MERGING)
        self._back()
        self.janitor.look()
        self.assertEqual(model.TRUSTED, self._state())

    def test_a_fenced_host_is_cleaned_first(self) -> None:
        self.suspect(state=model.FENCED)
        self._back()
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

    def test_a_host_that_stays_away_is_looked_after(self) -> None:
        host = self.suspect()
        self.janitor.look()
        self.dispatcher.again.assert_called_once_with(host)
        self.assertEqual(model.SUSPECTED, self._state())

    def test_it_is_not_looked_after_all_the_time(self) -> None:
        self.suspect()
        for _ in range(10):
            self.janitor.look()
            self.clock.sleep(2.0)
        self.assertEqual(2, self.dispatcher.again.call_count)

    def test_while_nova_does_not_answer_it_is_asked_again(self) -> None:
        self.suspect()
        self.dispatcher.again.side_effect = [exception.Unreachable('no answer'), 0]
        self.janitor.look()
        self.janitor.look()
        self.assertEqual(2, self.dispatcher.again.call_count)

    def test_the_word_that_a_host_has_failed_is_good_for_once(self) -> None:
        host = self.suspect()
        self.store.change_host(host, word=model.SUSPECT, word_reason='a drill')
        self.suspects.is_well.return_value = True
        self.janitor.look()
        self.assertEqual([('h1', model.SUSPECT, 'a drill')], self.heeded)
        self.assertEqual((model.TRUSTED, None), (self._state(), self.store.host('h1').word))

    def test_the_word_that_nothing_is_wrong_ends_what_is_under_way(self) -> None:
        host = self.suspect()
        racing = self.make_recovery('a', state=model.RACING)
        committed = self.make_recovery('b', state=model.COMMITTED)
        self.store.change_host(host, word=model.CLEAR)
        self.janitor.look()
        self.assertTrue(self.store.history[racing.id].abort)
        self.assertFalse(self.store.history[committed.id].abort)

    def test_that_word_is_taken_back_when_the_host_is_heard(self) -> None:
        self.store.change_host(self.store.host('h1'), word=model.CLEAR)
        self.janitor.look()
        self.assertEqual(model.CLEAR, self.store.host('h1').word)
        self._back()
        self.janitor.look()
        self.assertIsNone(self.store.host('h1').word)

    def test_superpositions_of_recoveries_that_have_ended(self) -> None:
        ended, active = self.make_recovery('a'), self.make_recovery('b')
        self.store.change(ended, state=model.ENDED, outcome=model.PRIMARY)
        self.volumes.ours.return_value = {'s1': ended.id, 's2': active.id, 's3': 'unknown'}
        self.janitor.look()
        self.assertEqual([mock.call('s1'), mock.call('s3')], self.volumes.drop.mock_calls)

    def test_what_fails_keeps_nothing_else_from_being_looked_after(self) -> None:
        self.suspect()
        self.suspect('h2')
        self._back()
        self.volumes.ours.side_effect = exception.Unreachable('no Cinder')
        with mock.patch.object(self.store, 'change_host', side_effect=[
                exception.Unreachable('no database'), None]) as changed:
            self.janitor.look()
        self.assertEqual(2, changed.call_count)
