# SPDX-License-Identifier: Apache-2.0
"""The benchmark of failovers: its figures of the outcomes of accidents."""

import dataclasses
from unittest import mock

import testtools

from bench import failover
from bench import faults
from bench import report
from cloud.demo import outcome
from cloud.demo import recoveries


def _death(seconds: float, overhead: float = 0.0, lost: int = 0, waits: tuple[float, ...] = ()
           ) -> outcome.Outcome:
    phases = (outcome.Phase('detect', 0.0, overhead), outcome.Phase('race', overhead, seconds))
    return outcome.Outcome('x', 'x', 0.0, outcome.Gap(0.0, seconds), lost=lost, phases=phases,
                           waits=waits or (seconds,))


class FiguresTest(testtools.TestCase):

    def test_faults_are_measured_alone(self) -> None:
        tally = faults.Faults(count=16, right=15, longest_s=40.0, wrong=['an engine is killed'])
        tell = mock.Mock()
        with (mock.patch.object(failover, 'staged'),
              mock.patch.object(faults, 'run', return_value=tally),
              mock.patch.object(
                  faults, 'peace', return_value={'faults.broker_outage_backups': 0.0})):
            figures = failover.run_faults(mock.Mock(), tell)
        self.assertEqual({'faults.correct_ratio': 15 / 16, 'faults.count': 16,
                          'faults.longest_s': 40.0, 'faults.broker_outage_backups': 0.0}, figures)
        self.assertEqual(['faults.correct_ratio'], report.missed(figures))
        tell.say.assert_called_once_with('WRONG: an engine is killed')

    def test_ratios_are_those_of_each_round(self) -> None:
        deaths = failover.Deaths([_death(8.0, 2.0), _death(20.0, 4.0), _death(10.0, 3.0)],
                                 [_death(10.0)] * 3, [_death(5.0)] * 3)
        short = [_death(5.0, 1.0), _death(8.0, 2.0), _death(4.0, 2.0)]
        figures = failover.figures(deaths, short, _death(80.0))
        self.assertEqual(1.0, figures['failover.spec_over_oracle'])
        self.assertEqual(2.0, figures['failover.spec_over_fastest'])
        self.assertEqual(5.0, figures['failover.fastest.race_s'])
        self.assertEqual(3, figures['failover.spec_over_oracle.n'])
        self.assertEqual(16.0, figures['failover.reds60_over_spec'])
        self.assertEqual(2.0, figures['failover.overhead_s'])
        self.assertEqual(3.0, figures['failover.detect_s'])
        self.assertEqual(2.0, figures['failover.short.detect_s'])
        self.assertEqual(0, figures['failover.lost'])

    def test_ordinary_guests_are_measured_by_moments_and_parts(self) -> None:
        race, promote = (recoveries.Step('race', 2.0, 6.0, 'e1', frame=5.875),
                         recoveries.Step('promote', 6.0, 9.0, 'e1', opened=6.25))
        early = dataclasses.replace(_death(10.0, 2.0, lost=1), steps=(race, promote))
        figures = failover.ordinary_figures(failover.Deaths(
            [early, _death(14.0, 2.0)], [_death(10.0)] * 2, [_death(8.0)] * 2))
        self.assertEqual((12.0, 1.2, 1.0), tuple(figures[f'failover.ordinary_{key}'] for key in (
            's', 'over_oracle', 'lost')))
        self.assertEqual((0.375, 5.875, 2.0), (
            figures['failover.frame_to_open_s'], figures['failover.ordinary_frame_s'],
            figures['failover.ordinary_suspected_s']))
        self.assertEqual(0.5, figures['failover.ordinary_early_share'])
        self.assertEqual(2.0, figures['failover.ordinary.detect_s'])
        self.assertEqual(['failover.ordinary_over_oracle',
                          'failover.ordinary_blocking_over_oracle',
                          'failover.ordinary_early_share', 'failover.ordinary_lost'],
                         report.missed(figures))

    def test_part_that_a_round_did_not_have_counts_as_nothing(self) -> None:
        deaths = failover.Deaths([_death(8.0), _death(8.0, 2.0), _death(8.0)],
                                 [_death(8.0)] * 3, [_death(8.0)] * 3)
        figures = failover.figures(deaths, [_death(1.0)], _death(80.0))
        self.assertEqual(0.0, figures['failover.detect_s'])

    def test_lost_transactions_of_every_client_count(self) -> None:
        deaths = failover.Deaths([_death(1.0, lost=1)], [_death(1.0, lost=2)],
                                 [_death(1.0, lost=4)])
        figures = failover.figures(deaths, [_death(1.0)], _death(2.0))
        self.assertEqual(['failover.reds60_over_spec', 'failover.lost'], report.missed(figures))
        self.assertEqual(7, figures['failover.lost'])

    def test_longest_wait_of_users_is_compared_with_both_oracles(self) -> None:
        deaths = failover.Deaths([_death(8.0, waits=(8.0, 15.0))], [_death(10.0, waits=(10.0,))],
                                 [_death(5.0, waits=(5.0, 4.0))])
        figures = failover.figures(deaths, [_death(1.0)], _death(80.0))
        self.assertEqual((15.0, 10.0, 1.5, 3.0), tuple(figures[f'failover.{key}'] for key in (
            'spec_blocking_s', 'oracle_blocking_s', 'spec_blocking_over_oracle',
            'spec_blocking_over_fastest')))
        self.assertEqual(['failover.spec_blocking_over_oracle'], report.missed(figures))

    def test_peers_are_compared_with_the_engine(self) -> None:
        spec, by_default, at_once = (
            dataclasses.replace(_death(seconds, 1.0), key=key) for key, seconds in (
                ('spec', 10.0), ('masakari', 200.0), ('masakari0', 25.0)))
        figures = failover.peer_figures([spec, by_default, at_once])
        self.assertEqual(20.0, figures['failover.masakari_over_spec'])
        self.assertEqual(25.0, figures['failover.masakari0_s'])
        self.assertEqual(24.0, figures['failover.masakari0.race_s'])
        self.assertEqual([], report.missed(figures))

    def test_parts_are_shown_side_by_side(self) -> None:
        figures = {'failover.detect_s': 0.7, 'failover.race_s': 10.0,
                   'failover.short.detect_s': 0.8, 'failover.masakari.peer_s': 181.0,
                   'failover.masakari_s': 240.0}
        lines = [line.split() for line in report.side_by_side(
            figures, failover.COLUMNS, outcome.PHASES).splitlines()]
        self.assertEqual([['peer', '181.00'], ['detect', '0.70', '0.80'], ['race', '10.00'],
                          ['together', '10.70', '0.80', '181.00']], lines[2:])

    def test_throughput_during_and_before_a_backup(self) -> None:
        steps = (recoveries.Step('super', 101.0, 102.0, 'e1'),)
        death = outcome.Outcome(
            'x', 'x', 100.0, outcome.Gap(99.0, 101.0), steps=steps, settled=103.0,
            done=(90.0, 91.0, 92.0, 93.0, 101.5, 102.0, 104.0))
        # Two in two seconds, after four in ten.
        self.assertAlmostEqual(2.5, failover.throughput(death, 10.0))

    def test_round_without_a_backup_has_no_throughput(self) -> None:
        self.assertRaises(RuntimeError, failover.throughput, _death(1.0), 10.0)

    def test_every_figure_of_the_table_is_shown(self) -> None:
        shown = {bar.key.split('.')[0] for bar in report.BARS}
        self.assertLessEqual({'failover', *failover.MORE} - {'detector'}, shown)
