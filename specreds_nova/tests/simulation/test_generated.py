# SPDX-License-Identifier: Apache-2.0
"""Generated simulations: the first seeds of ``./run simulate``."""

from collections.abc import Sequence
import multiprocessing
import os
import sys
import tempfile
from unittest import mock

import ddt
import testtools

from testing.simulation import cli
from testing.simulation import mutations

# Seeds, and the largest number of them that one test plays.
_SEEDS = int(os.environ.get('SPECREDS_SEEDS', '1000'))
_EACH = min(_SEEDS, 125)
# Further seeds that have found defects of the engine or of the simulated cloud.
_MENDED = (1880, 1946, 1965, 2790, 3255, 3347, 3523, 3960, 4090, 5014, 5500, 5764, 6387, 6736,
           7572, 11416, 12812, 16287, 18791, 20435, 25950, 26269, 37322, 38077, 39173, 44744,
           67533, 91762, 103078)


# Forks the processes that simulate: to start one takes longer than most seeds.
_PROCESSES = multiprocessing.get_context('forkserver')
_PROCESSES.set_forkserver_preload(['testing.simulation.cli'])


def _simulate(*arguments: str) -> tuple[int, str]:
    """Return exit status and output of a simulation.

    It has a process of its own, as the order of sets is part of what a seed determines.
    """
    with tempfile.NamedTemporaryFile() as output, \
            mock.patch.dict(os.environ, {'PYTHONHASHSEED': '0'}):
        process = _PROCESSES.Process(target=_run, args=(output.name, arguments))
        process.start()
        process.join()
        assert process.exitcode is not None
        return process.exitcode, output.read().decode(errors='replace')


def _run(output: str, arguments: Sequence[str]) -> None:
    """Run the command line in this process, and end it."""
    with open(output, 'wb') as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    sys.argv = ['simulate', '--jobs', '1', *arguments]
    sys.exit(cli.main())


@ddt.ddt
class GeneratedTest(testtools.TestCase):
    """Simulations of generated schedules of faults."""

    @ddt.data(*range(0, _SEEDS, _EACH))
    def test_all_is_well_after_all_faults(self, first: int) -> None:
        status, output = _simulate('--from', str(first), '--seeds', str(_EACH))
        self.assertEqual(0, status, output)
        self.assertIn(f'{_EACH} seeds in', output)

    @ddt.data(*_MENDED)
    def test_defect_stays_mended(self, seed: int) -> None:
        status, output = _simulate('--seed', str(seed))
        self.assertEqual(0, status, output)

    @ddt.idata(sorted(mutations.MUTATIONS))
    def test_safety_step_that_is_taken_out_is_missed(self, name: str) -> None:
        seed = str(mutations.MUTATIONS[name].seed)
        status, output = _simulate('--seed', seed, '--mutation', name)
        self.assertEqual(1, status, output)
        self.assertIn('WRONG: ', output)
        mix = mutations.MUTATIONS[name].mix
        if int(seed) >= _SEEDS or mix:
            status, output = _simulate('--seed', seed, *(['--mix', ','.join(mix)] if mix else []))
            self.assertEqual(0, status, output)
