# SPDX-License-Identifier: Apache-2.0
"""A store of one's own, in memory."""

from typing import Any

from oslo_config import cfg
from oslo_utils import uuidutils
import testtools

from specreds_nova.engine import model
from specreds_nova.engine.db import connection
from specreds_nova.engine.db import migration
from specreds_nova.engine.db import store
from specreds_nova.tests.unit.engine import clock as clocks


def make_store(clock: clocks.Clock, url: str = 'sqlite://') -> store.Store:
    """Give a store in a new database."""
    conf = cfg.ConfigOpts()
    connection.register(conf)
    conf([], default_config_files=[])
    conf.set_override('connection', url, 'database')
    engine = connection.connect(conf)
    migration.sync(engine)
    return store.Store(engine, clock.now)


def make_recovery(**values: Any) -> model.Recovery:
    """Give a recovery that nobody has written down yet."""
    return model.Recovery(**{
        'id': uuidutils.generate_uuid(), 'server': uuidutils.generate_uuid(),
        'server_name': 'vm1', 'project': 'p1', 'host': 'node1', 'suspected': 999.5,
        'why': ({'kind': 'heartbeat', 'words': 'silent for 0.9 s', 'time': 999.5},), **values})


class StoreTest(testtools.TestCase):
    """Has a store."""

    def setUp(self) -> None:
        super().setUp()
        self.clock = clocks.Clock()
        self.store = make_store(self.clock)

    def created(self, **values: Any) -> model.Recovery:
        """Have a recovery that is written down, and worked on by an engine."""
        recovery = make_recovery(**values)
        self.assertEqual({recovery.id}, self.store.create([recovery]))
        return self.store.take_over(recovery.id, 'engine1')

    def end(self, recovery: model.Recovery, outcome: str = model.RECOVERED) -> model.Recovery:
        """End a recovery."""
        return self.store.change(recovery, state=model.ENDED, outcome=outcome)
