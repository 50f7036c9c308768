# SPDX-License-Identifier: Apache-2.0
"""Rows of servers that are changed if they exist, and inserted if they do not."""

from collections.abc import Mapping
from typing import Any

from oslo_db import exception as db_exception
import sqlalchemy as sa


def put(connection: sa.Connection, table: sa.Table, server: str, inserted: Mapping[str, Any],
        changed: Mapping[str, Any]) -> None:
    """Insert the row of a server, or change it.

    The row is read before it is changed. An UPDATE without a row locks the gap that the row
    belongs in, and transactions that insert into each other's gap are rolled back.

    :param inserted: the values of a new row
    :param changed: the values, or expressions of them, that replace those of an existing row
    :raises RetryRequest: another transaction has just inserted the row: this one is repeated, and
        changes it
    """
    known = connection.execute(
        sa.select(table.c.server).where(table.c.server == server)).one_or_none()
    if known is not None:
        connection.execute(sa.update(table).where(table.c.server == server).values(**changed))
        return
    try:
        connection.execute(sa.insert(table).values(server=server, **inserted))
    except db_exception.DBDuplicateEntry as exc:
        raise db_exception.RetryRequest(exc) from exc
