# SPDX-License-Identifier: Apache-2.0
"""The benchmark of generated simulations."""

import testtools

from bench import report
from bench import simulation


class SimulationTest(testtools.TestCase):
    """A few seeds."""

    def test_seeds_are_played_and_counted(self) -> None:
        figures = simulation.run(quick=True, seeds=2)
        self.assertEqual((2.0, 0.0), (figures['simulate.seeds'], figures['simulate.failed']))
        self.assertGreater(figures['simulate.seeds_per_s'], 0.0)
        self.assertIn('simulate.failed', {bar.key for bar in report.BARS})
