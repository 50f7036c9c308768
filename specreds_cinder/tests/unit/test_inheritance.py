# SPDX-License-Identifier: Apache-2.0
"""No class inherits to share helpers: errors and drivers of Cinder alone have more levels."""

import pathlib
import subprocess

import testtools

import specreds_cinder

_TOOL = pathlib.Path(specreds_cinder.__file__).parent.parent / 'tools/count-inheritance'
_MOST = 2
_ERRORS = ('SuperError', 'SuperpositionError')


class InheritanceTest(testtools.TestCase):

    def test_chains_are_short(self) -> None:
        printed = subprocess.run([_TOOL, '--above', str(_MOST), 'specreds_cinder'],
                                 capture_output=True, text=True, check=True).stdout
        chains = [line.split(' < ') for line in printed.splitlines() if ' < ' in line]
        self.assertEqual([], [chain for chain in chains if chain[-1] not in _ERRORS])
