# SPDX-License-Identifier: Apache-2.0
"""What `./run matrix` starts."""

import functools
import os
import sys

from cloud import commands
from cloud.matrix import cli


def main() -> int:
    """:return: the exit status"""
    args = cli.parser(os.environ.get('SPECREDS_DATA', '.data')).parse_args()
    return commands.main(functools.partial(cli.run, args), 'what ran in the root has ended')


if __name__ == '__main__':
    sys.exit(main())
