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

    def test_defaults_are_not_warned_of(self) -> None:
        self.assertEqual('', self.check())

    def test_early_evacuation_without_a_fence_keeps_the_engine_from_starting(self) -> None:
        exc = self.assertRaises(exception.Invalid, self.check, evacuate_after=0.5,
                                evacuate_unfenced=True)
        for words in ('[engine] evacuate_after', 'evacuate_unfenced', 'run twice'):
            self.assertIn(words, str(exc))

    def test_early_evacuation_with_a_fence_is_a_warning(self) -> None:
        self.assertIn('has to exceed 1.36 s', self.check(evacuate_after=0.5))

    def test_removed_options_are_named_at_the_start(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'engine.conf'
        path.write_text('[DEFAULT]\nuse_stderr = true\n'
                        '[engine]\nlink_pause = 9\nevacuate_after = 0.5\n'
                        'evacuate_unfenced = true\n')
        ended = subprocess.run(
            [sys.executable, '-W', 'ignore', '-m', 'specreds_nova.engine.main', '--config-file',
             str(path)], capture_output=True, text=True)
        self.assertIn('ignoring link_pause in group [engine]', ended.stderr)

    def test_engine_exits_with_the_sentence(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'engine.conf'
        path.write_text('[engine]\nevacuate_after = 0.5\nevacuate_unfenced = true\n')
        ended = subprocess.run(
            [sys.executable, '-W', 'ignore', '-m', 'specreds_nova.engine.main', '--config-file',
             str(path)], capture_output=True, text=True)
        self.assertEqual(1, ended.returncode)
        self.assertIn('specreds-engine: [engine] evacuate_after', ended.stderr)
