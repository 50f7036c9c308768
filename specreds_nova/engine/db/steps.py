# SPDX-License-Identifier: Apache-2.0
"""The steps of recoveries in the database."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from specreds_nova.engine import model
from specreds_nova.engine.db import recoveries
from specreds_nova.engine.db import tables

_T = tables.STEPS
_SHOWN = (_T.c.name, _T.c.attempt, _T.c.engine, _T.c.began, _T.c.ended, _T.c.detail)

# Statements of each step of each recovery: to make them anew takes longer than to run them.
_READ = (sa.select(*_SHOWN).where(_T.c.recovery == sa.bindparam('the_recovery'))
         .order_by(_T.c.began, _T.c.id))
_LATEST = sa.select(sa.func.max(_T.c.attempt)).where(
    _T.c.recovery == sa.bindparam('the_recovery'), _T.c.name == sa.bindparam('the_name'))
_BEGIN = sa.insert(_T)
_END = (sa.update(_T).where(
    _T.c.recovery == sa.bindparam('the_recovery'), _T.c.name == sa.bindparam('the_name'),
    _T.c.attempt == sa.bindparam('the_attempt'), _T.c.ended.is_(None))
    .values(ended=sa.bindparam('at'), detail=sa.bindparam('told')))


def get(connection: sa.Connection, recovery_id: str) -> tuple[model.Step, ...]:
    """Return the steps of a recovery in the order in which they began."""
    rows = connection.execute(_READ, {'the_recovery': recovery_id})
    return tuple(model.Step(**row._mapping) for row in rows)


def following(recovery: model.Recovery, name: str) -> int:
    """Return the attempt that follows those that a recovery was read with."""
    return 1 + max((step.attempt for step in recovery.steps if step.name == name), default=0)


def begin(connection: sa.Connection, recovery: model.Recovery, name: str, attempt: int | None,
          now: float) -> int:
    """Record the begin of a step, and return its attempt.

    :param attempt: None for that which follows the recorded ones
    :raises exception.Superseded: the recovery has a newer epoch, or it has ended
    :raises DBDuplicateEntry: the attempt is recorded already
    """
    recoveries.hold(connection, recovery, ended=False, now=now)
    if attempt is None:
        before: int | None = connection.execute(
            _LATEST, {'the_recovery': recovery.id, 'the_name': name}).scalar_one()
        attempt = (before or 0) + 1
    connection.execute(_BEGIN, {
        'recovery': recovery.id, 'name': name, 'attempt': attempt,
        'engine': recovery.engine or '', 'began': now, 'detail': {}})
    return attempt


def end(connection: sa.Connection, recovery: model.Recovery, name: str, attempt: int,
        detail: Mapping[str, Any], now: float) -> None:
    """Record the end of a step, unless its end is recorded already.

    :raises exception.Superseded: the recovery has a newer epoch
    """
    recoveries.hold(connection, recovery, ended=True, now=now)
    connection.execute(_END, {
        'the_recovery': recovery.id, 'the_name': name, 'the_attempt': attempt, 'at': now,
        'told': dict(detail)})
