# SPDX-License-Identifier: Apache-2.0
"""The schedules of generated simulations, and what their faults do to clocks."""

import argparse

import testtools

from specreds_nova.engine.recovery import settings
from testing.simulation import cli
from testing.simulation import hub as hubs
from testing.simulation import play
from testing.simulation import schedule as schedules

_SEEDS = 300


class ScheduleTest(testtools.TestCase):
    """Schedules of seeds."""

    def test_margin_allows_for_the_clocks_of_hosts(self) -> None:
        margin = settings.Settings.network_lease_margin
        generated = [schedules.generate(seed) for seed in range(_SEEDS)]
        drifts = [schedule for schedule in generated if schedule.rates]
        self.assertNotEqual([], drifts)
        for schedule in drifts:
            lease = schedule.options['sentinel_network_lease']
            for rate in schedule.rates.values():
                self.assertTrue(lease / rate < lease + margin, schedule)

    def test_clocks_of_a_mix_are_those_of_its_kinds(self) -> None:
        for seed in range(_SEEDS):
            schedule = schedules.generate(seed, ('power',))
            self.assertEqual(({}, {'power'}),
                             (schedule.rates, {fault.kind for fault in schedule.faults}))

    def test_servers_of_drills_are_idle_and_their_sentinels_answer(self) -> None:
        for seed in range(_SEEDS):
            schedule = schedules.generate(seed, (schedules.DRILL,))
            self.assertTrue(schedule.second_opinion)
            self.assertEqual({0.0}, {period for _, period, _ in schedule.servers.values()})

    def test_zones_are_those_of_mixes_that_need_them(self) -> None:
        for seed in range(_SEEDS):
            for mix in ((), ('power', 'node'), (schedules.DRILL,)):
                self.assertEqual({}, schedules.generate(seed, mix).zones)
            for kind in schedules.MANY:
                schedule = schedules.generate(seed, ('power', kind))
                self.assertEqual(set(schedule.hosts), set(schedule.zones))
                self.assertEqual({'z1', 'z2'}, set(schedule.zones.values()))

    def test_clock_is_set_and_set_back(self) -> None:
        faults = (schedules.Fault(10.0, schedules.CLOCK, 'e1', 10.0, '+1.5'),
                  schedules.Fault(12.0, 'engine_killed', 'e1', 2.0))
        game = play.Play(schedules.Schedule(
            1, ('h1', 'h2', 'h3'), ('e1',), 1, {'s1': ('h1', 0.0, 2.0)}, {'e1': (1.0, -1.0)}, {},
            faults))
        ahead: dict[float, float] = {}

        def look() -> None:
            hub = game._hub
            ahead[hub.now() - hubs.START] = hub.clock(game._engines['e1'].owner).ahead
        for at in (9.0, 11.0, 19.0, 21.0):
            game._hub.call(at, look)
        self.assertEqual([], game.run().wrong)
        self.assertEqual({9.0: -1.0, 11.0: 1.5, 19.0: 1.5, 21.0: -1.0}, ahead)


class MixTest(testtools.TestCase):
    """The kinds of faults that a command line means."""

    def test_empty_mix_means_all_kinds_for_a_mutation(self) -> None:
        for arguments, mix in ((['--mix', ''], ()), (['--mix', 'power,stop'], ('power', 'stop')),
                               ([], ('stop', 'isolated', 'power', 'power'))):
            args: argparse.Namespace = cli._parser().parse_args(
                ['--mutation', 'tenant', *arguments])
            self.assertEqual(mix, cli._mix(args), str(arguments))
