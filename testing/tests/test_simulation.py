# SPDX-License-Identifier: Apache-2.0
"""The simulated hub, and what a seed determines."""

import pathlib
import re
from typing import Any
import uuid

import greenlet  # type: ignore[import-untyped]
import testtools

from testing import environment
from testing.simulation import concurrency
from testing.simulation import hub as hubs
from testing.simulation import invariants


class HubTest(testtools.TestCase):
    """Actors run one at a time, and may have fibers."""

    def setUp(self) -> None:
        super().setUp()
        self.hub = hubs.Hub(1)
        self.seen: list[tuple[str, float]] = []

    def _note(self, name: str) -> None:
        self.seen.append((name, self.hub.now() - hubs.START))

    def test_actor_continues_in_the_fiber_that_sleeps(self) -> None:
        def fiber() -> None:
            self.hub.sleep(2.0)
            self._note('fiber')

        def actor() -> None:
            greenlet.greenlet(fiber).switch()
            self._note('actor')
        self.hub.spawn('e1', actor)
        self.hub.run(10.0)
        self.assertEqual([('fiber', 2.0), ('actor', 2.0)], self.seen)

    def test_killed_process_does_not_continue(self) -> None:
        def actor() -> None:
            self.hub.sleep(2.0)
            self._note('actor')
        self.hub.spawn('e1', actor)
        self.hub.call(1.0, lambda: self.hub.kill('e1'))
        self.hub.run(10.0)
        self.assertEqual([], self.seen)

    def test_frozen_process_continues_later(self) -> None:
        def actor() -> None:
            self.hub.sleep(2.0)
            self._note('actor')
        self.hub.spawn('e1', actor)
        self.hub.call(1.0, lambda: self.hub.freeze('e1'))
        self.hub.call(5.0, lambda: self.hub.thaw('e1'))
        self.hub.run(10.0)
        self.assertEqual([('actor', 5.0)], self.seen)

    def test_time_that_does_not_pass_is_an_error(self) -> None:
        def actor() -> None:
            while True:
                self.hub.sleep(0.0)
        self.hub.spawn('e1', actor)
        self.addCleanup(self.hub.close)
        self.assertRaisesRegex(hubs.NoProgressError, 'turns at 1000.0 s, the last one of e1',
                               self.hub.run, 10.0)


class SeedTest(testtools.TestCase):
    """A seed determines a run."""

    def setUp(self) -> None:
        super().setUp()
        environment.prepare()

    @staticmethod
    def _play(seed: int, *, show: bool = True) -> Any:
        # The libraries of OpenStack choose eventlet if they are imported before prepare().
        from testing.simulation import play
        from testing.simulation import schedule
        return play.play(schedule.generate(seed), show=show)

    def test_same_seed_gives_the_same_run(self) -> None:
        first, second = self._play(2), self._play(2)
        self.assertEqual((first.timeline, first.outcomes), (second.timeline, second.outcomes))
        self.assertEqual([], first.wrong)

    def test_run_that_is_not_shown_is_the_same(self) -> None:
        for seed in (1, 4, 14):
            shown, hidden = self._play(seed), self._play(seed, show=False)
            self.assertEqual((shown.wrong, shown.outcomes, shown.seconds),
                             (hidden.wrong, hidden.outcomes, hidden.seconds))

    def test_kind_of_a_violation_has_no_names(self) -> None:
        self.assertEqual(invariants.kind('s1 is seen twice, on h1 and h2'),
                         invariants.kind('s3 is seen twice, on h2 and h4'))


class CrashTest(testtools.TestCase):
    """Crashes of servers, and engines that are killed before they act on them."""

    def test_power_failure_while_no_engine_runs_is_noticed(self) -> None:
        environment.prepare()
        from testing.simulation import play
        from testing.simulation import schedule as schedules
        faults = (schedules.Fault(24.0, 'engine_killed', 'e1', 12.0),
                  schedules.Fault(25.0, 'power', 'h1', 5.0))
        schedule = schedules.Schedule(1, ('h1', 'h2', 'h3'), ('e1',), 1,
                                      {'s1': ('h1', 0.0, 2.0)}, {}, {}, faults)
        result = play.play(schedule)
        self.assertEqual(([], {'s1': ['restarted']}), (result.wrong, result.outcomes))

    def test_server_that_has_crashed_often_is_restarted_after_a_boot_of_its_host(self) -> None:
        environment.prepare()
        from testing.simulation import play
        from testing.simulation import schedule as schedules
        # A second host that is silent keeps the engine from moving the server.
        faults = (*(schedules.Fault(at, 'crash', 's1', 1.0) for at in (13.5, 18.0, 31.5)),
                  schedules.Fault(40.0, 'power', 'h2', 25.0),
                  schedules.Fault(42.0, 'power', 'h1', 15.0))
        schedule = schedules.Schedule(1, ('h1', 'h2', 'h3'), ('e1',), 1,
                                      {'s1': ('h1', 0.0, 2.0)}, {}, {}, faults)
        result = play.play(schedule)
        self.assertEqual([], result.wrong)
        self.assertEqual({'s1': ['restarted'] * 4}, result.outcomes)

    def test_crash_that_waits_outlives_all_engines(self) -> None:
        environment.prepare()
        from testing.simulation import play
        from testing.simulation import schedule as schedules
        # No engine that hears of the crash can act on it before it is killed.
        faults = (schedules.Fault(19.0, 'away', 'nova', 21.0),
                  schedules.Fault(20.0, 'crash', 's1', 1.0),
                  schedules.Fault(26.0, 'engine_killed', 'e1', 8.0),
                  schedules.Fault(26.0, 'engine_killed', 'e2', 8.0))
        schedule = schedules.Schedule(1, ('h1', 'h2', 'h3'), ('e1', 'e2'), 1,
                                      {'s1': ('h1', 0.0, 2.0)}, {}, {}, faults)
        result = play.play(schedule)
        self.assertEqual([], result.wrong)
        self.assertEqual({'s1': ['restarted']}, result.outcomes)


class TakeOverTest(testtools.TestCase):
    """The recoveries of an engine that does nothing, and of all engines without a database."""

    @staticmethod
    def _takeovers(*faults: tuple[float, str, str, float]) -> tuple[Any, list[float]]:
        """Return the end of a recovery of two engines, and when it was taken over.

        :param faults: begin, kind, target and length of each fault
        """
        from testing.simulation import play
        from testing.simulation import schedule as schedules
        schedule = schedules.Schedule(
            1, ('h1', 'h2', 'h3'), ('e1', 'e2'), 1, {'s1': ('h1', 0.0, 15.0)}, {}, {},
            tuple(schedules.Fault(*fault) for fault in faults))
        result = play.play(schedule, show=True)
        return (result.wrong, result.outcomes), [
            at - hubs.START for at, text in result.timeline
            if 'this engine works on it, epoch 2' in text]

    def test_silent_engine_loses_its_recovery_within_seconds(self) -> None:
        environment.prepare()
        taken: list[float] = []
        for name in ('e1', 'e2'):
            # One of the two works on the recovery, and goes on when the other one has it.
            end, times = self._takeovers((20.0, 'power', 'h1', 55.0),
                                         (28.0, 'engine_frozen', name, 30.0))
            self.assertEqual(([], {'s1': ['recovered']}), end)
            taken += times
        [at] = taken
        self.assertTrue(28.0 < at < 31.0, at)

    def test_outage_of_the_database_moves_no_recovery(self) -> None:
        environment.prepare()
        for at in (26.0, 30.0, 45.0):
            end, times = self._takeovers((20.0, 'power', 'h1', 55.0), (at, 'away', 'store', 60.0))
            self.assertEqual((([], {'s1': ['recovered']}), []), (end, times))


class UuidTest(testtools.TestCase):
    """Simulated ids are those of the standard library."""

    def test_hex_has_version_and_variant(self) -> None:
        for bits in (0, 2 ** 128 - 1, 0x123456789abcdef << 64):
            simulated = concurrency.Uuid(bits)
            real = uuid.UUID(int=bits, version=4)
            self.assertEqual((real.hex, str(real)), (simulated.hex, str(simulated)))


class MixTest(testtools.TestCase):
    """The kinds of faults in a schedule."""

    def test_schedule_has_only_the_kinds_of_its_mix(self) -> None:
        environment.prepare()
        from testing.simulation import schedule as schedules
        kinds = {fault.kind for seed in range(20)
                 for fault in schedules.generate(seed, ('power', 'lost')).faults}
        self.assertEqual({'power', 'lost'}, kinds)
        self.assertEqual(schedules.generate(3), schedules.generate(3, ()))

    def test_kind_of_its_own_stream_is_drawn_from_a_mix_as_well(self) -> None:
        environment.prepare()
        from testing.simulation import schedule as schedules
        targets = {fault.target for seed in range(20) for fault in
                   schedules.generate(seed, (schedules.REFUSED, schedules.SENTINEL)).faults}
        self.assertLessEqual({'s1', 'h1'}, targets)


class MutationsTest(testtools.TestCase):
    """The safety steps that the simulation takes out, and their table in the documentation."""

    def test_every_safety_step_has_a_seed_that_finds_it(self) -> None:
        environment.prepare()
        from testing.simulation import mutations
        self.assertEqual([], [name for name, mutation in mutations.MUTATIONS.items()
                              if mutation.seed < 0])

    def test_documented_seeds_are_those_that_are_played(self) -> None:
        environment.prepare()
        from testing.simulation import mutations
        page = pathlib.Path(__file__).parents[2] / 'doc/source/contributor/index.rst'
        table = page.read_text().partition('``--mutation``')[2]
        rows = dict(re.findall(r'^``([a-z0-9-]+)`` +(\d+) ', table, re.MULTILINE))
        self.assertLessEqual({name for name in mutations.MUTATIONS if re.match(r'c\d-', name)},
                             rows.keys())
        self.assertEqual({name: str(mutations.MUTATIONS[name].seed) for name in rows}, rows)
