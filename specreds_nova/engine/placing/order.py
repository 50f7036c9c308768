# SPDX-License-Identifier: Apache-2.0
"""The order in which servers are recovered: no project waits for all servers of another one.

Servers with a priority from an operator come first. The others take turns by project: the first
server of each project, then the second of each. A tenant's priorities order its own servers, and
put those with a negative one behind all others.
"""

import collections
from collections.abc import Iterable
import math

from specreds_nova import protected
from specreds_nova.engine import model

# Shortest wait in seconds after which a recovery counts as aged.
PATIENCE = 60.0
# Expected seconds of a recovery whose time is unknown, for its age.
_UNKNOWN = 300.0
# Priority of servers that did not run.
LAST = -protected.HIGHEST


def priority(server: model.Server, tenant_max: int) -> int:
    """Return the priority by a server's rules; 0 by default.

    :param tenant_max: limit of the priority in the server's metadata, which tenants write
    """
    rule = server.rules.get(protected.PRIORITY)
    if rule is None:
        return 0
    return int(min(rule.value, tenant_max) if rule.by_tenant else rule.value)


def ordered(recoveries: Iterable[model.Recovery], tenant_max: int, now: float
            ) -> list[model.Recovery]:
    """Return recoveries in the order in which they get slots.

    In a project, priorities of tenants come first, then aged recoveries by arrival, then the
    shortest ones. An unknown time is longer than any known one.

    :param tenant_max: highest priority that tenants can give
    :param now: in seconds since the epoch
    """
    def place(recovery: model.Recovery) -> tuple[float | str, ...]:
        since, expected = recovery.created, recovery.expected
        aged = now - since >= max(PATIENCE, _UNKNOWN if expected is None else expected)
        rest = since, recovery.server_name, recovery.id
        return (0, *rest) if aged else (1, math.inf if expected is None else expected, *rest)

    turns: collections.Counter[tuple[int, str]] = collections.Counter()
    keys = []
    for key, recovery in sorted(
            (((-recovery.priority, *place(recovery)), recovery) for recovery in recoveries),
            key=lambda pair: pair[0]):
        # What tenants can give counts among projects as 0 at most.
        level = recovery.priority if recovery.priority > tenant_max else min(recovery.priority, 0)
        turns[level, recovery.project] += 1
        keys.append(((-level, turns[level, recovery.project], *key[1:]), recovery))
    return [recovery for _, recovery in sorted(keys, key=lambda pair: pair[0])]
