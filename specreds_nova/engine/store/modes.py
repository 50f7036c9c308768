# SPDX-License-Identifier: Apache-2.0
"""The modes that operators have set, in the database."""

from typing import Any

from oslo_db import exception as db_exception
import sqlalchemy as sa

from specreds_nova.engine import model
from specreds_nova.engine.store import tables

_T = tables.MODES


def get_all(connection: sa.Connection) -> list[model.Mode]:
    """Return all modes, by scope and name; those that have ended are among them."""
    return [_mode(row) for row in connection.execute(
        sa.select(_T).order_by(_T.c.scope, _T.c.name, _T.c.lasts))]


def put(connection: sa.Connection, mode: model.Mode) -> None:
    """Record a mode. A mode that lasts replaces each other one of its scope and name.

    :raises RetryRequest: another transaction has just recorded one: this one is repeated
    """
    lasts = mode.until is None
    old = sa.delete(_T).where(_T.c.scope == mode.scope, _T.c.name == mode.name)
    connection.execute(old if lasts else old.where(_T.c.lasts.is_(False)))
    try:
        connection.execute(sa.insert(_T).values(lasts=lasts, **vars(mode)))
    except db_exception.DBDuplicateEntry as exc:
        raise db_exception.RetryRequest(exc) from exc


def remove(connection: sa.Connection, scope: str, name: str) -> bool:
    """Remove the modes of a scope and name; return whether there was one."""
    return connection.execute(sa.delete(_T).where(
        _T.c.scope == scope, _T.c.name == name)).rowcount > 0


def _mode(row: sa.Row[Any]) -> model.Mode:
    return model.Mode(row.scope, row.name, row.mode, row.reason, row.user, row.since, row.until)
