# SPDX-License-Identifier: Apache-2.0
"""The markers of servers: what their consoles showed at the end of their last boots.

A marker belongs to one server. Servers of the same kind may have other images, whose boots go on
after the same text.
"""

from collections.abc import Collection

from oslo_db import exception as db_exception
import sqlalchemy as sa

from specreds_nova.engine import model
from specreds_nova.engine.db import tables

_T = tables.MARKERS


def get_all(connection: sa.Connection) -> list[model.Marker]:
    """Return all markers, by server."""
    return [model.Marker(row.server, row.text, row.updated)
            for row in connection.execute(sa.select(_T).order_by(_T.c.server))]


def learn(connection: sa.Connection, server: str, text: str, now: float) -> None:
    """Replace the marker of a server."""
    if _update(connection, server, text, now):
        return
    try:
        with connection.begin_nested():
            connection.execute(sa.insert(_T).values(server=server, text=text, updated=now))
    except db_exception.DBDuplicateEntry:
        _update(connection, server, text, now)


def forget(connection: sa.Connection, servers: Collection[str]) -> int:
    """Remove the markers of servers; return how many."""
    return int(connection.execute(sa.delete(_T).where(_T.c.server.in_(servers))).rowcount)


def prune(connection: sa.Connection, before: float) -> int:
    """Remove the markers that were learned before a time; return how many."""
    return int(connection.execute(sa.delete(_T).where(_T.c.updated < before)).rowcount)


def _update(connection: sa.Connection, server: str, text: str, now: float) -> bool:
    changed = connection.execute(
        sa.update(_T).where(_T.c.server == server).values(text=text, updated=now))
    return bool(changed.rowcount)
