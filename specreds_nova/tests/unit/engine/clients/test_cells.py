# SPDX-License-Identifier: Apache-2.0
"""The brokers of Nova's cells, with Nova's objects, serializers and errors over a real RPC."""

import types
from typing import Any
import uuid

import fixtures
from nova import exception as nova_exception
from nova import objects
from nova import rpc as nova_rpc
from nova.objects import base as objects_base
from oslo_config import cfg
import oslo_messaging as messaging
from oslo_messaging import conffixture
import testtools

from specreds_nova import rpcapi
from specreds_nova.engine import exception
from specreds_nova.engine.clients import cells

_CELL0 = '00000000-0000-0000-0000-000000000000'
_CELL1, _CELL2, _CELL3 = (str(uuid.uuid4()) for _ in range(3))


class Conductor:
    """A conductor of Nova.

    :ivar urls: brokers of the cells, by UUID
    :ivar hosts: cells of the hosts
    :ivar reads: the objects that were read, with the host
    """

    target = messaging.Target(version='3.0')

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Have two cells with hosts, and no reads."""
        self.urls = {_CELL0: 'none:///', _CELL1: 'fake://one/', _CELL2: 'fake://two/'}
        self.hosts = {'h1': _CELL1, 'h2': _CELL2, 'h3': _CELL2}
        self.reads: list[tuple[str, ...]] = []
        self.failure: Exception | None = None

    @messaging.expected_exceptions(nova_exception.HostMappingNotFound)
    def object_class_action_versions(self, ctxt: Any, objname: str, objmethod: str,
                                     object_versions: Any, args: Any, kwargs: Any) -> Any:
        """Return an object in the requested version, as Nova does."""
        assert ctxt.is_admin and not kwargs
        known = objects_base.NovaObject.obj_class_from_name(objname, object_versions[objname])
        assert object_versions[objname] == known.VERSION and hasattr(known, objmethod)
        self.reads.append((objname, *args))
        if self.failure is not None:
            raise self.failure
        if objname == 'HostMapping':
            [host] = args
            if host not in self.hosts:
                raise nova_exception.HostMappingNotFound(name=host)
            return objects.HostMapping(ctxt, host=host, cell_mapping=self._cell(self.hosts[host]))
        return objects.CellMappingList(objects=[self._cell(cell) for cell in self.urls])

    def _cell(self, cell: str) -> Any:
        return objects.CellMapping(uuid=cell, name='cell', transport_url=self.urls.get(cell, ''),
                                   database_connection='mysql://secret', disabled=False)


class CellsTest(testtools.TestCase):
    """Two cells and three hosts."""

    broker: Any
    conductor: Conductor

    @classmethod
    def setUpClass(cls) -> None:
        """Start one server for all tests: each takes a second to stop."""
        super().setUpClass()
        # oslo.messaging registers options for tracing only with the global configuration.
        conf = conffixture.ConfFixture(cfg.CONF)
        conf.setUp()
        cls.addClassCleanup(conf.cleanUp)
        objects.register_all()
        cls.broker = cls.transport('fake://')
        cls.addClassCleanup(cls.broker.cleanup)
        cls.conductor = Conductor()
        server = messaging.get_rpc_server(
            cls.broker, messaging.Target(exchange='nova', topic='conductor', server='c'),
            [cls.conductor], executor='threading', access_policy=messaging.DefaultRPCAccessPolicy,
            serializer=nova_rpc.RequestContextSerializer(objects_base.NovaObjectSerializer()))
        server.start()
        cls.addClassCleanup(server.wait)
        cls.addClassCleanup(server.stop)

    def setUp(self) -> None:
        super().setUp()
        self.conductor.reset()
        self.now = 1000.0
        self.useFixture(fixtures.MonkeyPatch(
            'specreds_nova.engine.clients.cells.time',
            types.SimpleNamespace(monotonic=lambda: self.now)))
        self.connected: list[str] = []
        self.default = rpcapi.BackupsAPI(self.broker)
        self.cells = cells.Cells(self.default, self.broker, 10.0, self.connect, 10.0)
        self.addCleanup(self.cells.close)

    @staticmethod
    def transport(url: str) -> Any:
        """Return a transport to a broker."""
        return messaging.get_rpc_transport(
            cfg.CONF, url=url, allowed_remote_exmods=rpcapi.ALLOWED_EXMODS)

    def connect(self, url: str) -> messaging.Transport:
        """Return a transport to the broker of a cell."""
        self.connected.append(url)
        return self.transport(url)

    def test_each_cell_has_a_client(self) -> None:
        first, second, third = (self.cells.hosts(host) for host in ('h1', 'h2', 'h3'))
        self.assertIs(second, third)
        self.assertEqual(3, len({id(client) for client in (first, second, self.default)}))
        self.assertEqual(['fake://one/', 'fake://two/'], self.connected)

    def test_hosts_of_one_cell_are_called_by_default_without_looking_them_up(self) -> None:
        del self.conductor.urls[_CELL2]
        for host in ('h1', 'h2'):
            self.assertIs(self.default, self.cells.hosts(host))
        self.assertEqual(['h2', 'h3'], self.cells.beside('h1', ['h2', 'h3']))
        self.assertEqual([('CellMappingList',)], self.conductor.reads)
        self.assertEqual([], self.connected)

    def test_cell_of_a_host_is_read_once_an_hour(self) -> None:
        for _ in range(3):
            self.cells.hosts('h1')
        self.assertEqual([('CellMappingList',), ('HostMapping', 'h1')], self.conductor.reads)
        self.now += 3600.0
        self.conductor.hosts['h1'] = _CELL2
        self.assertIs(self.cells.hosts('h2'), self.cells.hosts('h1'))

    def test_known_cell_is_used_while_nova_does_not_answer(self) -> None:
        client = self.cells.hosts('h1')
        self.now += 3600.0
        self.conductor.failure = RuntimeError('broken')
        self.assertIs(client, self.cells.hosts('h1'))

    def test_unknown_cell_is_an_error_while_nova_does_not_answer(self) -> None:
        self.cells.look()
        self.conductor.failure = RuntimeError('broken')
        self.assertRaises(exception.Unreachable, self.cells.hosts, 'h1')
        self.assertRaises(exception.Unreachable, self.cells.hosts, 'h2')
        # It is not asked again at once.
        self.assertEqual(2, len(self.conductor.reads))
        self.assertEqual(['h2', 'h3'], self.cells.beside('h1', ['h2', 'h3']))
        self.now += 30.0
        self.conductor.failure = None
        self.assertIsNot(self.default, self.cells.hosts('h1'))

    def test_before_the_first_answer_hosts_are_called_as_in_one_cell(self) -> None:
        self.conductor.failure = RuntimeError('broken')
        self.assertIs(self.default, self.cells.hosts('h1'))
        self.conductor.failure = None
        self.now += 30.0
        self.assertIsNot(self.default, self.cells.hosts('h1'))

    def test_host_in_no_cell_is_called_by_default(self) -> None:
        self.assertIs(self.default, self.cells.hosts('h9'))

    def test_new_host_is_called_in_its_cell_as_soon_as_nova_has_it_there(self) -> None:
        self.assertIs(self.default, self.cells.hosts('h9'))
        self.conductor.hosts['h9'] = _CELL2
        self.now += 30.0
        self.assertIs(self.cells.hosts('h2'), self.cells.hosts('h9'))

    def test_new_cell_is_read_when_a_host_is_in_it(self) -> None:
        self.cells.look()
        self.conductor.urls[_CELL3] = 'fake://three/'
        self.conductor.hosts['h4'] = _CELL3
        self.assertIsNot(self.default, self.cells.hosts('h4'))
        self.assertIn('fake://three/', self.connected)

    def test_cell_that_nova_does_not_list_is_an_error(self) -> None:
        self.conductor.hosts['h4'] = _CELL3
        error = self.assertRaises(exception.Unreachable, self.cells.hosts, 'h4')
        self.assertIn(_CELL3, str(error))

    def test_changed_broker_is_connected_and_the_others_are_kept(self) -> None:
        first, second = self.cells.hosts('h1'), self.cells.hosts('h2')
        self.conductor.urls[_CELL2] = 'fake://other/'
        self.cells.look()
        self.assertIs(first, self.cells.hosts('h1'))
        self.assertIsNot(second, self.cells.hosts('h2'))
        self.assertEqual(['fake://one/', 'fake://two/', 'fake://other/'], self.connected)

    def test_changed_broker_is_noticed_although_nobody_reads_the_cells(self) -> None:
        client = self.cells.hosts('h2')
        self.conductor.urls[_CELL2] = 'fake://other/'
        self.now += 299.0
        self.assertIs(client, self.cells.hosts('h2'))
        self.now += 1.0
        self.assertIsNot(client, self.cells.hosts('h2'))
        self.assertEqual('fake://other/', self.connected[-1])

    def test_call_does_not_wait_for_conductors_that_have_just_not_answered(self) -> None:
        client = self.cells.hosts('h2')
        self.conductor.failure = RuntimeError('broken')
        self.now += 300.0
        self.assertRaises(exception.Unreachable, self.cells.look)
        before = len(self.conductor.reads)
        self.now += 299.0
        self.assertIs(client, self.cells.hosts('h2'))
        self.assertEqual(before, len(self.conductor.reads))

    def test_hosts_of_other_cells_are_left_out(self) -> None:
        self.assertEqual(['h3'], self.cells.beside('h2', ['h1', 'h3']))

    def test_without_a_conductor_nothing_is_looked_up(self) -> None:
        alone = cells.Cells(self.default, None, 0.0, self.connect, 10.0)
        alone.look()
        self.assertIs(self.default, alone.hosts('h1'))
        self.assertEqual(['h1'], alone.beside('h2', ['h1']))
        self.assertEqual([], self.conductor.reads)

    def test_password_is_in_no_representation(self) -> None:
        self.conductor.urls[_CELL1] = 'fake://nova:secret@one/'
        self.cells.look()
        self.assertNotIn('secret', repr(self.cells._cells))
