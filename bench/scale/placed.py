# SPDX-License-Identifier: Apache-2.0
"""The process of an engine in a cloud without Nova's scheduler, where Placement chooses."""

import sys
from unittest import mock

from specreds_nova.engine import main as engine
from specreds_nova.engine.clients import connect


def main() -> int:
    """Run the engine in the place of its own program."""
    with mock.patch.object(connect, 'SCHEDULER_S', 0.0):
        return engine.main()


if __name__ == '__main__':
    sys.exit(main())
