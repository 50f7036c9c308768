# SPDX-License-Identifier: Apache-2.0
"""What `./run devstack` starts."""

import os
import sys
import time

from cloud import commands
from cloud.devstack import cli


def main() -> int:
    """:return: the exit status: 1 for an error, 3 if `status` finds it down"""
    args = cli.parser(os.environ).parse_args()
    start = time.monotonic()

    def progress(line: str) -> None:
        # One write a line: several threads report.
        sys.stdout.write(f'[{time.monotonic() - start:6.1f} s] {line}\n')
        sys.stdout.flush()

    try:
        return cli.run(args, progress)
    except commands.CloudError as exc:
        print(f'error: {exc}', file=sys.stderr)
    except KeyboardInterrupt:
        print('error: interrupted; the same command again continues', file=sys.stderr)
    return 1


if __name__ == '__main__':
    sys.exit(main())
