# SPDX-License-Identifier: Apache-2.0
"""How the database is reached: by oslo.db's options, with patience that has an end."""

from collections.abc import Callable, Iterator
import contextlib
import threading
from typing import TypeVar

from oslo_config import cfg
from oslo_db import api
from oslo_db import exception as db_exception
from oslo_db import options
from oslo_db.sqlalchemy import engines
import sqlalchemy as sa
from sqlalchemy import exc

from specreds_nova.engine import exception

T = TypeVar('T')

# A database that hangs is one that does not answer: PyMySQL alone would wait for ever.
_MYSQL_TIMEOUTS = 'connect_timeout=5&read_timeout=20&write_timeout=20'

# Options of [database] that go on to SQLAlchemy.
_PASSED = ('mysql_sql_mode', 'mysql_wsrep_sync_wait', 'connection_recycle_time',
           'max_pool_size', 'max_overflow', 'pool_timeout', 'max_retries', 'retry_interval',
           'connection_debug', 'connection_trace', 'sqlite_synchronous')


def register(conf: cfg.ConfigOpts) -> None:
    """Make oslo.db's options known, group ``[database]``. May be repeated."""
    conf.register_opts(options.database_opts, 'database')


def connect(conf: cfg.ConfigOpts) -> sa.Engine:
    """Give connections to the database of the configuration.

    :raises exception.Invalid: the configuration names none
    :raises exception.Unreachable: it does not answer
    """
    register(conf)
    url = conf.database.connection
    if not url:
        raise exception.Invalid('the configuration names no database: set [database] connection')
    parameters = conf.database.connection_parameters
    if not parameters and url.startswith('mysql'):
        parameters = _MYSQL_TIMEOUTS
    passed = {name: conf.database[name] for name in _PASSED}
    with translated():
        engine: sa.Engine = engines.create_engine(
            url, sqlite_fk=True, connection_parameters=parameters, **passed)
    return engine


class Transactions:
    """Runs functions, each as one transaction, which is tried again after a deadlock.

    After a lost connection, too: nobody knows then whether it was done, so each must bear to be
    done twice.

    :param tries: how often a transaction is tried again before the database counts as unreachable
    """

    def __init__(self, engine: sa.Engine, tries: int = 4) -> None:
        self._engine = engine
        self._again = api.wrap_db_retry(
            max_retries=tries, retry_interval=0.05, max_retry_interval=1.0,
            retry_on_deadlock=True, retry_on_disconnect=True, jitter=True)
        # SQLite in memory is a single connection, for all threads.
        single = isinstance(engine.pool, sa.StaticPool)
        self._turn: contextlib.AbstractContextManager[object] = (
            threading.Lock() if single else contextlib.nullcontext())

    def run(self, work: Callable[[sa.Connection], T]) -> T:
        """Run a function in a transaction.

        :raises exception.Unreachable: the database does not answer
        """
        def once() -> T:
            with self._turn, self._engine.begin() as connection:
                return work(connection)

        with translated():
            result: T = self._again(once)()
        return result


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Let a database that does not answer be that, whatever its library calls it.

    :raises exception.Unreachable: it does not
    """
    try:
        yield
    except (db_exception.DBConnectionError, db_exception.DBDeadlock, db_exception.RetryRequest,
            exc.TimeoutError) as error:
        raise exception.Unreachable(f'the database does not answer: {error}') from error
    except db_exception.DBError as error:
        if not isinstance(error.inner_exception, exc.OperationalError):
            raise
        raise exception.Unreachable(f'the database does not answer: {error}') from error
