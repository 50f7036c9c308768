# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of boxes with Open vSwitch."""

import contextlib
from typing import Any
from unittest import mock

import fixtures
from oslo_config import cfg
import testtools
from vif_plug_ovs.ovsdb import ovsdb_lib

from specreds_nova.host.box import ovs
from specreds_nova.host.box import privileged
from specreds_nova.tests.unit.host.box import fakes


class Command(tuple[Any, ...]):
    """A command of a fake database: its name, its arguments, and its keywords in pairs."""

    database: 'FakeDatabase'

    def execute(self, check_error: bool) -> None:
        with self.database.transaction(check_error) as txn:
            txn.add(self)


class FakeDatabase:
    """A fake database of Open vSwitch that records the commands of each transaction."""

    def __init__(self) -> None:
        self.transactions: list[list[tuple[Any, ...]]] = []
        self.rows: dict[tuple[str, str], dict[str, Any]] = {
            ('Bridge', 'br-int'): {'name': 'br-int', 'external_ids': {}, 'fail_mode': 'secure',
                                   'datapath_type': 'netdev'}}
        self.bridges: dict[str, str] = {}
        self.up = True

    @contextlib.contextmanager
    def transaction(self, check_error: bool) -> Any:
        txn = mock.Mock()
        commands: list[tuple[Any, ...]] = []
        txn.add.side_effect = commands.append
        yield txn
        self.transactions.append(commands)

    def __getattr__(self, name: str) -> Any:
        def command(*arguments: Any, **more: Any) -> Command:
            made = Command((name, *arguments, *more.items()))
            made.database = self
            return made
        return command

    def db_list(self, table: str, records: Any = None, columns: Any = None,
                if_exists: bool = False) -> Any:
        rows = [row for (kind, name), row in self.rows.items()
                if kind == table and (records is None or name in records)]
        return mock.Mock(execute=mock.Mock(return_value=rows))

    def iface_to_br(self, name: str) -> Any:
        return mock.Mock(execute=mock.Mock(return_value=self.bridges.get(name)))

    port_to_br = iface_to_br

    def list_br(self) -> Any:
        if not self.up:
            raise OSError('there is no switch')
        return mock.Mock()


class OvsTestCase(testtools.TestCase):
    """A test of boxes in a switch whose database is fake."""

    def setUp(self) -> None:
        super().setUp()
        self.database = FakeDatabase()
        self.useFixture(fixtures.MockPatchObject(
            ovsdb_lib, 'BaseOVS', return_value=mock.Mock(ovsdb=self.database)))
        self.useFixture(fixtures.MockPatch('os_vif.initialize'))
        self.useFixture(fixtures.MockPatchObject(cfg, 'CONF'))
        cfg.CONF.os_vif_ovs.isolate_vif = False
        self.sent = self.useFixture(fixtures.MockPatchObject(privileged, 'send_flows')).mock
        self.up = self.useFixture(fixtures.MockPatchObject(privileged, 'bring_up')).mock
        self.flows = self.useFixture(fixtures.MockPatchObject(
            privileged, 'flows', return_value=['actions=drop'])).mock
        self.useFixture(fixtures.MockPatchObject(ovs, '_TIMEOUT', 0))
        self.plan = fakes.plan()
        self.ovs = ovs.Ovs('h2')
