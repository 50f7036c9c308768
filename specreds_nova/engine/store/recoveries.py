# SPDX-License-Identifier: Apache-2.0
"""Recoveries in the database: one active recovery per server, changed by one engine at a time.

Each change is a single conditional UPDATE, which succeeds if its row count is 1. An engine that
takes over a recovery raises its epoch, so that all later changes of the former engine fail.
"""

from collections.abc import Collection, Mapping, Sequence
import dataclasses
import functools
from typing import Any

from oslo_db import exception as db_exception
import sqlalchemy as sa

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.store import tables

_T = tables.RECOVERIES
_ACTIVE = 1
_NAMES = tuple(column.name for column in _T.columns)
_COLUMNS = frozenset(_NAMES) - {'active', 'created', 'updated'}
_CHANGEABLE = frozenset({'state', 'priority', 'expected', 'destination', 'superposition',
                         'outcome', 'error', 'bytes', 'why'})
# Values that may have changed in the same epoch since a recovery was read. If they have not, the
# recovery need not be read again after a change. Numbers that are not whole may change on their
# way to the client, and no engine changes the expected time; the evidence is added to by the
# engine that has read it last.
_COMPARED = ('state', 'abort', 'destination', 'superposition', 'error', 'bytes')
# Thousands of recoveries are read again and again: their evidence alone takes longer than these.
_CLAIMED = tuple(_T.c[name] for name in (
    'id', 'server', 'server_name', 'project', 'host', 'suspected', 'epoch', 'engine', 'priority',
    'expected', 'created'))
_PLACE = tuple(_T.c[name] for name in model.BackupPlace._fields)

# Statements of each step of each recovery: to make them anew takes longer than to run them.
_READ = sa.select(_T).where(_T.c.id == sa.bindparam('the_recovery'))
_HOLD = sa.update(_T).where(
    _T.c.id == sa.bindparam('the_recovery'), _T.c.epoch == sa.bindparam('the_epoch'),
    _T.c.engine.is_not_distinct_from(sa.bindparam('the_engine'))).values(
    updated=sa.bindparam('now'))
_REFRESH = sa.select(_T.c.id, _T.c.epoch, _T.c.engine, _T.c.state, _T.c.abort).where(
    _T.c.id.in_(sa.bindparam('the_recoveries', expanding=True)))

# Outcomes that are impossible after the commit point.
_PRIMARY_LIVES = (model.PRIMARY, model.ABORTED)


def create(connection: sa.Connection, wanted: Sequence[model.Recovery], now: float) -> set[str]:
    """Record new recoveries, and return the ids of those that are recorded.

    A recovery is left out if its server has another active recovery.

    :raises exception.Invalid: a recovery has ended, and was not only observed
    """
    rows = [_new(recovery, now) for recovery in wanted]
    if _insert(connection, rows):
        return {recovery.id for recovery in wanted}
    # At least one of them cannot be recorded: they are tried one by one.
    return {recovery.id for recovery, row in zip(wanted, rows, strict=True)
            if _insert(connection, [row]) or _is_active(connection, recovery.id)}


def _new(recovery: model.Recovery, now: float) -> dict[str, Any]:
    ended = recovery.state == model.ENDED
    if ended and recovery.outcome != model.OBSERVED:
        raise exception.Invalid(f'recovery {recovery.id} cannot be created as {model.ENDED}')
    return {name: getattr(recovery, name) for name in _COLUMNS} | {
        'why': [dict(fact) for fact in recovery.why], 'active': None if ended else _ACTIVE,
        'created': recovery.created or now, 'updated': now}


def _insert(connection: sa.Connection, rows: list[dict[str, Any]]) -> bool:
    """Insert all rows; return False, and insert none, if one of them is a duplicate."""
    try:
        with connection.begin_nested():
            connection.execute(sa.insert(_T), rows)
    except db_exception.DBDuplicateEntry:
        return False
    return True


def _is_active(connection: sa.Connection, recovery_id: str) -> bool:
    recovery = get(connection, recovery_id)
    return recovery is not None and recovery.state != model.ENDED


def get(connection: sa.Connection, recovery_id: str) -> model.Recovery | None:
    """Return a recovery without its steps."""
    row = connection.execute(_READ, {'the_recovery': recovery_id}).one_or_none()
    return _recovery(row) if row else None


def active(connection: sa.Connection, host: str | None,
           servers: Collection[str] | None = None) -> list[model.Recovery]:
    """Return the recoveries that have not ended, the oldest first.

    :param servers: only recoveries of these servers; None for all servers
    """
    query = sa.select(_T).where(_T.c.active == _ACTIVE).order_by(_T.c.created, _T.c.id)
    if host is not None:
        query = query.where(_T.c.host == host)
    if servers is not None:
        query = query.where(_T.c.server.in_(servers))
    return [_recovery(row) for row in connection.execute(query)]


def backups(connection: sa.Connection, servers: Collection[str] | None = None
            ) -> list[model.BackupPlace]:
    """Return the recoveries that have a backup or are about to have one.

    :param servers: only recoveries of these servers; None for all servers
    """
    query = sa.select(*_PLACE).where(_T.c.active == _ACTIVE, _T.c.state.in_(model.WITH_BACKUP))
    if servers is not None:
        query = query.where(_T.c.server.in_(servers))
    return [model.BackupPlace(*row) for row in connection.execute(query)]


def states(connection: sa.Connection) -> dict[str, int]:
    """Return the number of recoveries that have not ended, by state."""
    rows = connection.execute(sa.select(_T.c.state, sa.func.count()).where(
        _T.c.active == _ACTIVE).group_by(_T.c.state))
    return dict(rows.tuples().all())


def page(connection: sa.Connection, filters: dict[str, str], limit: int | None,
         marker: str | None) -> list[model.Recovery]:
    """Return the recoveries that meet all filters, the newest first.

    :param filters: values by column
    :param marker: id of the recovery after which to begin
    :raises exception.Invalid: no recovery has the id of the marker
    """
    query = sa.select(_T).where(*(_T.c[name] == value for name, value in filters.items()))
    if marker is not None:
        known = connection.execute(
            sa.select(_T.c.id).where(_T.c.id == marker)).one_or_none()
        if known is None:
            raise exception.Invalid(
                f'marker {marker} is not the id of a recovery: begin with the first page')
        # The comparison is made in the database: a float may change on its way to the client.
        at = sa.select(_T.c.created).where(_T.c.id == marker).scalar_subquery()
        query = query.where(sa.or_(_T.c.created < at,
                                   sa.and_(_T.c.created == at, _T.c.id < marker)))
    query = query.order_by(_T.c.created.desc(), _T.c.id.desc()).limit(limit)
    return [_recovery(row) for row in connection.execute(query)]


def free(connection: sa.Connection, ended: Collection[str]) -> list[model.Recovery]:
    """Return the active recoveries on which no living engine works, the oldest first.

    They have only what their order and a claim need.

    :param ended: engines whose leases are over; those without a row need not be among them
    """
    left = sa.or_(_T.c.engine.is_(None), _T.c.engine.in_(ended),
                  _T.c.engine.not_in(sa.select(tables.ENGINES.c.engine)))
    query = sa.select(*_CLAIMED).where(_T.c.active == _ACTIVE, left).order_by(
        _T.c.created, _T.c.id)
    return [model.Recovery(**row._mapping) for row in connection.execute(query)]


def take_over(connection: sa.Connection, recovery: model.Recovery, engine: str, now: float
              ) -> model.Recovery:
    """Claim a recovery for an engine in a new epoch, if it is still in the epoch that was read.

    :raises exception.Superseded: another engine has claimed the recovery, or it has ended
    """
    claimed = connection.execute(
        sa.update(_T).where(_T.c.id == recovery.id, _T.c.active == _ACTIVE,
                            _T.c.engine.is_not_distinct_from(recovery.engine),
                            _T.c.epoch == recovery.epoch)
        .values(epoch=_T.c.epoch + 1, engine=engine, updated=now))
    current = get(connection, recovery.id)
    if claimed.rowcount != 1 or current is None:
        raise _lost(recovery, current)
    return current


def change(connection: sa.Connection, recovery: model.Recovery, values: Mapping[str, Any],
           now: float) -> model.Recovery:
    """Change a recovery in its newest epoch. An end may be repeated with the same values.

    :raises exception.Superseded: another engine has taken over the recovery
    :raises exception.Ended: the recovery has ended with other values
    :raises exception.Invalid: the recovery is past the commit point, or has no such value
    """
    if (known := change_known(connection, recovery, values, now)) is not None:
        return known
    values = _checked(recovery, values)
    new = _new_values(values, now)
    changed = connection.execute(
        _change(frozenset(new), before_commit=_primary_lives(values)),
        _parameters(recovery, new)).rowcount
    current = get(connection, recovery.id)
    if changed == 1 and current is not None:
        return current
    if current is not None and _claim(current) == _claim(recovery):
        if current.state != model.ENDED:
            raise exception.Invalid(
                f'recovery {recovery.id} is {current.state}, past the commit point: it cannot '
                f'become {values["state"]} {values.get("outcome") or ""}'.rstrip())
        if values.get('state') == model.ENDED == current.state and all(
                _row(current)[name] == value for name, value in values.items()):
            return current
    raise _lost(recovery, current)


def change_known(connection: sa.Connection, recovery: model.Recovery, values: Mapping[str, Any],
                 now: float) -> model.Recovery | None:
    """Change a recovery if it is as it was read; otherwise change nothing, and return None.

    :raises exception.Invalid: a recovery has no such value
    """
    values = _checked(recovery, values)
    if _primary_lives(values) and recovery.state not in model.BEFORE_COMMIT:
        return None
    new = _new_values(values, now)
    known = {f'known_{name}': getattr(recovery, name) for name in _COMPARED}
    changed = connection.execute(
        _change_known(frozenset(new)), _parameters(recovery, new) | known).rowcount
    return _changed(recovery, new) if changed == 1 else None


def _new_values(values: Mapping[str, Any], now: float) -> dict[str, Any]:
    ending = {'active': None, 'ended': now} if values.get('state') == model.ENDED else {}
    return {'updated': now, **values, **ending}


def _primary_lives(values: Mapping[str, Any]) -> bool:
    """Return whether new values are impossible after the commit point."""
    return (values.get('state') in model.BEFORE_COMMIT
            or values.get('outcome') in _PRIMARY_LIVES)


def _parameters(recovery: model.Recovery, new: Mapping[str, Any]) -> dict[str, Any]:
    return {'the_recovery': recovery.id, 'the_epoch': recovery.epoch,
            'the_engine': recovery.engine,
            **{f'new_{name}': value for name, value in new.items()}}


@functools.cache
def _change(names: frozenset[str], *, before_commit: bool) -> sa.Update:
    """Return the statement that changes an active recovery in an epoch.

    :param names: names of the values that change
    :param before_commit: only before the commit point
    """
    statement = sa.update(_T).where(
        _T.c.id == sa.bindparam('the_recovery'), _T.c.epoch == sa.bindparam('the_epoch'),
        _T.c.engine.is_not_distinct_from(sa.bindparam('the_engine')), _T.c.active == _ACTIVE)
    if before_commit:
        statement = statement.where(_T.c.state.in_(model.BEFORE_COMMIT))
    return statement.values({name: sa.bindparam(f'new_{name}') for name in sorted(names)})


@functools.cache
def _change_known(names: frozenset[str]) -> sa.Update:
    """Return the statement that changes an active recovery if it is as it was read.

    :param names: names of the values that change
    """
    return _change(names, before_commit=False).where(
        *(_T.c[name].is_not_distinct_from(sa.bindparam(f'known_{name}')) for name in _COMPARED))


def _changed(recovery: model.Recovery, new: Mapping[str, Any]) -> model.Recovery:
    """Return a recovery with new values, as the database returns it."""
    shown = {name: value for name, value in new.items() if name != 'active'}
    if 'why' in shown:
        shown['why'] = tuple(shown['why'])
    return dataclasses.replace(recovery, **shown, steps=())


def hold(connection: sa.Connection, recovery: model.Recovery, now: float) -> model.Recovery:
    """Lock a recovery, which may have ended, until the transaction ends, and return it.

    :raises exception.Superseded: another engine has taken over the recovery
    """
    held = connection.execute(_HOLD, {
        'the_recovery': recovery.id, 'the_epoch': recovery.epoch, 'the_engine': recovery.engine,
        'now': now})
    if held.rowcount != 1:
        raise _lost(recovery, get(connection, recovery.id))
    return recovery


def refresh(connection: sa.Connection, known: Sequence[model.Recovery]
            ) -> list[model.Recovery | Exception]:
    """Return recoveries with what others may have changed: in one epoch, whether to abort them.

    :returns: for each the recovery, or an error: ``Superseded`` if another engine has taken it
        over, ``Ended`` if it has ended
    """
    rows = {row.id: row for row in connection.execute(
        _REFRESH, {'the_recoveries': [recovery.id for recovery in known]})}
    return [_refreshed(recovery, rows.get(recovery.id)) for recovery in known]


def _refreshed(recovery: model.Recovery, row: Any) -> model.Recovery | Exception:
    if row is None or row.state == model.ENDED:
        return exception.Ended(f'recovery {recovery.id} has ended')
    if (row.epoch, row.engine) != _claim(recovery):
        return _superseded(recovery, row.epoch, row.engine)
    return recovery if row.abort == recovery.abort else dataclasses.replace(
        recovery, abort=row.abort)


def revoked(connection: sa.Connection, engine: str) -> set[str]:
    """Return the recoveries that race, and are to be aborted or belong to other engines."""
    return set(connection.execute(sa.select(_T.c.id).where(
        _T.c.active == _ACTIVE, _T.c.state == model.RACING,
        _T.c.abort.is_not(None) | (_T.c.engine != engine))).scalars())


def request_abort(connection: sa.Connection, recovery_id: str, why: str, now: float) -> bool:
    """Record the abort of a recovery; return False if the recovery is past the commit point.

    :param why: who wants the recovery to end; of several requests, the first one is kept
    """
    changed = connection.execute(
        sa.update(_T).where(_T.c.id == recovery_id, _T.c.state.in_(model.BEFORE_COMMIT))
        .values(abort=sa.func.coalesce(_T.c.abort, why), updated=now))
    return bool(changed.rowcount == 1)


def end_observed(connection: sa.Connection, host: str, now: float) -> None:
    """Record that a host is back whose recoveries were only observed."""
    connection.execute(
        sa.update(_T).where(_T.c.host == host, _T.c.outcome == model.OBSERVED,
                            _T.c.ended.is_(None))
        .values(ended=now, updated=now))


def note_room(connection: sa.Connection, recovery_id: str, destination: str | None,
              error: str | None) -> None:
    """Record where the backup of an observed recovery would have been, or why nowhere."""
    connection.execute(
        sa.update(_T).where(_T.c.id == recovery_id, _T.c.outcome == model.OBSERVED)
        .values(destination=destination, error=error))


def prune(connection: sa.Connection, before: float, limit: int) -> int:
    """Remove some recoveries that ended before a time; return how many."""
    # The hosts of some that were observed never returned.
    old = (_T.c.ended < before) | ((_T.c.outcome == model.OBSERVED) & (_T.c.created < before))
    ids = list(connection.execute(
        sa.select(_T.c.id).where(old).order_by(_T.c.created).limit(limit)).scalars())
    if not ids:
        return 0
    connection.execute(sa.delete(tables.STEPS).where(tables.STEPS.c.recovery.in_(ids)))
    return int(connection.execute(sa.delete(_T).where(_T.c.id.in_(ids))).rowcount)


def _checked(recovery: model.Recovery, values: Mapping[str, Any]) -> Mapping[str, Any]:
    unknown = values.keys() - _CHANGEABLE
    if unknown:
        raise exception.Invalid(f'a recovery has no {", ".join(sorted(unknown))} to change')
    if values.get('state', recovery.state) not in model.STATES:
        raise exception.Invalid(f'there is no state {values["state"]} of a recovery')
    if (values.get('state') == model.ENDED) != (values.get('outcome') in model.OUTCOMES):
        raise exception.Invalid(
            f'recovery {recovery.id} has to have an outcome exactly when it ends: '
            f'state {values.get("state")}, outcome {values.get("outcome")}')
    if 'why' in values:
        return {**values, 'why': [dict(fact) for fact in values['why']]}
    return values


def _lost(recovery: model.Recovery, stored: model.Recovery | None) -> exception.Superseded:
    if stored is None:
        return exception.Ended(f'recovery {recovery.id} has ended, and was removed')
    if _claim(stored) != _claim(recovery):
        return _superseded(recovery, stored.epoch, stored.engine)
    return exception.Ended(f'recovery {recovery.id} has ended: {stored.outcome}')


def _superseded(recovery: model.Recovery, epoch: int, engine: str | None
                ) -> exception.Superseded:
    return exception.Superseded(
        f'recovery {recovery.id} is at epoch {epoch}, of engine {engine}: '
        f'epoch {recovery.epoch} of engine {recovery.engine} cannot change it')


def _claim(recovery: model.Recovery) -> tuple[int, str | None]:
    """Return what a change depends on: a database that has lost commits counts epochs twice."""
    return recovery.epoch, recovery.engine


def _row(recovery: model.Recovery) -> dict[str, Any]:
    return {**vars(recovery), 'why': [dict(fact) for fact in recovery.why]}


def _recovery(row: sa.Row[Any]) -> model.Recovery:
    values = dict(zip(_NAMES, row, strict=True))
    del values['active']
    values['why'] = tuple(values['why'])
    return model.Recovery(**values)
