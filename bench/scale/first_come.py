# SPDX-License-Identifier: Apache-2.0
"""The process of an engine that serves failed hosts in turn: the baseline of ``mix``."""

import sys
from typing import Any
from unittest import mock

from bench import orders
from bench.scale import placed
from specreds_nova.engine.placing import order


def main() -> Any:
    """Run the engine in the place of its own program."""
    with mock.patch.object(order, 'ordered', orders.by_host):
        return placed.main()


if __name__ == '__main__':
    sys.exit(main())
