# SPDX-License-Identifier: Apache-2.0
"""Drills with a silent host under idle guests: what counts as a false promotion."""

from typing import Any
from unittest import mock

import testtools

from bench import opinion
from bench import report
from cloud.demo import recoveries
from cloud.demo import stage as stages
from cloud.hosts import services


def _end(seconds: float, outcome: str = recoveries.PRIMARY, *, same: bool = True) -> opinion.End:
    return opinion.End(seconds, outcome, same)


class FiguresTest(testtools.TestCase):

    def figures(self, *answered: opinion.End) -> dict[str, float]:
        replaced = [_end(seconds, recoveries.RECOVERED, same=False) for seconds in (9.0, 10.0)]
        return opinion.figures(replaced, answered, 1)

    def test_spared_guests_are_no_false_promotions(self) -> None:
        figures = self.figures(_end(2.0), _end(1.8))
        self.assertEqual([], report.missed(figures))
        self.assertEqual((2, 2, 0), (figures['opinion.silent.false_promotions'],
                                     figures['opinion.recoveries'],
                                     figures['opinion.false_promotions']))
        self.assertAlmostEqual(0.2, figures['opinion.answered_over_silent'])

    def test_every_other_end_is_a_false_promotion(self) -> None:
        figures = self.figures(_end(2.0), _end(2.0, same=False), _end(2.0, 'failed'))
        self.assertEqual(2, figures['opinion.false_promotions'])
        self.assertEqual(['opinion.false_promotions'], report.missed(figures))

    def test_answer_must_not_delay_a_recovery(self) -> None:
        self.assertEqual(['opinion.answered_over_silent'], report.missed(self.figures(_end(12.0))))


class DrillsTest(testtools.TestCase):
    """One drill, on a stage without a cloud."""

    def setUp(self) -> None:
        super().setUp()
        self.stage = mock.MagicMock()
        self.server = mock.Mock(id='s1', host=stages.HOME)
        drill = self.stage.drill
        drill.boot_later.return_value = 's1'
        drill.active.return_value = self.server
        drill.running.return_value = [stages.HOME]
        drill.wait.side_effect = lambda _what, probe, _seconds: probe()
        self.ids = ['old']
        self.stage.engine.ids.side_effect = lambda _server: list(self.ids)
        self.stage.home.cut.side_effect = (
            lambda **_networks: self.ids.insert(0, f'new-{len(self.ids)}'))
        self.stage.engine.recovery.side_effect = self.recovery
        self.stage.get.return_value = 'guest-1'

    @staticmethod
    def recovery(recovery_id: str) -> Any:
        outcome = recoveries.PRIMARY if recovery_id.startswith('new') else recoveries.RECOVERED
        return recoveries.Recovery(recovery_id, recoveries.ENDED, outcome, None, 'e1', None,
                                   100.0, 103.0, ())

    def once(self) -> opinion.End:
        [end] = opinion.Drills(self.stage, 1).once(opinion.cut)
        return end

    def test_only_the_new_recovery_counts(self) -> None:
        self.assertEqual(opinion.End(3.0, recoveries.PRIMARY, same=True), self.once())
        self.assertEqual([mock.call.cut(control=True), mock.call.heal(), mock.call.boot()],
                         self.stage.home.method_calls)

    def test_host_without_a_second_opinion_has_lost_both_voices(self) -> None:
        opinion.kill(self.stage.home)
        self.assertEqual([mock.call(services.SENTINEL), mock.call(services.COMPUTE)],
                         self.stage.home.kill_program.mock_calls)

    def test_other_guest_is_not_the_same(self) -> None:
        self.stage.get.side_effect = ['guest-1', 'guest-2']
        self.assertFalse(self.once().spared)

    def test_second_guest_on_another_host_is_not_the_same(self) -> None:
        self.stage.drill.running.return_value = [stages.HOME, stages.OTHER]
        self.assertFalse(self.once().spared)

    def test_server_that_has_left_the_host_is_replaced(self) -> None:
        drills = opinion.Drills(self.stage, 1)
        drills.once(opinion.cut)
        self.stage.drill.active.side_effect = [mock.Mock(host=stages.OTHER), self.server]
        drills.once(opinion.cut)
        self.stage.drill.delete.assert_called_once_with('s1')
        self.assertEqual(2, self.stage.drill.boot_later.call_count)
