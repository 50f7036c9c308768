# SPDX-License-Identifier: Apache-2.0
"""The client of Nova's scheduler, with Nova's objects and serializers over a real RPC."""

from typing import Any
from unittest import mock
import uuid

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
from specreds_nova.engine.clients import scheduler
from specreds_nova.tests.unit.engine.recovery import base

_GROUP = str(uuid.uuid4())
_HOST = {'limits': None, 'compute_node_uuid': str(uuid.uuid4()),
         'cell_uuid': str(uuid.uuid4()), 'allocation_request': None,
         'allocation_request_version': None}


class Nova:
    """A conductor and a scheduler, which serve RPC.

    :ivar asked: the request specs that the scheduler has received, and the servers to claim for
    """

    target = messaging.Target(version='4.5')

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Any]] = []
        self.reads: list[str] = []
        self.hosts = ['h2', 'h3']
        self.failure: Exception | None = None
        self.hint = 'x'

    @messaging.expected_exceptions(nova_exception.NoValidHost)
    def select_destinations(self, ctxt: Any, spec_obj: Any, instance_uuids: Any,
                            return_objects: bool, return_alternates: bool) -> list[list[Any]]:
        """Return the hosts."""
        del ctxt
        assert return_objects and return_alternates
        self.asked.append((spec_obj, instance_uuids))
        if self.failure is not None:
            raise self.failure
        return [[objects.Selection(service_host=host, nodename=host, **_HOST)
                 for host in self.hosts]]


class Conductor:
    """Nova's conductor."""

    target = messaging.Target(version='3.0')

    def __init__(self, nova: Nova) -> None:
        self._nova = nova

    def object_class_action_versions(self, ctxt: Any, objname: str, objmethod: str,
                                     object_versions: Any, args: Any, kwargs: Any) -> Any:
        """Return the stored objects of a server."""
        assert objmethod == 'get_by_instance_uuid' and not kwargs and objname in object_versions
        self._nova.reads.append(objname)
        [server_id] = args
        if objname == 'InstanceMapping':
            return objects.InstanceMapping(
                ctxt, instance_uuid=server_id,
                cell_mapping=objects.CellMapping(ctxt, uuid=_HOST['cell_uuid'], name='cell1'))
        return objects.RequestSpec(
            ctxt, id=len(self._nova.reads), instance_uuid=server_id, num_instances=7,
            force_hosts=['h1'], force_nodes=None, retry=None, ignore_hosts=None,
            scheduler_hints={'different_host': [self._nova.hint]}, availability_zone='az',
            flavor=objects.Flavor(name='f', memory_mb=1, vcpus=1, extra_specs={}),
            instance_group=objects.InstanceGroup(
                ctxt, uuid=_GROUP, policy='affinity', members=['a', 'b']))


class NovaSchedulerTest(testtools.TestCase):
    """Two servers, whose request specs are equal."""

    def setUp(self) -> None:
        super().setUp()
        # oslo.messaging registers options for tracing only with the global configuration.
        self.useFixture(conffixture.ConfFixture(cfg.CONF))
        transport = messaging.get_rpc_transport(
            cfg.CONF, url='fake://', allowed_remote_exmods=rpcapi.ALLOWED_EXMODS)
        objects.register_all()
        self.nova = Nova()
        serializer = nova_rpc.RequestContextSerializer(objects_base.NovaObjectSerializer())
        for topic, endpoint in (('scheduler', self.nova), ('conductor', Conductor(self.nova))):
            server = messaging.get_rpc_server(
                transport, messaging.Target(exchange='nova', topic=topic, server='c'),
                [endpoint], executor='threading', serializer=serializer,
                access_policy=messaging.DefaultRPCAccessPolicy)
            server.start()
            self.addCleanup(server.wait)
            self.addCleanup(server.stop)
        self.addCleanup(transport.cleanup)
        self.scheduler = scheduler.NovaScheduler(transport, 10.0)
        self.server = base.make_server('a', id=str(uuid.uuid4()))
        self.other = base.make_server('b', id=str(uuid.uuid4()))

    def test_scheduler_gets_the_stored_request_and_claims_nothing(self) -> None:
        self.assertEqual(['h2', 'h3'], self.scheduler.select(self.server, {'h1'}, ['h4']))
        [(spec, claimed)] = self.nova.asked
        self.assertIsNone(claimed)
        self.assertEqual((['h1'], None, 1, 'az', self.server.id),
                         (spec.ignore_hosts, spec.force_hosts, spec.num_instances,
                          spec.availability_zone, spec.instance_uuid))
        self.assertEqual({'different_host': ['x']}, spec.scheduler_hints)
        self.assertEqual(['h4'], spec.instance_group.hosts)
        self.assertEqual('cell1', spec.requested_destination.cell.name)

    def test_one_host_is_permitted_whatever_the_group_is(self) -> None:
        self.nova.hosts = ['h2']
        self.assertTrue(self.scheduler.permits(self.server, 'h2'))
        [(spec, claimed)] = self.nova.asked
        self.assertEqual(('h2', None, None), (spec.requested_destination.host,
                                              spec.instance_group, claimed))
        self.nova.failure = nova_exception.NoValidHost(reason='isolated')
        self.assertFalse(self.scheduler.permits(self.server, 'h2'))

    def test_stored_request_is_not_changed_by_questions(self) -> None:
        self.scheduler.permits(self.server, 'h2')
        self.scheduler.select(self.server, {'h1'}, [])
        spec, _ = self.nova.asked[-1]
        self.assertEqual(_GROUP, spec.instance_group.uuid)
        self.assertFalse('host' in spec.requested_destination)

    def test_no_valid_host_is_an_answer(self) -> None:
        self.nova.failure = nova_exception.NoValidHost(reason='full')
        self.assertEqual([], self.scheduler.select(self.server, {'h1'}, []))
        self.assertEqual([], self.scheduler.select(self.server, {'h1'}, []))
        self.assertEqual(2, len(self.nova.asked))

    def test_equal_servers_share_a_request_that_is_read_once(self) -> None:
        first = self.scheduler.spec(self.server)
        self.assertIs(first, self.scheduler.spec(self.other))
        self.assertIs(first, self.scheduler.spec(self.server))
        self.assertEqual(['RequestSpec', 'InstanceMapping'] * 2, self.nova.reads)

    def test_resized_or_different_server_has_a_request_of_its_own(self) -> None:
        first = self.scheduler.spec(self.server)
        self.nova.hint = 'y'
        self.assertIsNot(first, self.scheduler.spec(self.other))
        self.scheduler.spec(base.make_server('a', id=self.server.id, flavor={'ram': 2}))
        self.assertEqual(['RequestSpec', 'InstanceMapping'] * 3, self.nova.reads)

    def test_failing_scheduler_is_not_asked_again_at_once(self) -> None:
        self.nova.failure = RuntimeError('broken')
        with mock.patch.object(scheduler, 'LOG') as log:
            for _ in range(3):
                self.assertRaises(exception.Unreachable, self.scheduler.select, self.server,
                                  {'h1'}, [])
        self.assertEqual(1, len(self.nova.asked))
        self.assertEqual(1, log.warning.call_count)
