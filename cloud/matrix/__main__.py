# SPDX-License-Identifier: Apache-2.0
"""What `./run matrix` starts."""

import os
import sys
import time

from cloud import commands
from cloud.matrix import cli


def main() -> int:
    """:return: the exit status"""
    args = cli.parser(os.environ.get('SPECREDS_DATA', '.data')).parse_args()
    start = time.monotonic()

    def progress(line: str) -> None:
        print(f'[{time.monotonic() - start:6.1f} s] {line}', flush=True)

    try:
        return cli.run(args, progress)
    except commands.CloudError as exc:
        print(f'error: {exc}', file=sys.stderr)
    except KeyboardInterrupt:
        print('error: interrupted; what ran in the root has ended', file=sys.stderr)
    return 1


if __name__ == '__main__':
    sys.exit(main())
