# SPDX-License-Identifier: Apache-2.0
"""Run the demo: ``python -m cloud.demo``."""

import sys

from cloud.demo import cli

if __name__ == '__main__':
    sys.exit(cli.main())
