# SPDX-License-Identifier: Apache-2.0
"""Random rounds: their steps, their primaries, and the errors that end them."""

import dataclasses
import random
from unittest import mock

import ddt
import fixtures
import hypothesis
import testtools
from testtools import matchers

from specreds_cinder import superposition
from testing.race import disks
from testing.race import machine
from testing.race import outcomes
from testing.race import round as rounds
from testing.race import scenario


class ErrorTest(testtools.TestCase):

    def play(self, error: Exception) -> outcomes.Result:
        race = mock.Mock(attacks=['primary dies'], **{'superpose.side_effect': error})
        self.patch(rounds, 'Round', mock.Mock(return_value=race))
        self.story: list[str] = []
        result = scenario.play(mock.Mock(), 'idle', 1, self.story)
        race.close.assert_called_once_with()
        return result

    def test_cluster_that_does_not_answer_leaves_the_round_undecided(self) -> None:
        result = self.play(superposition.ClusterTimeout('a group does not answer'))
        self.assertEqual((outcomes.UNDECIDED, []), (result.outcome, result.violations))
        self.assertIn('Ceph did not answer in time', result.attacks)
        self.assertIn('a group does not answer', self.story[-1])

    def test_other_error_is_a_violation(self) -> None:
        result = self.play(superposition.Conflict('it is decided', 'promoted'))
        self.assertEqual(['error: it is decided'], result.violations)


@ddt.ddt
class CacheTest(testtools.TestCase):
    """A setting gives every primary the write-back cache, and changes no other choice."""

    def shapes(self) -> list[disks.Shape]:
        chance = random.Random(7)
        return [scenario.shape(chance) for _ in range(30)]

    def test_cache_is_drawn(self) -> None:
        self.assertEqual({False, True}, {shape.cache for shape in self.shapes()})

    def test_every_primary_has_the_cache(self) -> None:
        drawn = self.shapes()
        self.useFixture(fixtures.EnvironmentVariable('SPECREDS_RACE_CACHE', '1'))
        self.assertEqual([dataclasses.replace(shape, cache=True) for shape in drawn],
                         self.shapes())

    @ddt.data((None, {False, True}), ('1', {True}))
    @ddt.unpack
    def test_state_machine_draws_alike(self, value: str | None, expected: set[bool]) -> None:
        self.useFixture(fixtures.EnvironmentVariable('SPECREDS_RACE_CACHE', value))
        seen = set()

        @hypothesis.seed(1)
        @hypothesis.settings(max_examples=50, database=None, deadline=None)
        @hypothesis.given(machine._SHAPES)
        def draw(shape: disks.Shape) -> None:
            seen.add(shape.cache)

        draw()
        self.assertEqual(expected, seen)


class AttemptsTest(testtools.TestCase):

    def attempts(self, *, hostile: bool) -> list[list[str]]:
        """Return the steps of many rounds, by name."""
        played = []
        for seed in range(40):
            race = mock.Mock(attacks=[])
            self.patch(rounds, 'Round', mock.Mock(return_value=race))
            scenario.play(mock.Mock(), 'idle', seed, [], hostile=hostile)
            played.append([call[0] for call in race.method_calls])
        return played

    def test_hostile_round_may_have_two_attempts_with_a_backup_each(self) -> None:
        played = self.attempts(hostile=True)
        twice = [steps for steps in played if 'again' in steps]
        self.assertThat(len(twice), matchers.MatchesAll(
            matchers.GreaterThan(0), matchers.LessThan(len(played))))
        for steps in twice:
            self.assertLess(steps.index('superpose'), steps.index('again'))
            self.assertNotIn('collapse', steps[:steps.index('again')])
        self.assertIn(2, {steps.count('start_backup') for steps in twice})

    def test_other_rounds_have_one_attempt(self) -> None:
        self.assertNotIn('again', {step for steps in self.attempts(hostile=False)
                                   for step in steps})
