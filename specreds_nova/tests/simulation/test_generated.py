# SPDX-License-Identifier: Apache-2.0
"""Generated simulations: the first seeds of ``./run simulate``."""

import os
import subprocess
import sys

import ddt
import testtools

# Seeds, and how many of them one test plays.
_SEEDS, _EACH = 1000, 125


@ddt.ddt
class GeneratedTest(testtools.TestCase):
    """No schedule of faults breaks an invariant."""

    @ddt.data(*range(0, _SEEDS, _EACH))
    def test_all_is_well_after_all_faults(self, first: int) -> None:
        # A process of its own, as the order of sets is part of what a seed determines.
        ran = subprocess.run(
            [sys.executable, '-W', 'ignore', '-m', 'testing.simulation', '--jobs', '1',
             '--from', str(first), '--seeds', str(_EACH)],
            env=os.environ | {'PYTHONHASHSEED': '0'}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(0, ran.returncode, ran.stdout)
        self.assertIn(f'{_EACH} seeds in', ran.stdout)
