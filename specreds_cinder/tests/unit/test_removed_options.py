# SPDX-License-Identifier: Apache-2.0
"""Removed options in the configuration of a service."""

import pathlib

import fixtures
from oslo_config import cfg
import testtools

from specreds_cinder import removed_options


class RemovedTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger('specreds_cinder.removed_options'))
        self.path = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'service.conf'

    def warn(self, *lines: str) -> str:
        self.path.write_text('\n'.join(lines))
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[str(self.path)])
        removed_options.warn(conf, 'ours', [cfg.IntOpt('the-kept')])
        return self.log.output

    def test_removed_options_are_named_in_one_line(self) -> None:
        log = self.warn('[ours]', 'third = 1', 'the_kept = 1', 'first = x', '[others]',
                        'second = 1')
        self.assertEqual(1, len(log.splitlines()))
        self.assertIn('ignoring first, third in group [ours]', log)

    def test_configuration_without_removed_options_is_not_mentioned(self) -> None:
        self.assertEqual('', self.warn('[ours]', 'the-kept = 1', '[others]', 'second = 1'))

    def test_service_without_a_file_has_nothing_to_ignore(self) -> None:
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        removed_options.warn(conf, 'ours', ())
        self.assertEqual('', self.log.output)
