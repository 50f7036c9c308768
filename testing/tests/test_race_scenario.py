# SPDX-License-Identifier: Apache-2.0
"""Random rounds: their steps, their primaries, and the errors that end them."""

import dataclasses
import pathlib
import random
from unittest import mock

import ddt
import fixtures
import hypothesis
import testtools
from testtools import matchers

from specreds_cinder import superposition
from testing.race import backup
from testing.race import disks
from testing.race import machine
from testing.race import outcomes
from testing.race import processes
from testing.race import qemu
from testing.race import round as rounds
from testing.race import scenario
from testing.race import writer


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
    """A setting gives every primary a policy of librbd's cache, and changes no other choice."""

    def shapes(self) -> list[disks.Shape]:
        chance = random.Random(7)
        return [scenario.shape(chance) for _ in range(30)]

    def test_cache_is_drawn(self) -> None:
        self.assertEqual({'', 'writethrough', 'writearound'},
                         {shape.cache for shape in self.shapes()})

    def test_every_primary_has_the_cache(self) -> None:
        drawn = self.shapes()
        self.useFixture(fixtures.EnvironmentVariable('SPECREDS_RACE_CACHE', 'writearound'))
        self.assertEqual([dataclasses.replace(shape, cache='writearound') for shape in drawn],
                         self.shapes())

    @ddt.data((None, {'', 'writethrough', 'writearound'}), ('writearound', {'writearound'}))
    @ddt.unpack
    def test_state_machine_draws_alike(self, value: str | None, expected: set[str]) -> None:
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


class ShapeTest(testtools.TestCase):

    def test_some_primaries_of_hostile_rounds_are_qemu(self) -> None:
        shapes = [scenario.shape(random.Random(seed), hostile=True) for seed in range(40)]
        self.assertEqual({True, False}, {shape.qemu for shape in shapes})

    def test_no_other_primary_is_qemu(self) -> None:
        shapes = [scenario.shape(random.Random(seed)) for seed in range(40)]
        self.assertEqual({False}, {shape.qemu for shape in shapes})


class QemuTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.calls = mock.Mock()
        self.daemon_of = mock.Mock(return_value=self.calls.daemon)
        self.patch(backup, 'StorageDaemon', self.daemon_of)
        self.patch(processes.WriterProcess, '__init__', lambda *_args: None)
        for name in ('stop', 'wake', 'kill'):
            self.patch(processes.WriterProcess, name, getattr(self.calls.writer, name))
        place = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        (place / 'client.conf').write_text('[client]\nlog file =\n')
        cluster = mock.Mock(conffile=str(place / 'client.conf'), user='cinder')
        self.primary = qemu.QemuPrimary(
            cluster, place, 'primary',
            [(1 << 20, ['volumes', 'race', 'disk'])], writer.Spec(seed=1, origin=1))

    def test_volumes_are_opened_with_writeback(self) -> None:
        (node,), prefixes, *_ = self.daemon_of.call_args.args
        self.assertEqual({'direct': False, 'no-flush': False}, node['cache'])
        self.assertEqual('[client]\nlog file =\nrbd_cache_policy = writethrough\n',
                         pathlib.Path(node['conf']).read_text())
        self.assertEqual(('volumes', 'race', 'disk'),
                         (node['pool'], node['namespace'], node['image']))
        self.assertEqual([node['node-name']], prefixes)

    def test_writer_dies_before_its_daemon(self) -> None:
        self.primary.kill()
        self.assertEqual(['writer.kill', 'daemon.kill'],
                         [call[0] for call in self.calls.method_calls])

    def test_daemon_hangs_and_wakes_with_its_writer(self) -> None:
        self.primary.stop()
        self.primary.wake()
        self.assertEqual({'daemon.hang', 'writer.stop', 'writer.wake', 'daemon.wake'},
                         {call[0] for call in self.calls.method_calls})
