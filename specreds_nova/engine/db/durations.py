# SPDX-License-Identifier: Apache-2.0
"""The mean times until backups of servers are ready, in which recent samples count most.

They are read together with the servers' markers, as a recovery needs both.
"""

from collections.abc import Collection

import sqlalchemy as sa

from specreds_nova.engine import model
from specreds_nova.engine.db import tables
from specreds_nova.engine.db import upsert

# Weight of the newest sample in the mean.
WEIGHT = 0.3

_T = tables.DURATIONS
_MARKERS = tables.MARKERS


def get(connection: sa.Connection, servers: Collection[str]) -> dict[str, model.Expectation]:
    """Return the mean seconds and the markers of the known servers, by server."""
    rows = connection.execute(
        sa.select(_T.c.server, _T.c.seconds, _MARKERS.c.text)
        .outerjoin(_MARKERS, _MARKERS.c.server == _T.c.server)
        .where(_T.c.server.in_(servers)))
    return {row.server: model.Expectation(row.seconds, row.text) for row in rows}


def learn(connection: sa.Connection, server: str, seconds: float, now: float) -> None:
    """Add a sample to the mean of a server."""
    upsert.put(
        connection, _T, server, {'seconds': seconds, 'samples': 1, 'updated': now},
        {'seconds': _T.c.seconds + WEIGHT * (seconds - _T.c.seconds),
         'samples': _T.c.samples + 1, 'updated': now})
