# SPDX-License-Identifier: Apache-2.0
"""The engines in the database: one row for each engine, which only that engine writes.

The row holds the vote of the engine and the counter of its lease: see
:mod:`specreds_nova.engine.suspicion.votes`.
"""

from typing import Any

from oslo_db import exception as db_exception
import sqlalchemy as sa

from specreds_nova.engine import model
from specreds_nova.engine.store import tables

_T = tables.ENGINES


def cast(connection: sa.Connection, vote: model.Vote) -> None:
    """Replace the vote of an engine, and raise its counter, to the vote's counter at least.

    Other engines do not believe a counter that is lower than before, such as in a restored table.
    """
    higher = _T.c.counter + 1
    values = {'deaf': vote.deaf, 'silent': {host: vote.ages.get(host) for host in vote.silent},
              'heard': {host: None if servers is None else list(servers)
                        for host, servers in vote.heard.items()},
              'expected': list(vote.expected)}
    changed = connection.execute(
        sa.update(_T).where(_T.c.engine == vote.engine)
        .values(counter=sa.case((higher > vote.counter, higher), else_=vote.counter), **values))
    if changed.rowcount == 1:
        return
    try:
        with connection.begin_nested():
            connection.execute(sa.insert(_T).values(
                engine=vote.engine, counter=max(1, vote.counter), **values))
    except db_exception.DBDuplicateEntry:
        # Two processes have the same name: the next vote replaces the other one's.
        return


def get_all(connection: sa.Connection) -> list[model.Vote]:
    """Return the votes of all engines, by name."""
    return [_vote(row) for row in connection.execute(sa.select(_T).order_by(_T.c.engine))]


def withdraw(connection: sa.Connection, vote: model.Vote) -> None:
    """Remove the row of an engine, unless the engine has voted since."""
    connection.execute(
        sa.delete(_T).where(_T.c.engine == vote.engine, _T.c.counter == vote.counter))


def _vote(row: sa.Row[Any]) -> model.Vote:
    heard = {host: None if servers is None else tuple(servers)
             for host, servers in row.heard.items()}
    ages = {host: age for host, age in row.silent.items() if age is not None}
    return model.Vote(row.engine, bool(row.deaf), tuple(sorted(row.silent)), heard,
                      tuple(row.expected), row.counter, ages)
