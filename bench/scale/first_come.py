# SPDX-License-Identifier: Apache-2.0
"""The process of an engine that gives each failed host a queue: the baseline of ``mix``."""

from collections.abc import Iterable
import sys
from typing import Any
from unittest import mock

from bench import orders
from bench.scale import placed
from specreds_nova.engine.recovery import order
from specreds_nova.engine.recovery import policies


def main() -> Any:
    """Run the engine in the place of its own program."""
    with mock.patch.object(order, 'Order', orders.ByHost), \
            mock.patch.object(policies, 'ordered', _ordered):
        return placed.main()


def _ordered(waiting: Iterable[policies.Waiting], tenant_max: int, now: float
             ) -> list[policies.Waiting]:
    del now
    return orders.ByHost(1, tenant_max).ordered(waiting)


if __name__ == '__main__':
    sys.exit(main())
