# SPDX-License-Identifier: Apache-2.0
"""Orders of recoveries with which the engine's own is compared."""

import collections
from collections.abc import Callable, Iterable

from specreds_nova.engine import model
from specreds_nova.engine.placing import order

# Failed hosts in turn; one queue, in the order of arrival; and the engine's own.
FIFO, CFCFS, OWN = ORDERS = ('fifo', 'cfcfs', 'own')

Order = Callable[[Iterable[model.Recovery], int, float], list[model.Recovery]]


def by_host(waiting: Iterable[model.Recovery], tenant_max: int, now: float
            ) -> list[model.Recovery]:
    """Return recoveries in the order of arrival, one of each failed host in turn."""
    turns = collections.Counter[str]()
    keys = []
    for place, recovery in enumerate(by_arrival(waiting, tenant_max, now)):
        turns[recovery.host] += 1
        keys.append((turns[recovery.host], place, recovery))
    return [recovery for _, _, recovery in sorted(keys, key=lambda key: key[:2])]


def by_arrival(waiting: Iterable[model.Recovery], tenant_max: int, now: float
               ) -> list[model.Recovery]:
    """Return recoveries in the order of arrival."""
    del tenant_max, now
    return sorted(waiting, key=lambda entry: (entry.created, entry.server_name, entry.id))


OF: dict[str, Order] = {FIFO: by_host, CFCFS: by_arrival, OWN: order.ordered}
