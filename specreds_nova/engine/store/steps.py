# SPDX-License-Identifier: Apache-2.0
"""The steps of recoveries in the database."""

from collections.abc import Sequence
import dataclasses

import sqlalchemy as sa

from specreds_nova.engine import model
from specreds_nova.engine.store import tables

_T = tables.STEPS
_SHOWN = (_T.c.name, _T.c.attempt, _T.c.engine, _T.c.began, _T.c.ended, _T.c.detail)

# Statements of each step of each recovery: to make them anew takes longer than to run them.
_READ = (sa.select(*_SHOWN).where(_T.c.recovery == sa.bindparam('the_recovery'))
         .order_by(_T.c.id))
_LATEST = sa.select(sa.func.max(_T.c.attempt)).where(
    _T.c.recovery == sa.bindparam('the_recovery'), _T.c.name == sa.bindparam('the_name'))
_SAME = sa.select(_T.c.id).where(
    _T.c.recovery == sa.bindparam('the_recovery'), _T.c.name == sa.bindparam('the_name'),
    _T.c.attempt == sa.bindparam('the_attempt'), _T.c.engine == sa.bindparam('the_engine'),
    _T.c.began == sa.bindparam('the_begin'))
_BEGIN = sa.insert(_T)
_END = (sa.update(_T).where(
    _T.c.recovery == sa.bindparam('the_recovery'), _T.c.name == sa.bindparam('the_name'),
    _T.c.attempt == sa.bindparam('the_attempt'), _T.c.ended.is_(None))
    .values(ended=sa.bindparam('at'), detail=sa.bindparam('told')))


def get(connection: sa.Connection, recovery_id: str) -> tuple[model.Step, ...]:
    """Return the steps of a recovery in the order in which they were recorded.

    Their times are by the clocks of several engines, which may differ or be set.
    """
    rows = connection.execute(_READ, {'the_recovery': recovery_id})
    return tuple(model.Step(**row._mapping) for row in rows)


def begin(connection: sa.Connection, recovery: str, begun: Sequence[model.Step], *, anew: bool
          ) -> tuple[model.Step, ...]:
    """Record steps, and return them with their attempts.

    :param anew: a step may be recorded already, or its attempt by another step
    :raises DBDuplicateEntry: unless ``anew``, the attempt of a step is recorded already
    """
    if not anew:
        insert(connection, [(recovery, step) for step in begun])
        return tuple(begun)
    stored = []
    for step in begun:
        if not _is_recorded(connection, recovery, step):
            step = dataclasses.replace(step, attempt=_following(connection, recovery, step.name))
            insert(connection, [(recovery, step)])
        stored.append(step)
    return tuple(stored)


def insert(connection: sa.Connection, begun: Sequence[tuple[str, model.Step]]) -> None:
    """Record steps.

    :param begun: the id of the recovery of each step, and the step
    :raises DBDuplicateEntry: the attempt of a step is recorded already
    """
    if begun:
        connection.execute(_BEGIN, [{
            'recovery': recovery, 'name': step.name, 'attempt': step.attempt,
            'engine': step.engine, 'began': step.began, 'ended': step.ended,
            'detail': dict(step.detail)} for recovery, step in begun])


def end(connection: sa.Connection, ended: Sequence[tuple[str, model.Step]]) -> None:
    """Record the ends of steps, unless their ends are recorded already.

    :param ended: the id of the recovery of each step, and the step
    """
    if ended:
        connection.execute(_END, [{
            'the_recovery': recovery, 'the_name': step.name, 'the_attempt': step.attempt,
            'at': step.ended, 'told': dict(step.detail)} for recovery, step in ended])


def _following(connection: sa.Connection, recovery: str, name: str) -> int:
    latest: int | None = connection.execute(
        _LATEST, {'the_recovery': recovery, 'the_name': name}).scalar_one()
    return (latest or 0) + 1


def _is_recorded(connection: sa.Connection, recovery: str, step: model.Step) -> bool:
    """Return whether a step is recorded: a commit whose answer was lost has succeeded."""
    return connection.execute(_SAME, {
        'the_recovery': recovery, 'the_name': step.name, 'the_attempt': step.attempt,
        'the_engine': step.engine, 'the_begin': step.began}).first() is not None
