# SPDX-License-Identifier: Apache-2.0
"""Run simulations: ``python -m testing.simulation``."""

import importlib
import sys

from testing import environment

if __name__ == '__main__':
    # The libraries of OpenStack choose eventlet if they are imported before this.
    environment.prepare()
    sys.exit(importlib.import_module('testing.simulation.cli').main())
