# SPDX-License-Identifier: Apache-2.0
"""A promoted superposition that is not merged yet is superposed again."""

from typing import Any

import ddt
import fixtures

from specreds_cinder import exception
from specreds_cinder.tests.unit.volume import base

SECOND = 'node2@rbd'


class AgainTestCase(base.ServiceTestCase):
    """A volume whose version was promoted, and is not merged yet."""

    def setUp(self) -> None:
        super().setUp()
        self.volume = self.back.add_volume(base.HOST)
        self.create(self.volume)
        self.first = self.worker.records['s1']
        self.first.update(state='promoted', outcome='promoted')

    def again(self, superposition_id: str = 's2') -> None:
        """Superpose the promoted version."""
        self.create(self.volume, superposition_id=superposition_id, again=True)

    def assert_notes(self, superposition: str | None, again: str | None = None) -> None:
        """Assert that the volume has these notes."""
        self.assertEqual((superposition, again),
                         (self.back.notes.get('vol-1'), self.back.again.get('vol-1')))


@ddt.ddt
class AgainTest(AgainTestCase):

    def test_volume_has_a_note_of_both(self) -> None:
        self.again()
        self.assertEqual('s1', self.worker.records['s2']['predecessor'])
        self.assertEqual('s1', self.service.get(self.context, 's2')['predecessor'])
        self.assert_notes('s1', 's2')

    def test_promoted_version_is_superposed_on_request_only(self) -> None:
        error = self.assertRaises(exception.VolumeSuperposed, self.create, self.volume,
                                  superposition_id='s2')
        self.assertIn('s1', error.msg)
        self.assert_notes('s1')

    def test_one_superposition_is_over_a_promoted_one_at_a_time(self) -> None:
        self.again()
        error = self.assertRaises(exception.VolumeSuperposed, self.again, 's3')
        self.assertIn('s2', error.msg)
        self.assert_notes('s1', 's2')

    def test_refusal_of_the_storage_leaves_the_note_of_the_promoted_one(self) -> None:
        self.worker.fail['super'] = exception.SuperpositionConflict('a merge has begun')
        self.assertRaises(exception.SuperpositionConflict, self.again)
        self.assert_notes('s1')

    def test_volume_that_was_merged_meanwhile_has_one_note(self) -> None:
        del self.worker.records['s1']
        self.again()
        self.assertIsNone(self.worker.records['s2']['predecessor'])
        self.assert_notes('s2')

    def test_promotion_leaves_the_note_of_the_second_one(self) -> None:
        self.again()
        self.service.collapse(self.context, 's2', True)
        self.assert_notes('s2')

    @ddt.data('dirty', 'late-dirty')
    def test_decision_for_the_primary_leaves_the_note_of_the_first_one(self, outcome: str
                                                                       ) -> None:
        self.again()
        self.worker.outcome = outcome
        self.service.collapse(self.context, 's2', True)
        self.assert_notes('s1')

    def test_abort_leaves_the_note_of_the_first_one(self) -> None:
        self.again()
        self.service.abort(self.context, 's2')
        self.assert_notes('s1')

    def test_note_of_a_service_that_died_before_the_superposition_is_replaced(self) -> None:
        self.back.again['vol-1'] = 's9'
        self.again()
        self.assert_notes('s1', 's2')

    @ddt.data('s1', None)
    def test_promoted_version_of_a_service_that_died_before_its_note_is_superposed_again(
            self, first: str | None) -> None:
        self.again()
        self.worker.records['s2'].update(state='promoted', outcome='promoted')
        del self.worker.records['s1']
        if first is None:
            del self.back.notes['vol-1']
        self.again('s3')
        self.assertEqual('s2', self.worker.records['s3']['predecessor'])
        self.assert_notes('s2', 's3')

    def test_note_that_cannot_be_looked_up_is_left(self) -> None:
        self.back.again['vol-1'] = 's9'
        self.worker.fail['show'] = exception.SuperpositionUnavailable('no answer')
        self.assertRaises(exception.SuperpositionUnavailable, self.again)
        self.assert_notes('s1', 's9')

    def test_several_back_ends_are_refused(self) -> None:
        other = self.back.add_volume(SECOND)
        error = self.assertRaises(exception.VolumesNotEligible, self.create, self.volume, other,
                                  superposition_id='s2', again=True)
        self.assertIn('merge them first', error.msg)
        self.assert_notes('s1')
        self.assertEqual(['s1'], list(self.worker.records))


@ddt.ddt
class LookAfterTest(AgainTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.again()
        self.second = self.worker.records['s2']

    def test_superposition_below_another_one_is_not_merged(self) -> None:
        self.first['unchanged_seconds'] = 1e6
        self.worker.calls.clear()
        self.service.look_after()
        self.merged()
        self.assertNotIn('unused', self.worker.methods())
        self.assertNotIn('merge', self.worker.methods())
        del self.worker.records['s2']
        self.service.look_after()
        self.merged()
        self.assertEqual({}, self.worker.records)

    def test_lost_notes_are_written_again(self) -> None:
        for notes in (self.back.notes, self.back.again):
            notes.clear()
            self.service.look_after()
            self.assert_notes('s1', 's2')

    def test_note_of_a_superposition_that_is_created_meanwhile_stays(self) -> None:
        known = {'s1'}
        self.service._tidy(known)
        self.assert_notes('s1', 's2')

    def test_note_of_a_dropped_superposition_is_removed(self) -> None:
        del self.worker.records['s2']
        self.service.look_after()
        self.assert_notes('s1')

    def test_interrupted_promotion_leaves_the_note_of_the_second_one(self) -> None:
        # The service has died before it replaced the notes.
        self.second.update(state='promoted', outcome='promoted')
        for gone in ({}, {'s1': None}):
            for superposition in gone:
                del self.worker.records[superposition]
            self.back.notes['vol-1'], self.back.again['vol-1'] = 's1', 's2'
            self.service.look_after()
            self.assert_notes('s2')

    @ddt.data({'state': 'promoted', 'outcome': 'promoted'}, {'predecessor': None})
    def test_only_note_is_put_in_its_place(self, changes: dict[str, Any]) -> None:
        # A service has died between two changes of notes.
        self.second.update(changes)
        del self.worker.records['s1'], self.back.notes['vol-1']
        self.assert_notes(None, 's2')
        self.service.look_after()
        self.assert_notes('s2')

    def test_pass_keeps_the_note_of_a_promotion_that_it_did_not_list(self) -> None:
        call = self.worker.call

        def promote_after_list(ctxt: Any, method: str, **arguments: Any) -> Any:
            answer = call(ctxt, method, **arguments)
            if method == 'list' and 's1' in self.worker.records:
                answer = [dict(shown) for shown in answer]
                self.service.collapse(self.context, 's2', True)
            return answer
        self.useFixture(fixtures.MockPatchObject(self.worker, 'call', promote_after_list))
        self.service.look_after()
        self.assertNotIn('s1', self.worker.records)
        self.assert_notes('s2')
