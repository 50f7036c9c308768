# SPDX-License-Identifier: Apache-2.0
"""Outages and phases, computed from a client's log and an engine's steps."""

import dataclasses
import itertools

from hypothesis import given
from hypothesis import strategies as st
import testtools

from cloud import commands
from cloud.demo import outcome
from cloud.demo import recoveries

_EVENT = 100.0


def _step(name: str, began: float, ended: float | None) -> recoveries.Step:
    return recoveries.Step(name, _EVENT + began, ended and _EVENT + ended, 'e1')


class GapTest(testtools.TestCase):

    def test_outage_begins_with_the_last_answer_before_the_accident(self) -> None:
        gap = outcome.longest([98.0, 99.9, 108.0, 108.1], _EVENT)
        self.assertEqual((99.9, 108.0), (gap.began, gap.ended))

    def test_answers_under_way_do_not_count(self) -> None:
        gap = outcome.longest([99.9, 100.1, 100.2, 108.0], _EVENT)
        self.assertEqual((100.2, 108.0), (gap.began, gap.ended))

    def test_gap_before_the_accident_is_ignored(self) -> None:
        gap = outcome.longest([10.0, 99.0, 101.0, 101.5], _EVENT)
        self.assertEqual(2.0, gap.seconds)

    def test_answers_after_the_end_are_ignored(self) -> None:
        gap = outcome.longest([99.0, 101.0, 200.0], _EVENT, until=150.0)
        self.assertEqual(2.0, gap.seconds)

    def test_outage_without_an_answer_lasts(self) -> None:
        for done, word in (([], 'before'), ([99.0], 'after'), ([101.0], 'before')):
            error = self.assertRaises(commands.CloudError, outcome.longest, done, _EVENT)
            self.assertIn(word, str(error))

    @given(st.lists(st.floats(0, _EVENT), unique=True, min_size=1),
           st.lists(st.floats(_EVENT, 200, exclude_min=True), unique=True, min_size=1))
    def test_outage_contains_no_answer(self, before: list[float], after: list[float]) -> None:
        done = sorted(before + after)
        gap = outcome.longest(done, _EVENT)
        self.assertFalse([moment for moment in done if gap.began < moment < gap.ended])
        self.assertIn(gap.ended, after)
        self.assertEqual(gap.seconds, max(
            second - first for first, second in itertools.pairwise(done) if second > _EVENT))

    def test_rate(self) -> None:
        self.assertEqual(1.5, outcome.rate([1.0, 2.0, 2.5, 3.0], 1.0, 3.0))


class PhasesTest(testtools.TestCase):

    def phases(self, steps: list[recoveries.Step], served: float, first: float | None = None
               ) -> list[tuple[str, float, float]]:
        return [(phase.name, phase.began, phase.ended) for phase in outcome.phases(
            _EVENT, outcome.Gap(_EVENT, _EVENT + served), _EVENT + 1.0, steps,
            None if first is None else _EVENT + first)]

    def test_phases_follow_each_other(self) -> None:
        steps = [_step('destination', 1.125, 1.25), _step('super', 1.125, 1.5),
                 _step('start', 1.75, 2.0), _step('race', 2.0, 5.0), _step('harden', 5.0, 5.25),
                 _step('unseen', 5.25, 8.25), _step('collapse', 8.375, 8.5),
                 _step('promote', 8.5, 8.75), _step('evacuate', 8.75, 15.0)]
        self.assertEqual(
            [('detect', 0.0, 1.0), ('dispatch', 1.0, 1.125), ('super', 1.125, 1.5),
             ('start', 1.5, 2.0),
             ('race', 2.0, 5.0), ('harden', 5.0, 5.25), ('unseen', 5.25, 8.25),
             ('collapse', 8.25, 8.5), ('promote', 8.5, 8.75),
             ('answer', 8.75, 9.0)], self.phases(steps, 9.0))

    def test_repeated_step_counts_from_its_first_attempt(self) -> None:
        steps = [_step('super', 1.0, None), _step('super', 3.0, 3.5), _step('super', 1.5, 2.0)]
        self.assertIn(('super', 1.5, 3.5), self.phases(steps, 9.0))

    def test_promotion_ends_when_the_box_is_open(self) -> None:
        step = dataclasses.replace(_step('promote', 2.0, 4.0), opened=_EVENT + 2.25)
        self.assertEqual([('promote', 2.0, 2.25), ('answer', 2.25, 3.0)],
                         self.phases([step], 3.0)[2:])

    def test_phases_end_with_the_first_answer(self) -> None:
        steps = [_step('promote', 2.0, 4.0)]
        self.assertEqual([('detect', 0.0, 1.0), ('dispatch', 1.0, 2.0), ('promote', 2.0, 3.0)],
                         self.phases(steps, 3.0))

    def test_service_that_starts_after_the_promotion_is_the_guests(self) -> None:
        steps = [_step('race', 2.0, 4.0), _step('promote', 4.0, 4.5)]
        phases = self.phases(steps, 9.0, first=4.75)
        self.assertEqual([('answer', 4.5, 4.75), ('serve', 4.75, 9.0)], phases[-2:])
        self.assertEqual(4.75 - 2.0, self.recovered(steps, 9.0, 4.75).overhead_s)

    @given(st.lists(st.tuples(st.sampled_from(sorted(outcome.PHASES)), st.floats(0, 12),
                              st.none() | st.floats(0, 12)), max_size=12),
           st.floats(-0.2, 2), st.floats(0.1, 10), st.none() | st.floats(0, 12))
    def test_phases_fill_the_time_without_service(
            self, steps: list[tuple[str, float, float | None]], began: float, lasted: float,
            first: float | None) -> None:
        gap = outcome.Gap(_EVENT + began, _EVENT + began + lasted)
        phases = outcome.phases(_EVENT, gap, _EVENT + 1.0, [_step(*step) for step in steps],
                                None if first is None else _EVENT + first)
        ends = [gap.began - _EVENT, *(phase.ended for phase in phases)]
        self.assertEqual(ends[:-1], [phase.began for phase in phases])
        self.assertEqual(gap.ended - _EVENT, ends[-1])
        self.assertAlmostEqual(gap.seconds, sum(phase.seconds for phase in phases))
        order = [outcome.PHASES.index(phase.name) for phase in phases]
        self.assertEqual(sorted(set(order)), order)

    def recovered(self, steps: list[recoveries.Step], served: float, first: float | None = None
                  ) -> outcome.Outcome:
        gap = outcome.Gap(_EVENT, _EVENT + served)
        return outcome.Outcome('spec', 'SpecREDS', _EVENT, gap, outcome.phases(
            _EVENT, gap, _EVENT + 1, steps, first and _EVENT + first), steps=tuple(steps))

    def test_overhead_is_all_but_the_guest(self) -> None:
        steps = [_step('super', 1.0, 1.5), _step('start', 1.5, 2.5), _step('race', 2.5, 8.0),
                 _step('collapse', 8.0, 8.5), _step('promote', 8.5, 8.75)]
        recovered = self.recovered(steps, 9.0)
        self.assertEqual(9.0 - 5.5, recovered.overhead_s)
        facts = recovered.facts()
        self.assertEqual(9.0, facts['unavailable_s'])
        self.assertEqual([0.0, 1.0], facts['phases']['detect'])

    def test_first_frame_to_open_box(self) -> None:
        race = dataclasses.replace(_step('race', 2.0, 5.125), frame=_EVENT + 5.0)
        promote = dataclasses.replace(_step('promote', 5.25, 7.0), opened=_EVENT + 5.5)
        recovered = self.recovered([race, _step('collapse', 5.125, 5.25), promote], 9.0, 5.75)
        self.assertEqual(0.5, recovered.frame_to_open_s)
        self.assertEqual({'suspected': 1.0, 'frame': 5.0, 'decided': 5.25, 'answered': 5.75},
                         recovered.moments)

    def test_frame_that_is_too_early_to_decide_ends_the_guests_part(self) -> None:
        race = dataclasses.replace(_step('race', 2.0, 5.125), first=_EVENT + 2.5,
                                   frame=_EVENT + 5.0)
        steps = [race, _step('harden', 5.125, 5.25), _step('promote', 5.25, 5.5)]
        self.assertEqual([('race', 2.0, 2.5), ('hold', 2.5, 5.125), ('harden', 5.125, 5.25)],
                         self.phases(steps, 9.0)[2:5])
        self.assertEqual(9.0 - 0.5, self.recovered(steps, 9.0).overhead_s)

    def test_race_that_readiness_decides_has_no_frame(self) -> None:
        self.assertIsNone(self.recovered([_step('race', 2.0, 5.0)], 9.0).frame_to_open_s)

    def test_guest_answers_before_its_service_does(self) -> None:
        def failed(at: float, error: str) -> dict[str, object]:
            return {'at': at, 'event': 'failed', 'more': {'error': error}}
        failures = [failed(90.0, 'Connection refused'), failed(101.0, 'no answer within 0.5 s'),
                    failed(108.0, 'connection failed: Connection refused'),
                    failed(109.0, 'FATAL: the database system is starting up')]
        self.assertEqual(108.0, outcome.reached(failures, _EVENT))
        self.assertIsNone(outcome.reached(failures[:2], _EVENT))
