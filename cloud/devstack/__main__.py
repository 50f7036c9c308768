# SPDX-License-Identifier: Apache-2.0
"""What `./run devstack` starts."""

import functools
import os
import sys

from cloud import commands
from cloud.devstack import cli


def main() -> int:
    """:return: the exit status: 1 for an error, 3 if `status` finds it down"""
    args = cli.parser(os.environ).parse_args()
    return commands.main(functools.partial(cli.run, args), 'the same command again continues')


if __name__ == '__main__':
    sys.exit(main())
