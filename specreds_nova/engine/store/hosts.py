# SPDX-License-Identifier: Apache-2.0
"""Hosts in the database: a change succeeds only if the host is as it was read."""

from collections.abc import Collection, Mapping
from typing import Any

from oslo_db import exception as db_exception
import sqlalchemy as sa

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.store import tables

_T = tables.HOSTS
# Characters of a value in JSON that tell whether it is empty.
_JSON = 5
_CHANGEABLE = frozenset({'state', 'since', 'why', 'word', 'word_reason', 'flaps', 'goodbye',
                         'goodbye_at', 'held', 'kernel', 'sentinel', 'shows', 'dead_at',
                         'voices'})
_NAMES = tuple(column.name for column in _T.columns)

# Each step of each recovery reads a host: to make the statement anew takes longer than to run it.
_READ = sa.select(_T).where(_T.c.name == sa.bindparam('the_host'))


def get(connection: sa.Connection, name: str) -> model.Host | None:
    """Return a host; None if it is not recorded."""
    row = connection.execute(_READ, {'the_host': name}).one_or_none()
    return _host(row) if row else None


def get_all(connection: sa.Connection) -> list[model.Host]:
    """Return all recorded hosts, by name."""
    return [_host(row) for row in connection.execute(sa.select(_T).order_by(_T.c.name))]


def get_notable(connection: sa.Connection) -> list[model.Host]:
    """Return the notable hosts, by name: few of the hosts of a large cloud."""
    held = sa.cast(_T.c.held, sa.String(_JSON)).not_in(('[]', 'null'))
    rows = connection.execute(sa.select(_T).order_by(_T.c.name).where(
        (_T.c.state != model.TRUSTED) | _T.c.word.is_not(None) | (_T.c.flaps != 0) | held))
    return [host for host in map(_host, rows) if host.notable]


def count(connection: sa.Connection) -> int:
    """Return the number of recorded hosts."""
    return int(connection.execute(sa.select(sa.func.count()).select_from(_T)).scalar_one())


def sentinels(connection: sa.Connection) -> dict[str | None, int]:
    """Return the number of hosts by the state of their sentinels; None for unknown."""
    rows = connection.execute(sa.select(_T.c.sentinel, sa.func.count()).group_by(_T.c.sentinel))
    return {state: int(number) for state, number in rows}


def voices(connection: sa.Connection) -> dict[str | None, int]:
    """Return the number of hosts by the voices that are heard; None for unknown."""
    heard = _T.c.silent_since.is_(None)
    rows = connection.execute(
        sa.select(_T.c.voices, sa.func.count()).where(heard).group_by(_T.c.voices))
    counts: dict[str | None, int] = {state: int(number) for state, number in rows}
    silent = connection.execute(sa.select(sa.func.count()).select_from(_T).where(~heard))
    return counts | {model.SILENT: int(silent.scalar_one())}


def silent(connection: sa.Connection) -> frozenset[str]:
    """Return the hosts that are recorded as silent."""
    rows = connection.execute(sa.select(_T.c.name).where(_T.c.silent_since.is_not(None)))
    return frozenset(name for (name,) in rows)


def silence(connection: sa.Connection, since: Mapping[str, float | None]) -> None:
    """Record since when hosts are silent, which only operators read; None for heard hosts."""
    for name, at in since.items():
        connection.execute(sa.update(_T).where(_T.c.name == name).values(silent_since=at))


def showing(connection: sa.Connection) -> dict[str, int]:
    """Return the generation of each host that may hide no server."""
    rows = connection.execute(sa.select(_T.c.name, _T.c.generation).where(_T.c.shows))
    return {name: int(generation) for name, generation in rows}


def show(connection: sa.Connection, names: Collection[str]) -> None:
    """Record for hosts, if they are trusted, that they may hide no server."""
    connection.execute(
        sa.update(_T).where(_T.c.name.in_(names), _T.c.state == model.TRUSTED)
        .values(shows=True, generation=_T.c.generation + 1))


def record(connection: sa.Connection, kernels: Mapping[str, str]) -> list[str]:
    """Record hosts that are not recorded, and boots of hosts that have none.

    :param kernels: the boot of each host; empty if it does not report that
    :returns: names that have to be recorded one by one, as another engine has recorded some
    """
    known = {row.name: row.kernel for row in connection.execute(
        sa.select(_T.c.name, _T.c.kernel).where(_T.c.name.in_(kernels)))}
    for name, kernel in known.items():
        if kernel is None and kernels[name]:
            connection.execute(sa.update(_T).where(_T.c.name == name, _T.c.kernel.is_(None))
                               .values(kernel=kernels[name], generation=_T.c.generation + 1))
    new = [name for name in kernels if name not in known]
    if not new:
        return []
    try:
        with connection.begin_nested():
            connection.execute(sa.insert(_T), [
                {'name': name, 'generation': 1,
                 **_row(model.Host(name, kernel=kernels[name] or None))} for name in new])
    except db_exception.DBDuplicateEntry:
        return new
    return []


def _row(host: model.Host) -> dict[str, Any]:
    """Return the changeable values of a host for the database."""
    return {name: getattr(host, name) for name in _CHANGEABLE} | {
        'why': [dict(fact) for fact in host.why], 'held': list(host.held)}


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
        try:
            with connection.begin_nested():
                connection.execute(sa.insert(_T).values(
                    name=host.name, generation=generation, **{**_row(host), **values}))
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
    values = dict(zip(_NAMES, row, strict=True))
    values['why'] = tuple(values['why'])
    values['held'] = tuple(values['held'] or ())
    values['shows'] = bool(values['shows'])
    return model.Host(**values)
