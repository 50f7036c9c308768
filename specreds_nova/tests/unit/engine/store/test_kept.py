# SPDX-License-Identifier: Apache-2.0
"""Threads use their connections again, and never one that is lost or of another process."""

import gc
import pathlib
import threading
from typing import Any
from unittest import mock

import fixtures
from oslo_db.sqlalchemy import engines
import sqlalchemy as sa
from sqlalchemy import event
import testtools

from specreds_nova.engine.store import connection
from specreds_nova.engine.store import kept


class ConnectionsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'db')
        self.engine = sa.create_engine(f'sqlite:///{path}', poolclass=sa.QueuePool, pool_size=4,
                                       max_overflow=0, pool_timeout=5.0)
        self.addCleanup(self.engine.dispose)
        self.taken = 0
        event.listen(self.engine, 'checkout', self._take)
        self.now, self.process = 100.0, 1
        for module, name, value in (('time', 'monotonic', lambda: self.now),
                                    ('os', 'getpid', lambda: self.process)):
            self.useFixture(fixtures.MockPatch(f'{kept.__name__}.{module}',
                                               mock.Mock(**{name: value})))
        self.lives = True
        self.useFixture(fixtures.MockPatchObject(self.engine.dialect, 'do_ping',
                                                 lambda connection: self.lives))
        self.connections = kept.Connections(self.engine)

    def _take(self, *_arguments: Any) -> None:
        self.taken += 1

    def _used(self) -> object:
        """Use a connection, and return the driver's object."""
        with self.connections.get() as connected, connected.begin():
            connected.execute(sa.text('SELECT 1'))
            return connected.connection.dbapi_connection

    def test_thread_uses_its_connection_again(self) -> None:
        self.assertIs(self._used(), self._used())
        self.assertEqual(1, self.taken)

    def test_connection_that_was_not_used_for_long_returns_to_the_pool(self) -> None:
        first = self._used()
        self.now += 2.0
        self.assertIs(first, self._used())
        self.assertEqual(2, self.taken)

    def test_connection_returns_to_the_pool_from_time_to_time(self) -> None:
        for _ in range(200):
            self._used()
            self.now += 0.5
        self.assertEqual(2, self.taken)

    def test_lost_connection_is_replaced(self) -> None:
        first = self._used()
        self.now, self.lives = self.now + 2.0, False
        self.assertIsNot(first, self._used())

    def test_closed_connections_are_not_rolled_back_later(self) -> None:
        resets: list[object] = []
        event.listen(self.engine, 'reset', lambda *arguments: resets.append(arguments))
        thread = threading.Thread(target=self._used)
        thread.start()
        self._used()
        with self.connections.get() as used, used.begin():
            self.connections.close()
            used.execute(sa.text('SELECT 1'))
        thread.join()
        self.connections.close()
        count = len(resets)
        del self.connections
        gc.collect()
        self.assertEqual(count, len(resets))

    def test_forked_process_has_its_own_connection(self) -> None:
        first = self._used()
        self.process += 1
        self.assertIsNot(first, self._used())

    def test_connection_of_a_failure_is_not_kept(self) -> None:
        def fail() -> None:
            with self.connections.get() as connected, connected.begin():
                connected.execute(sa.text('SELECT * FROM nothing'))

        self.assertRaises(sa.exc.OperationalError, fail)
        self._used()
        self.assertEqual(2, self.taken)

    def test_half_of_the_pool_is_left_to_other_threads(self) -> None:
        used, over = threading.Barrier(7), threading.Event()

        def use() -> None:
            self._used()
            used.wait(10.0)
            over.wait(10.0)

        threads = [threading.Thread(target=use) for _ in range(6)]
        for thread in threads:
            thread.start()
        used.wait(10.0)
        pool: Any = self.engine.pool
        self.assertEqual(2, pool.checkedout())
        over.set()
        for thread in threads:
            thread.join()

    def test_connection_of_a_thread_that_has_ended_returns_to_the_pool(self) -> None:
        for _ in range(5):
            thread = threading.Thread(target=self._used)
            thread.start()
            thread.join()
        pool: Any = self.engine.pool
        self.assertEqual(0, pool.checkedout())

    def test_databases_without_a_pool_keep_no_connection(self) -> None:
        engine = engines.create_engine('sqlite://')
        transactions = connection.Transactions(engine)
        transactions.run(lambda connected: connected.execute(sa.text('SELECT 1')))
        connections = kept.Connections(engine)
        with connections.get() as first:
            pass
        self.assertTrue(first.closed)
