# SPDX-License-Identifier: Apache-2.0
"""Measure how many generated simulations are played in a second, and how many fail.

Each simulates a whole cloud in which everything fails. The seeds are as in ``./run simulate``,
in a process of their own, because the order of sets is part of what a seed determines.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from bench import options

NAME = options.SIMULATE
_SEEDS, _QUICK_SEEDS = 2000, 200


class SimulationFailed(RuntimeError):
    """The simulation has ended without figures."""


def run(quick: bool, seeds: int | None = None) -> dict[str, float]:
    """Play the first seeds, and return the figures for the JSON.

    :raises SimulationFailed: the simulation has ended without figures
    """
    count = seeds or (_QUICK_SEEDS if quick else _SEEDS)
    with tempfile.TemporaryDirectory(prefix=NAME) as scratch:
        path = pathlib.Path(scratch) / 'figures.json'
        ran = subprocess.run(
            [sys.executable, '-W', 'ignore', '-m', 'testing.simulation', '--seeds', str(count),
             '--most', str(count), '--json', str(path)],
            env=os.environ | {'PYTHONHASHSEED': '0'}, check=False)
        if not path.exists():
            raise SimulationFailed(f'./run simulate has ended with status {ran.returncode}')
        figures: dict[str, float] = json.loads(path.read_text())
    return {f'{NAME}.{name}': value for name, value in figures.items()}
