# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of the store, in memory."""

from collections.abc import Iterator, Mapping
import contextlib
from typing import Any

from oslo_config import cfg
from oslo_utils import uuidutils
import sqlalchemy as sa
from sqlalchemy import event
import testtools

from specreds_nova.engine import model
from specreds_nova.engine.store import connection
from specreds_nova.engine.store import migration
from specreds_nova.engine.store import store
from specreds_nova.tests.unit.engine import clock as clocks
from specreds_nova.tests.unit.engine import steps


def make_store(clock: clocks.Clock, url: str = 'sqlite://') -> store.Store:
    """Return a store with a new database."""
    return store.Store(make_engine(url), clock.now)


def make_engine(url: str = 'sqlite://') -> sa.Engine:
    """Return the engine of SQLAlchemy for a new database."""
    conf = cfg.ConfigOpts()
    connection.register(conf)
    conf([], default_config_files=[])
    conf.set_override('connection', url, 'database')
    engine = connection.connect(conf)
    migration.sync(engine)
    return engine


def make_recovery(**values: Any) -> model.Recovery:
    """Return a recovery that is not in the store."""
    return model.Recovery(**{
        'id': uuidutils.generate_uuid(), 'server': uuidutils.generate_uuid(),
        'server_name': 'vm1', 'project': 'p1', 'host': 'node1', 'suspected': 999.5,
        'why': ({'kind': 'heartbeat', 'words': 'silent for 0.9 s', 'time': 999.5},), **values})


class StoreTest(testtools.TestCase):
    """A test with a store."""

    def setUp(self) -> None:
        super().setUp()
        self.clock = clocks.Clock()
        self.store = self.make_store()

    def make_store(self) -> Any:
        """Return a new store."""
        self.engine = make_engine()
        return store.Store(self.engine, self.clock.now)

    @contextlib.contextmanager
    def statements(self) -> Iterator[list[str]]:
        """Record the first word of each statement of the transactions."""
        executed: list[str] = []

        def record(_connection: Any, _cursor: Any, statement: str, *_arguments: Any) -> None:
            if not statement.startswith('BEGIN'):
                executed.append(statement.split(None, 1)[0])

        event.listen(self.engine, 'before_cursor_execute', record)
        try:
            yield executed
        finally:
            event.remove(self.engine, 'before_cursor_execute', record)

    def created(self, **values: Any) -> model.Recovery:
        """Create a recovery that an engine works on."""
        recovery = make_recovery(**values)
        self.assertEqual({recovery.id}, self.store.create([recovery]))
        return self.taken_over(recovery, 'engine1')

    def taken_over(self, recovery: model.Recovery, engine: str) -> model.Recovery:
        """Let an engine claim a recovery as it is stored now."""
        taken: model.Recovery = self.store.take_over(self.store.get(recovery.id), engine)
        return taken

    def end(self, recovery: model.Recovery, outcome: str = model.RECOVERED) -> model.Recovery:
        """End a recovery."""
        ended: model.Recovery = self.store.change(recovery, state=model.ENDED, outcome=outcome)
        return ended

    def begin_step(self, recovery: model.Recovery, name: str) -> int:
        """Record the begin of a step, and return its attempt."""
        return steps.begin(self.store, recovery, name, self.clock.time)

    def end_step(self, recovery: model.Recovery, name: str, attempt: int,
                 detail: Mapping[str, Any]) -> None:
        """Record the end of a step."""
        steps.end(self.store, recovery, name, attempt, detail, self.clock.time)
