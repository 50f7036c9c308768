# SPDX-License-Identifier: Apache-2.0
"""In which order servers are recovered: nobody's servers wait for all of somebody else's.

What an operator gave a priority comes first. All else takes turns by project: the first server of
each, then the second of each. What a tenant says of its own servers orders those among themselves,
and puts them behind all others if it is negative.
"""

import collections
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from specreds_nova.engine import model

_T = TypeVar('_T')

PRIORITY = 'specreds:priority'
_LARGEST = 1000


def priority(server: model.Server, tenant_max: int) -> int:
    """Return a server's priority; 0 unless its flavor, or else its metadata, say otherwise.

    :param tenant_max: the highest that metadata can give, which tenants write
    """
    by_flavor = _number((server.flavor.get('extra_specs') or {}).get(PRIORITY))
    if by_flavor is not None:
        return by_flavor
    return min(_number(server.metadata.get(PRIORITY)) or 0, tenant_max)


def level(priority_: int, tenant_max: int) -> int:
    """Return what a priority counts among all projects: what tenants can give is 0 at most."""
    return priority_ if priority_ > tenant_max else min(priority_, 0)


def ordered(wanted: Iterable[_T], priority_of: Callable[[_T], int],
            project_of: Callable[[_T], str], rest: Callable[[_T], Any],
            tenant_max: int) -> list[_T]:
    """Return them in the order in which they get their turns.

    :param rest: the order of those of one project that have the same priority
    """
    turns: collections.Counter[tuple[int, str]] = collections.Counter()
    keys = []
    for one in sorted(wanted, key=lambda one: (-priority_of(one), rest(one))):
        its = level(priority_of(one), tenant_max)
        turns[its, project_of(one)] += 1
        keys.append(((-its, turns[its, project_of(one)], rest(one)), one))
    return [one for _, one in sorted(keys, key=lambda pair: pair[0])]


def _number(told: str | None) -> int | None:
    try:
        return None if told is None else max(-_LARGEST, min(_LARGEST, int(told)))
    except ValueError:
        return None
