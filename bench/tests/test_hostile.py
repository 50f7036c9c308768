# SPDX-License-Identifier: Apache-2.0
"""The benchmark of hostile metadata."""

import fixtures
import testtools

from bench import hostile
from bench import report
from testing import hostile_metadata


class HostileTest(testtools.TestCase):
    """A few values."""

    def test_each_value_is_read_and_counted(self) -> None:
        values = ['console:(a+)+$', 'console:(', 'delay:1', '']
        self.useFixture(fixtures.MockPatchObject(
            hostile_metadata, 'each', lambda act: [act(value) for value in values]))
        figures = hostile.run()
        self.assertEqual(4.0, figures['hook.hostile_values'])
        bars = {bar.key for bar in report.BARS}
        self.assertIn('hook.hostile_late_share', bars & figures.keys())
