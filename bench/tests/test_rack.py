# SPDX-License-Identifier: Apache-2.0
"""The figures of a rack that fails, and of one whose recoveries do not end in time."""

import contextlib
from typing import Any
from unittest import mock

import testtools

from bench.scale import engine
from bench.scale import mix
from bench.scale import process
from bench.scale import rack
from bench.scale import takeover
from bench.scale.simulated import inventory
from cloud import commands


class FailTest(testtools.TestCase):
    """A rack of two servers."""

    def setUp(self) -> None:
        super().setUp()
        self.stage: Any = mock.Mock(spec=process.Stage)
        self.stage.inventory = inventory.Inventory(5, 1, 2)
        self.stage.engine = mock.Mock(cpu=3.0, threads=60, memory=200.0)
        self.stage.store = mock.Mock()
        self.stage.store.active.return_value = []
        self.stage.hosts = mock.Mock()
        self.said: list[str] = []

    def figures_of(self, started: int, served: int, until: float = 0.0) -> dict[str, float]:
        """Return the figures of a rack with so many servers that have started and serve."""
        report = {'now': 100.0, 'started': started, 'served': served, 'last_started': 130.0,
                  'last_served': 150.0}
        self.stage.hosts.say.side_effect = lambda word: (
            {'dead0': ['s1']} if word == 'unserved' else report)
        self.stage.counts.side_effect = [
            {'statements': 100.0, 'requests': 10.0, 'calls': 0.0},
            {'statements': 180.0, 'requests': 31.0, 'calls': 12.0}]
        return rack.fail(self.stage, until, self.said.append)

    def test_whole_rack_has_all_figures(self) -> None:
        figures = self.figures_of(2, 2)
        self.assertEqual((30.0, 50.0, 60, 200.0), tuple(figures[f'scale.{key}'] for key in (
            'rack.last_started_s', 'rack.last_served_s', 'rack.threads', 'memory_mib')))
        self.assertIn('scale.rack.last_ended_s', figures)
        self.assertEqual((40.0, 10.5, 6.0), tuple(
            figures[f'scale.rack.recovery_{key}'] for key in ('statements', 'requests', 'calls')))
        self.assertEqual([], self.said)

    def test_rack_that_does_not_end_has_the_figures_of_what_did(self) -> None:
        self.stage.store.active.return_value = [mock.Mock()]
        figures = self.figures_of(2, 1)
        self.assertEqual((2, 2, 1), tuple(figures[f'scale.rack.{key}'] for key in (
            'servers', 'started', 'served')))
        self.assertIn('scale.rack.last_started_s', figures)
        self.assertIn('scale.rack.recovery_cpu_ms', figures)
        self.assertNotIn('scale.rack.last_served_s', figures)
        self.assertNotIn('scale.rack.last_ended_s', figures)
        self.assertEqual((1, 0), (rack.unserved(figures), rack.unserved(self.figures_of(2, 2))))
        words, unserved = self.said[:2]
        self.assertIn('1 servers of dead0 are not served, such as s1', unserved)
        self.assertIn('of 2 servers 2 have started, 1 serve, and 1 recoveries have not ended',
                      words)

    def test_part_that_fails_leaves_its_own_figures_out(self) -> None:
        kept: list[dict[str, float]] = []
        tell = mock.Mock()

        @contextlib.contextmanager
        def stage(*_arguments: Any) -> Any:
            yield self.stage

        with mock.patch.object(engine, 'run', side_effect=commands.CloudError('no database')), \
                mock.patch.object(takeover, 'run', return_value=[0.5]), \
                mock.patch.object(process, 'stage', stage), \
                mock.patch.object(rack, '_WARM_UP', 0.0), \
                mock.patch.object(mix, 'run', return_value={
                    'scale.short_wait_p99_own_over_fifo': 0.05}), \
                mock.patch.object(rack, 'hear', side_effect=commands.CloudError('no beats')), \
                mock.patch.object(rack, 'fail', return_value={'scale.rack.threads': 60}):
            figures = rack.run(tell, False, 1, lambda some: kept.append(dict(some)))
        self.assertEqual(0.05, figures['scale.short_wait_p99_own_over_fifo'])
        self.assertEqual(0.5, figures['scale.takeover_s'])
        self.assertEqual(60, figures['scale.rack.threads'])
        self.assertEqual(figures, kept[-1])
        self.assertEqual(2, tell.say.call_count)
