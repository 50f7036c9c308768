# SPDX-License-Identifier: Apache-2.0
"""The order in which servers are recovered: no project waits for all servers of another one.

Servers with a priority from an operator come first. The others take turns by project: the first
server of each project, then the second of each. A tenant's priorities order its own servers, and
put those with a negative one behind all others.
"""

import collections
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from specreds_nova.engine import model

_T = TypeVar('_T')

PRIORITY = 'specreds:priority'
_LARGEST = 1000


def priority(server: model.Server, tenant_max: int) -> int:
    """Return the priority in a server's flavor, or else in its metadata; 0 by default.

    :param tenant_max: limit of the priority in metadata, which tenants write
    """
    by_flavor = _number((server.flavor.get('extra_specs') or {}).get(PRIORITY))
    if by_flavor is not None:
        return by_flavor
    return min(_number(server.metadata.get(PRIORITY)) or 0, tenant_max)


def level(priority_: int, tenant_max: int) -> int:
    """Return a priority as it counts among projects: what tenants can give counts as 0 at most."""
    return priority_ if priority_ > tenant_max else min(priority_, 0)


def ordered(wanted: Iterable[_T], priority_of: Callable[[_T], int],
            project_of: Callable[[_T], str], rest: Callable[[_T], Any],
            tenant_max: int) -> list[_T]:
    """Return the items in the order of their turns.

    :param rest: sort key among the items of one project that have the same priority
    """
    turns: collections.Counter[tuple[int, str]] = collections.Counter()
    keys = []
    for item in sorted(wanted, key=lambda item: (-priority_of(item), rest(item))):
        item_level = level(priority_of(item), tenant_max)
        turns[item_level, project_of(item)] += 1
        keys.append(((-item_level, turns[item_level, project_of(item)], rest(item)), item))
    return [item for _, item in sorted(keys, key=lambda pair: pair[0])]


def _number(text: str | None) -> int | None:
    try:
        return None if text is None else max(-_LARGEST, min(_LARGEST, int(text)))
    except ValueError:
        return None
