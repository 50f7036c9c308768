# SPDX-License-Identifier: Apache-2.0
"""Run the benchmarks: ``python -m bench``."""

import sys

from bench import cli

if __name__ == '__main__':
    sys.exit(cli.main())
