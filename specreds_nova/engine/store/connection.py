# SPDX-License-Identifier: Apache-2.0
"""Connections to the database by the options of oslo.db, and transactions with retries."""

from collections.abc import Callable, Iterator
import contextlib
import threading
from typing import TypeVar
from urllib import parse

from oslo_config import cfg
from oslo_db import api
from oslo_db import exception as db_exception
from oslo_db import options
from oslo_db.sqlalchemy import engines
import sqlalchemy as sa
from sqlalchemy import exc as sa_exc

from specreds_nova.engine import exception
from specreds_nova.engine.store import kept

T = TypeVar('T')

# A database that hangs counts as unreachable: PyMySQL would wait for ever by default.
_TIMEOUTS = 'connect_timeout=5&read_timeout=20&write_timeout=20'
# The same for the rows of engines: other engines wait for as long before they judge a lease.
ROW_TIMEOUTS = 'connect_timeout=2&read_timeout=2&write_timeout=2'

# Options of [database] that are passed to SQLAlchemy.
_PASSED = ('mysql_sql_mode', 'mysql_wsrep_sync_wait', 'connection_recycle_time',
           'max_pool_size', 'max_overflow', 'pool_timeout', 'max_retries', 'retry_interval',
           'connection_debug', 'connection_trace', 'sqlite_synchronous')


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of oslo.db, group ``[database]``. May be repeated."""
    conf.register_opts(options.database_opts, 'database')


def connect(conf: cfg.ConfigOpts, timeouts: str = _TIMEOUTS) -> sa.Engine:
    """Return the engine of SQLAlchemy for the configured database.

    :param timeouts: parameters of a connection to MySQL, except those that the configuration has
    :raises exception.Invalid: the configuration names no database
    :raises exception.Unreachable: the database does not answer
    """
    register(conf)
    url = conf.database.connection
    if not url:
        raise exception.Invalid('the configuration names no database: set [database] connection')
    parameters = conf.database.connection_parameters
    if url.startswith('mysql'):
        known = parse.parse_qs(f'{parse.urlsplit(url).query}&{parameters}')
        parameters = '&'.join(filter(None, [parameters, *(
            timeout for timeout in timeouts.split('&')
            if timeout.partition('=')[0] not in known)]))
    passed = {name: conf.database[name] for name in _PASSED}
    with translated():
        # Only green threads have to yield when a connection is returned. Here each transaction
        # would wait for all other threads that have work.
        engine: sa.Engine = engines.create_engine(
            url, sqlite_fk=True, thread_checkin=False, connection_parameters=parameters, **passed)
    return engine


class Transactions:
    """Runs functions as transactions, and repeats them after deadlocks and lost connections.

    A transaction whose connection was lost may have been committed, so each function must be
    repeatable.

    :param tries: repetitions of a transaction before the database counts as unreachable
    """

    def __init__(self, engine: sa.Engine, tries: int = 4) -> None:
        self._connections = kept.Connections(engine)
        self._again = api.wrap_db_retry(
            max_retries=tries, retry_interval=0.05, max_retry_interval=1.0,
            retry_on_deadlock=True, retry_on_disconnect=True, jitter=True)
        # SQLite in memory has a single connection for all threads.
        single = isinstance(engine.pool, sa.StaticPool)
        self._turn: contextlib.AbstractContextManager[object] = (
            threading.Lock() if single else contextlib.nullcontext())

    def run(self, work: Callable[[sa.Connection], T]) -> T:
        """Run a function in a transaction.

        :raises exception.Unreachable: the database does not answer
        """
        def once() -> T:
            with self._turn, self._connections.get() as connection, connection.begin():
                return work(connection)

        with translated():
            result: T = self._again(once)()
        return result

    def close(self) -> None:
        """Close all connections that are not used; another transaction opens one again."""
        self._connections.close()


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Translate the errors of libraries for a database that does not answer.

    :raises exception.Unreachable: the database does not answer
    """
    try:
        yield
    except (db_exception.DBConnectionError, db_exception.DBDeadlock, db_exception.RetryRequest,
            sa_exc.OperationalError, sa_exc.TimeoutError) as exc:
        raise exception.Unreachable(f'the database does not answer: {exc}') from exc
    except db_exception.DBError as exc:
        if not isinstance(exc.inner_exception, sa_exc.OperationalError):
            raise
        raise exception.Unreachable(f'the database does not answer: {exc}') from exc
