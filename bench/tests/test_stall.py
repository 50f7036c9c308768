# SPDX-License-Identifier: Apache-2.0
"""Drills with a host that stands still: who has to keep its servers."""

from typing import Any
from unittest import mock

import testtools

from bench import report
from bench import stall
from cloud.demo import outcome
from cloud.demo import recoveries
from cloud.demo import scenarios
from cloud.demo import stage as stages


def _recovery(end: str = recoveries.PRIMARY, frame: float | None = None,
              raced: float = 0.0) -> Any:
    steps = (recoveries.Step('race', 0.0, raced, 'e1', frame=frame),)
    return mock.Mock(outcome=end, steps=steps, error=None)


class DrillTest(testtools.TestCase):
    """One drill of a minute that nobody waits for, on a stage without a cloud."""

    def setUp(self) -> None:
        super().setUp()
        self.event = 1000.0
        self.stage = mock.MagicMock()
        self.ends = {name: _recovery() for name in ('database', 'web', 'plain')}
        servers = {name: mock.Mock(id=name) for name in self.ends}
        for name, server in servers.items():
            server.name = name
        self.hosts = dict.fromkeys(self.ends, stages.HOME)
        pair = mock.MagicMock(database=servers['database'],
                              servers=(servers['database'], servers['web']))
        self.stage.servers.return_value.__enter__.return_value = pair
        self.stage.small.return_value.__enter__.return_value = servers['plain'], mock.Mock()
        self.stage.ended.side_effect = lambda server: self.ends[server.name]
        self.stage.drill.running.side_effect = lambda server: [self.hosts[server.name]]
        self.stage.drill.active.side_effect = lambda id_: mock.Mock(host=self.hosts[id_])
        self.stage.drill.show.side_effect = lambda id_: {
            'OS-EXT-SRV-ATTR:host': self.hosts[id_], 'status': 'ACTIVE'}
        self.errors: tuple[str, ...] = ()

    def drill(self, seconds: float) -> list[stall.End]:
        gap = outcome.Gap(self.event, self.event + seconds)
        with mock.patch.object(stall, 'time') as time, mock.patch.object(
                scenarios, 'settle', lambda *_: ({'errors': self.errors}, gap)):
            time.time.return_value = self.event
            ends = stall.drill(self.stage, seconds)
            time.sleep.assert_called_once_with(seconds)
        return ends

    def moved(self, name: str, **how: Any) -> None:
        self.hosts[name] = stages.OTHER
        self.ends[name] = _recovery(recoveries.RECOVERED, **how)

    def test_host_is_frozen_and_cut_off_and_goes_on_in_the_end(self) -> None:
        self.drill(3.0)
        calls = [call[0] for call in self.stage.home.mock_calls]
        self.assertEqual(['cut', 'hang', 'resume', 'heal'], calls)
        self.assertEqual({'control': True, 'storage': True, 'tenant': True},
                         self.stage.home.cut.call_args.kwargs)

    def test_primaries_that_win(self) -> None:
        ends = self.drill(3.0)
        self.assertEqual([stall.End(3.0, None)] * 3, ends)
        self.assertEqual([], report.missed(stall.figures(ends)))

    def test_error_of_a_client_counts_if_the_primary_has_won(self) -> None:
        self.errors = ('reset',)
        figures = stall.figures(self.drill(3.0))
        self.assertEqual((1, ['stall.wrong']), (figures['stall.wrong'], report.missed(figures)))
        self.moved('database', raced=self.event + 7.5)
        self.assertEqual(0, stall.figures(self.drill(10.0))['stall.wrong'])

    def test_primary_loses_only_after_its_time(self) -> None:
        self.moved('plain', frame=self.event + 7.0, raced=self.event + 7.25)
        figures = stall.figures(self.drill(10.0))
        self.assertEqual([], report.missed(figures))
        self.assertEqual((1, 3, 1), (figures['stall.restarted'],
                                     figures['stall.timeout_restarted'],
                                     figures['stall.restarted_10s']))
        self.assertEqual(['stall.robbed', 'stall.wrong'],
                         report.missed(stall.figures(self.drill(5.0))))

    def test_first_frame_of_a_fast_guest_leaves_five_seconds(self) -> None:
        self.moved('plain', frame=self.event + 3.0, raced=self.event + 3.1)
        self.assertEqual(1, stall.figures(self.drill(4.0))['stall.robbed'])

    def test_every_other_end_is_wrong(self) -> None:
        self.ends['web'] = _recovery('failed')
        self.hosts['plain'] = stages.OTHER
        self.assertEqual(2, stall.figures(self.drill(3.0))['stall.wrong'])
