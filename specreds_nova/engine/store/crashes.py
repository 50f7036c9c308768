# SPDX-License-Identifier: Apache-2.0
"""Crashes that have to wait, in the database: one row for each server and host."""

from typing import Any

from oslo_db import exception as db_exception
import sqlalchemy as sa

from specreds_nova.engine import model
from specreds_nova.engine.store import tables

_T = tables.CRASHES


def keep(connection: sa.Connection, crash: model.Crash) -> None:
    """Record a crash, unless a later one of the server on the host is recorded."""
    same = sa.and_(_T.c.server == crash.server, _T.c.host == crash.host)
    values = {'heard': crash.heard, 'why': [dict(fact) for fact in crash.why]}
    if connection.execute(sa.select(_T.c.heard).where(same)).first() is None:
        try:
            with connection.begin_nested():
                connection.execute(sa.insert(_T).values(
                    server=crash.server, host=crash.host, **values))
            return
        except db_exception.DBDuplicateEntry:
            # Another engine has recorded it at the same moment.
            pass
    connection.execute(sa.update(_T).where(same, _T.c.heard < crash.heard).values(**values))


def get_all(connection: sa.Connection) -> list[model.Crash]:
    """Return all crashes, the oldest first."""
    return [_crash(row) for row in connection.execute(
        sa.select(_T).order_by(_T.c.heard, _T.c.server))]


def drop(connection: sa.Connection, crash: model.Crash) -> None:
    """Remove a crash, unless a later one of the server on the host is recorded."""
    connection.execute(sa.delete(_T).where(
        _T.c.server == crash.server, _T.c.host == crash.host, _T.c.heard <= crash.heard))


def _crash(row: sa.Row[Any]) -> model.Crash:
    return model.Crash(row.host, row.server, tuple(row.why), row.heard)
