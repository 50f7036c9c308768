# SPDX-License-Identifier: Apache-2.0
"""Hosts in the database: a change succeeds only if the host is as it was read."""

from typing import Any

from oslo_db import exception as db_exception
import sqlalchemy as sa

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.db import tables

_T = tables.HOSTS
_CHANGEABLE = frozenset({'state', 'since', 'why', 'word', 'word_reason', 'flaps', 'goodbye',
                         'goodbye_at', 'maintenance', 'held'})


def get(connection: sa.Connection, name: str) -> model.Host | None:
    """Return a host; None if it is not recorded."""
    row = connection.execute(sa.select(_T).where(_T.c.name == name)).one_or_none()
    return _host(row) if row else None


def get_all(connection: sa.Connection) -> list[model.Host]:
    """Return all recorded hosts, by name."""
    return [_host(row) for row in connection.execute(sa.select(_T).order_by(_T.c.name))]


def get_spoken(connection: sa.Connection) -> list[model.Host]:
    """Return the hosts of which operators have said something."""
    return [_host(row) for row in connection.execute(
        sa.select(_T).where(_T.c.word.is_not(None)))]


def change(connection: sa.Connection, host: model.Host, values: dict[str, Any]
           ) -> model.Host | None:
    """Change a host; return None if it was changed since it was read.

    :raises exception.Invalid: a host has no such value
    """
    unknown = values.keys() - _CHANGEABLE
    if unknown:
        raise exception.Invalid(f'a host has no {", ".join(sorted(unknown))} to change')
    if 'why' in values:
        values['why'] = [dict(fact) for fact in values['why']]
    if 'held' in values:
        values['held'] = list(values['held'])
    generation = host.generation + 1
    if host.generation == 0:
        row = {'state': host.state, 'since': host.since, 'why': [dict(fact) for fact in host.why],
               'word': host.word, 'word_reason': host.word_reason, 'flaps': host.flaps,
               'goodbye': host.goodbye, 'goodbye_at': host.goodbye_at,
               'maintenance': host.maintenance, 'held': list(host.held)}
        try:
            with connection.begin_nested():
                connection.execute(sa.insert(_T).values(
                    name=host.name, generation=generation, **{**row, **values}))
        except db_exception.DBDuplicateEntry:
            return None
    else:
        changed = connection.execute(
            sa.update(_T).where(_T.c.name == host.name, _T.c.generation == host.generation)
            .values(generation=generation, **values))
        if changed.rowcount != 1:
            return None
    return get(connection, host.name)


def forget(connection: sa.Connection, name: str) -> bool:
    """Remove a host that is not fenced, and return whether it is gone."""
    connection.execute(sa.delete(_T).where(_T.c.name == name, _T.c.state != model.FENCED))
    return get(connection, name) is None


def _host(row: sa.Row[Any]) -> model.Host:
    values = dict(row._mapping)
    values['why'] = tuple(values['why'])
    values['held'] = tuple(values['held'] or ())
    return model.Host(**values)
