# SPDX-License-Identifier: Apache-2.0
"""The check of the engine's times at its start."""

import pathlib
import subprocess
import sys
from typing import Any

import fixtures
from oslo_config import cfg
import testtools

from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import exception
from specreds_nova.engine import timing


class CheckTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger('specreds_nova.engine.timing'))

    def check(self, **options: Any) -> str:
        conf = cfg.ConfigOpts()
        engine_conf.register(conf)
        conf([], default_config_files=[])
        for name, value in options.items():
            conf.set_override(name, value, 'engine')
        timing.check(conf)
        return self.log.output

    def test_slack_of_each_condition_is_logged(self) -> None:
        lines = self.check().splitlines()
        self.assertEqual(len(timing.CONDITIONS), len(lines))
        self.assertIn(
            'timing: engine.abort_timeout >= engine.rpc_timeout holds with 20 s to spare', lines)
        self.assertTrue(all(line.endswith('s to spare') for line in lines), lines)

    def test_condition_that_costs_only_time_is_a_warning(self) -> None:
        log = self.check(abort_timeout=5.0, rpc_timeout=10.0)
        self.assertIn(
            'engine.abort_timeout >= engine.rpc_timeout does not hold, as 5 s are too few for '
            '10 s: Cinder drops a backup while its host may still be removing it; correct '
            '[engine] abort_timeout or [engine] rpc_timeout', log)

    def test_early_evacuation_without_a_fence_keeps_the_engine_from_starting(self) -> None:
        exc = self.assertRaises(exception.Invalid, self.check, evacuate_after=0.5,
                                evacuate_unfenced=True)
        for words in ('[engine] evacuate_after', '[engine] clear_beats', 'evacuate_unfenced',
                      'run twice'):
            self.assertIn(words, str(exc))

    def test_early_evacuation_with_a_fence_is_a_warning(self) -> None:
        self.assertIn('does not hold', self.check(evacuate_after=0.5))

    def test_times_on_the_bound_hold_only_where_they_may_be_equal(self) -> None:
        self.assertIn('ready_timeout_max >= engine.ready_timeout holds with 0 s',
                      self.check(ready_timeout=100, ready_timeout_max=100))
        self.assertIn('link_outage > engine.link_pause does not hold',
                      self.check(link_outage=0.3, link_pause=0.3))

    def test_engine_exits_with_the_sentence(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'engine.conf'
        path.write_text('[engine]\nevacuate_after = 0.5\nevacuate_unfenced = true\n')
        ended = subprocess.run(
            [sys.executable, '-W', 'ignore', '-m', 'specreds_nova.engine.main', '--config-file',
             str(path)], capture_output=True, text=True)
        self.assertEqual(1, ended.returncode)
        self.assertIn('specreds-engine: engine.evacuate_after > SILENCE', ended.stderr)
