# SPDX-License-Identifier: Apache-2.0
"""Run the benchmarks: ``python -m bench``."""

import sys

from bench import options

if __name__ == '__main__':
    args = options.parser().parse_args()
    # The benchmarks import Nova and Cinder, which takes seconds.
    from bench import cli
    sys.exit(cli.main(args))
