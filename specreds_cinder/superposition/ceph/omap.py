# SPDX-License-Identifier: Apache-2.0
"""All entries of an object's omap, which Ceph returns in pages."""

from collections.abc import Iterator
from typing import Any

import rados

# The most entries that are read at a time.
_BATCH = 1000


def pages(io: Any, name: str, prefix: str = '') -> Iterator[dict[str, bytes]]:
    """Yield the pages of an object's omap in the order of the keys; none if there is no object.

    The version of the object at a page is what ``io.get_last_version`` returns meanwhile.

    :param prefix: only of keys that begin with this
    """
    after = ''
    while True:
        with rados.ReadOpCtx() as op:
            entries, _status = io.get_omap_vals(op, after, prefix, _BATCH)
            try:
                io.operate_read_op(op, name)
            except rados.ObjectNotFound:
                return
            # The entries end with the operation.
            page: dict[str, bytes] = dict(entries)
        yield page
        if len(page) < _BATCH:
            return
        after = max(page)
