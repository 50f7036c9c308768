# SPDX-License-Identifier: Apache-2.0
"""Lists that an API returns page by page."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Item = dict[str, Any]


def items(ask: Callable[[Mapping[str, Any]], tuple[Sequence[Item], bool]],
          filters: Mapping[str, Any], limit: int | None, marker: str | None, *,
          key: str = 'id') -> Iterator[Item]:
    """Yield the items of all pages.

    :param ask: returns the page for a query, and whether another page follows
    :param filters: names and values of the API's query
    :param limit: the most to yield
    :param marker: yield those after the one with this key
    :param key: the field by which the API orders its pages
    """
    left = limit
    while left is None or left > 0:
        query = dict(filters)
        if left is not None:
            query['limit'] = left
        if marker is not None:
            query['marker'] = marker
        page, more = ask(query)
        yield from page[:left]
        if not page or not more:
            return
        marker = page[-1][key]
        left = None if left is None else left - len(page)
