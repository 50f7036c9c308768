# SPDX-License-Identifier: Apache-2.0
"""A database that does not answer, for a moment or longer."""

from typing import Any
from unittest import mock

import ddt
from oslo_config import cfg
from oslo_db import exception as db_exception
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy import exc
import testtools

from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.store import connection
from specreds_nova.engine.store import migration
from specreds_nova.engine.store import store
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine.store import base


@ddt.ddt
class TroubleTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        conf = cfg.ConfigOpts()
        connection.register(conf)
        conf([], default_config_files=[])
        conf.set_override('connection', 'sqlite://', 'database')
        engine = connection.connect(conf)
        migration.sync(engine)
        self.store = store.Store(engine, clocks.Clock().now)
        self.troubles: list[Exception] = []
        self.committed = False
        # Reads of durations that do not see what another engine has just added.
        self.reads = 0
        event.listen(engine, 'before_cursor_execute', self._before)
        event.listen(engine, 'before_cursor_execute', self._outdated, retval=True)
        event.listen(engine, 'commit', self._commit)

    def _before(self, *_args: Any) -> None:
        if self.troubles and not self.committed:
            raise self.troubles.pop()

    def _outdated(self, _connection: Any, _cursor: Any, statement: str, parameters: Any,
                  *_args: Any) -> tuple[str, Any]:
        if self.reads and statement.startswith('SELECT durations.server'):
            self.reads -= 1
            return f'{statement} AND 1 = 0', parameters
        return statement, parameters

    def _commit(self, connected: sa.Connection) -> None:
        if self.troubles and self.committed:
            # The commit is done, and the client does not learn of it.
            connected.connection.commit()
            raise self.troubles.pop()

    @ddt.data(db_exception.DBConnectionError('no'), db_exception.DBDeadlock('no'))
    def test_short_outage_is_bridged(self, trouble: Exception) -> None:
        self.troubles = [trouble, trouble]
        self.assertEqual(model.Host('node1', generation=1, since=1000.0),
                         self.store.see('node1'))
        self.assertEqual([], self.troubles)

    @ddt.data(db_exception.DBConnectionError('no'), db_exception.DBDeadlock('no'),
              db_exception.DBError(exc.OperationalError('', None, Exception('no'))),
              # oslo.db raises most of them as they are.
              exc.OperationalError('', None, Exception('the server is read-only')))
    def test_long_outage_raises_unreachable(self, trouble: Exception) -> None:
        self.troubles = [trouble] * 100
        self.assertRaises(exception.Unreachable, self.store.hosts)

    def test_database_that_takes_no_writes_is_unreachable(self) -> None:
        self.store._transactions.run(
            lambda connected: connected.execute(sa.text('PRAGMA query_only = ON')))
        self.assertRaises(exception.Unreachable, self.store.see, 'node1')
        self.assertEqual([], self.store.hosts())

    def test_programming_error_is_not_retried(self) -> None:
        self.troubles = [db_exception.DBError(ValueError('no'))]
        self.assertRaises(db_exception.DBError, self.store.hosts)

    def test_server_that_another_engine_adds_meanwhile_keeps_both_samples(self) -> None:
        self.store.learn('vm1', 10.0)
        self.store.flush()
        self.reads = 1
        self.store.learn('vm1', 20.0)
        self.assertEqual(13.0, self.store.expected(['vm1'])['vm1'])

    def test_samples_outlast_a_database_that_does_not_answer(self) -> None:
        self.store.learn('vm1', 10.0)
        self.troubles = [db_exception.DBConnectionError('no')] * 100
        self.assertRaises(exception.Unreachable, self.store.flush)
        self.store.learn('vm1', 20.0)
        self.troubles = []
        self.assertAlmostEqual(13.0, self.store.expected(['vm1'])['vm1'])

    def test_returned_connection_is_not_awaited_by_other_threads(self) -> None:
        with mock.patch('time.sleep') as sleep:
            self.store.hosts()
        sleep.assert_not_called()

    def test_commit_without_an_answer_succeeds(self) -> None:
        recovery = base.make_recovery()
        self.committed = True
        self.troubles = [db_exception.DBConnectionError('no')]
        self.assertEqual({recovery.id}, self.store.create([recovery]))
        taken = self.store.take_over(recovery, 'engine1')
        self.troubles = [db_exception.DBConnectionError('no')]
        ended = self.store.change(taken, state=model.ENDED, outcome=model.PRIMARY)
        self.assertEqual([], self.troubles)
        self.assertEqual(ended, self.store.get(recovery.id))


@ddt.ddt
class TimeoutsTest(testtools.TestCase):
    """A connection to MySQL that hangs ends, whatever else the configuration says of it."""

    @ddt.data(
        ('', '', 'connect_timeout=2&read_timeout=2&write_timeout=2'),
        ('?charset=utf8', 'ssl_ca=/ca',
         'ssl_ca=/ca&connect_timeout=2&read_timeout=2&write_timeout=2'),
        ('?read_timeout=9', 'write_timeout=8', 'write_timeout=8&connect_timeout=2'))
    @ddt.unpack
    def test_timeouts_are_those_that_are_missing(self, query: str, parameters: str,
                                                 expected: str) -> None:
        conf = cfg.ConfigOpts()
        connection.register(conf)
        conf([], default_config_files=[])
        conf.set_override('connection', f'mysql+pymysql://u:p@db/s{query}', 'database')
        conf.set_override('connection_parameters', parameters, 'database')
        with mock.patch('oslo_db.sqlalchemy.engines.create_engine') as create:
            connection.connect(conf, connection.ROW_TIMEOUTS)
        self.assertEqual(expected, create.call_args.kwargs['connection_parameters'])
