# SPDX-License-Identifier: Apache-2.0
"""Connections that threads keep between two transactions.

A transaction is a few small statements. To take a connection from the pool, ask the database
whether it is alive, and roll back what was committed when it is returned, takes a quarter of the
processor time of a transaction. A thread that has just used a connection uses it again instead.
"""

from collections.abc import Iterator
import contextlib
import os
import threading
import time
import weakref

import sqlalchemy as sa

# Seconds between two transactions for which a thread keeps its connection, and for which it keeps
# it in all, so that the pool replaces connections that are old.
_IDLE, _LONGEST = 1.0, 60.0


class _Kept(threading.local):
    """The connection that a thread keeps.

    :ivar since: time at which it was taken from the pool
    :ivar used: time of the end of its last transaction
    :ivar process: id of the process that has used it
    """

    connection: sa.Connection | None = None
    since = used = float('-inf')
    process = 0


class Connections:
    """The connections of all threads. Half of the pool is always left for threads without one.

    :param engine: its pool has connections for several threads, or none are kept
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._kept = _Kept()
        pool = engine.pool
        self._most = pool.size() // 2 if isinstance(pool, sa.QueuePool) else 0
        # Those that are kept; the connection of a thread that has ended leaves the set by itself.
        self._all: weakref.WeakSet[sa.Connection] = weakref.WeakSet()

    @contextlib.contextmanager
    def get(self) -> Iterator[sa.Connection]:
        """Yield a connection to the calling thread, which is kept if nothing fails."""
        connection = self._take()
        try:
            yield connection
        except BaseException:
            self._close(connection)
            raise
        self._keep(connection)

    def close(self) -> None:
        """Close the connections that no thread uses, as long as the database is there.

        The garbage collector would roll each of them back later, and log an error for each if the
        database has ended before.
        """
        for connection in list(self._all):
            if not connection.in_transaction():
                self._close(connection)
        self._engine.dispose()

    def _take(self) -> sa.Connection:
        kept, now = self._kept, time.monotonic()
        connection, kept.connection = kept.connection, None
        if connection is not None:
            if (now - kept.used < _IDLE and now - kept.since < _LONGEST
                    and kept.process == os.getpid()):
                return connection
            if not self._lives(connection):
                connection.invalidate()
            self._close(connection)
        kept.since = now
        return self._engine.connect()

    def _keep(self, connection: sa.Connection) -> None:
        if connection not in self._all:
            if len(self._all) >= self._most:
                connection.close()
                return
            self._all.add(connection)
        kept = self._kept
        kept.connection, kept.used, kept.process = connection, time.monotonic(), os.getpid()

    def _close(self, connection: sa.Connection) -> None:
        """Return a connection to the pool, which replaces it if it is lost."""
        self._all.discard(connection)
        connection.close()

    def _lives(self, connection: sa.Connection) -> bool:
        """Return whether the database answers on a connection of this process."""
        if self._kept.process != os.getpid():
            # The process from which this one was forked still uses it.
            return False
        dbapi_connection = connection.connection.dbapi_connection
        try:
            return dbapi_connection is not None and self._engine.dialect.do_ping(dbapi_connection)
        except Exception:
            return False
