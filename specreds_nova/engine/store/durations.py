# SPDX-License-Identifier: Apache-2.0
"""The mean times until backups of servers are ready, in which recent samples count most.
"""

from collections.abc import Collection, Mapping, Sequence

from oslo_db import exception as db_exception
import sqlalchemy as sa

from specreds_nova.engine.store import tables

# Weight of the newest sample in the mean.
WEIGHT = 0.3

_T = tables.DURATIONS
_IN_ONE_QUERY = 500
_CHANGE = sa.update(_T).where(_T.c.server == sa.bindparam('the_server')).values(
    seconds=_T.c.seconds * sa.bindparam('kept') + sa.bindparam('added'),
    samples=_T.c.samples + sa.bindparam('more'), updated=sa.bindparam('now'))


def get(connection: sa.Connection, servers: Collection[str]) -> dict[str, float]:
    """Return the mean seconds of the known servers, by server."""
    rows = connection.execute(
        sa.select(_T.c.server, _T.c.seconds).where(_T.c.server.in_(servers)))
    return {row.server: row.seconds for row in rows}


def learn(connection: sa.Connection, samples: Mapping[str, Sequence[float]], now: float) -> None:
    """Add samples to the means of servers, in the order in which they were taken.

    :raises RetryRequest: another transaction has just inserted a row: this one is repeated, and
        changes it
    """
    # Two engines lock rows in the same order.
    servers = sorted(samples)
    known: set[str] = set()
    for first in range(0, len(servers), _IN_ONE_QUERY):
        known.update(connection.execute(sa.select(_T.c.server).where(
            _T.c.server.in_(servers[first:first + _IN_ONE_QUERY]))).scalars())
    changed, new = [], []
    for server in servers:
        values = samples[server]
        if server in known:
            changed.append({'the_server': server, 'kept': (1 - WEIGHT) ** len(values),
                            'added': _mean(0.0, values), 'more': len(values), 'now': now})
        else:
            new.append({'server': server, 'seconds': _mean(values[0], values[1:]),
                        'samples': len(values), 'updated': now})
    if changed:
        connection.execute(_CHANGE, changed)
    if new:
        try:
            connection.execute(sa.insert(_T), new)
        except db_exception.DBDuplicateEntry as exc:
            raise db_exception.RetryRequest(exc) from exc


def _mean(mean: float, samples: Sequence[float]) -> float:
    """Return a mean to which samples are added."""
    for seconds in samples:
        mean += WEIGHT * (seconds - mean)
    return mean
