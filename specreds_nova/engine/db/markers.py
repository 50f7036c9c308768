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
    """Replace the marker of a server.

    The row is read before it is changed. An UPDATE without a row locks the gap that the row
    belongs in, and transactions that insert into each other's gap are rolled back.

    :raises RetryRequest: another transaction has just inserted the row: this one is repeated
    """
    same, values = _T.c.server == server, {'text': text, 'updated': now}
    if connection.execute(sa.select(_T.c.server).where(same)).first() is not None:
        connection.execute(sa.update(_T).where(same).values(**values))
        return
    try:
        connection.execute(sa.insert(_T).values(server=server, **values))
    except db_exception.DBDuplicateEntry as exc:
        raise db_exception.RetryRequest(exc) from exc


def forget(connection: sa.Connection, servers: Collection[str]) -> int:
    """Remove the markers of servers; return how many."""
    return int(connection.execute(sa.delete(_T).where(_T.c.server.in_(servers))).rowcount)


def prune(connection: sa.Connection, before: float) -> int:
    """Remove the markers that were learned before a time; return how many."""
    return int(connection.execute(sa.delete(_T).where(_T.c.updated < before)).rowcount)
