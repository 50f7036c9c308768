# SPDX-License-Identifier: Apache-2.0
"""The markers of servers: what their consoles showed at the end of their last boots.

A marker belongs to one server. Servers of the same kind may have other images, whose boots go on
after the same text.
"""

from collections.abc import Collection

import sqlalchemy as sa

from specreds_nova.engine import model
from specreds_nova.engine.db import tables
from specreds_nova.engine.db import upsert

_T = tables.MARKERS


def get_all(connection: sa.Connection) -> list[model.Marker]:
    """Return all markers, by server."""
    return [model.Marker(row.server, row.text, row.updated)
            for row in connection.execute(sa.select(_T).order_by(_T.c.server))]


def learn(connection: sa.Connection, server: str, text: str, now: float) -> None:
    """Replace the marker of a server."""
    values = {'text': text, 'updated': now}
    upsert.put(connection, _T, server, values, values)


def forget(connection: sa.Connection, servers: Collection[str]) -> int:
    """Remove the markers of servers; return how many."""
    return int(connection.execute(sa.delete(_T).where(_T.c.server.in_(servers))).rowcount)


def prune(connection: sa.Connection, before: float) -> int:
    """Remove the markers that were learned before a time; return how many."""
    return int(connection.execute(sa.delete(_T).where(_T.c.updated < before)).rowcount)
