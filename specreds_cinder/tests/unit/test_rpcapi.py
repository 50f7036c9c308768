# SPDX-License-Identifier: Apache-2.0
"""The client of RPC, on a real server with oslo.messaging's transport for tests."""

import datetime
import functools
import threading
import time
import types
from typing import Any
from unittest import mock

from cinder import context
from cinder import objects
from cinder import rpc
from cinder.common import constants
from cinder.tests.unit import test
from cinder.tests.unit import utils
import ddt
import fixtures
import oslo_messaging as messaging
from oslo_utils import timeutils

from specreds_cinder import endpoint
from specreds_cinder import exception
from specreds_cinder import rpcapi

HOST, SECOND = 'node@rbd', 'node@rbd2'
_SECONDS = 30


class Foreign:
    """An endpoint of Cinder's own, of another version."""

    target = messaging.Target(version='3.0')

    def get(self, ctxt: Any, superposition_id: str) -> str:
        """Return what no test may see."""
        return 'wrong'


class RpcTestCase(test.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.admin = context.get_admin_context()
        self.context = context.RequestContext('u1', 'p1', is_admin=True, request_id='req-1')
        self.backs = {host: mock.Mock() for host in (HOST, SECOND)}
        for host in self.backs:
            self.make_service(host)
            self.serve(host, endpoint.Endpoint(functools.partial(self.backs.get, host)))
        self.api = rpcapi.SuperAPI()

    def make_service(self, host: str, **values: Any) -> None:
        """Create a volume service in the database."""
        utils.create_service(self.admin, {
            'host': host, 'binary': constants.VOLUME_BINARY, 'topic': constants.VOLUME_TOPIC,
            'updated_at': timeutils.utcnow(), **values})

    def serve(self, host: str, *endpoints: Any) -> None:
        """Start a server, as a volume service does for a back end."""
        server = rpc.get_server(
            messaging.Target(topic=f'{constants.VOLUME_TOPIC}.{host}', server=host.split('@')[0]),
            list(endpoints))
        server.start()
        self.addCleanup(server.stop)

    def volume(self, number: int, host: str, **changes: Any) -> Any:
        """Return a volume of a back end."""
        return types.SimpleNamespace(id=f'vol-{number}', service_topic_queue=host, **changes)


@ddt.ddt
class CallTest(RpcTestCase):

    def back(self, method: str, value: Any = None, *, host: str = HOST) -> mock.Mock:
        """Set the answer of a back end."""
        answering: mock.Mock = getattr(self.backs[host], method)
        answering.return_value = value
        return answering

    def arguments(self, called: mock.Mock) -> dict[str, Any]:
        """Return the arguments of the one call, after checking its request."""
        called.assert_called_once()
        ctxt, = called.call_args.args
        self.assertEqual(('req-1', 'u1', 'p1'), (ctxt.request_id, ctxt.user_id, ctxt.project_id))
        return dict(called.call_args.kwargs)

    def test_create_reaches_the_first_back_end(self) -> None:
        create = self.back('create', {'id': 's1'})
        volumes = [self.volume(1, f'{HOST}#pool'), self.volume(2, SECOND)]
        self.assertEqual({'id': 's1'},
                         self.api.create(self.context, 's1', volumes, 'server', 'why'))
        arguments = self.arguments(create)
        self.assertTrue(time.time() < arguments.pop('expires_at') < time.time() + 60)
        self.assertEqual({
            'superposition_id': 's1', 'server_id': 'server', 'reason': 'why',
            'volumes': [{'id': 'vol-1', 'host': HOST}, {'id': 'vol-2', 'host': SECOND}],
            'disks': []}, arguments)
        self.backs[SECOND].create.assert_not_called()

    def test_merges_of_a_back_end_are_counted(self) -> None:
        self.back('merging', {'fsid': 'f', 'pool': 'p', 'disks': 3})
        self.assertEqual({'fsid': 'f', 'pool': 'p', 'disks': 3},
                         self.api.merging(self.context, HOST))

    @ddt.data(
        ('get', (f'{HOST}#pool', 's1'), {'superposition_id': 's1', 'brief': False}),
        ('list', (HOST,), {'brief': True}),
        ('collapse', (HOST, 's1', True), {'superposition_id': 's1', 'durable': True}),
        ('connection', (HOST, 's1', {'host': 'h'}),
         {'superposition_id': 's1', 'connector': {'host': 'h'}}),
        ('eligibility', (HOST, ('vol-1',)), {'volume_ids': ['vol-1']}),
        ('eligibility', (HOST, ('vol-1',), (), 'h1'),
         {'volume_ids': ['vol-1'], 'fenced_host': 'h1'}),
    )
    @ddt.unpack
    def test_arguments_and_result_are_passed_on(self, method: str, arguments: tuple[Any, ...],
                                                expected: dict[str, Any]) -> None:
        called = self.back(method, {'some': ['thing', 1, None, True]})
        self.assertEqual({'some': ['thing', 1, None, True]},
                         getattr(self.api, method)(self.context, *arguments))
        self.assertEqual(expected, self.arguments(called))

    def test_abort_is_passed_on(self) -> None:
        called = self.back('abort')
        self.api.abort(self.context, HOST, 's1')
        self.assertEqual({'superposition_id': 's1'}, self.arguments(called))

    @ddt.data(True, False)
    def test_current_connection_is_passed_on(self, hand_out: bool) -> None:
        called = self.back('current_connection', {'data': {}})
        self.assertEqual({'data': {}}, self.api.current_connection(
            self.context, self.volume(1, f'{HOST}#pool'), {'host': 'h'}, hand_out=hand_out))
        self.assertEqual({'volume_id': 'vol-1', 'connector': {'host': 'h'},
                          'hand_out': hand_out}, self.arguments(called))

    def test_check_joins_the_reports_of_back_ends(self) -> None:
        self.back('check', {'dirty': False, 'first': None, 'objects': 3, 'seconds': 0.5})
        self.back('check', {'dirty': True, 'first': 'object 7', 'objects': 4, 'seconds': 0.25},
                  host=SECOND)
        self.assertEqual({'dirty': True, 'unproven': False, 'first': 'object 7', 'objects': 7,
                          'seconds': 0.5}, self.api.check(self.context, [HOST, SECOND], 's1'))

    @ddt.data((False, 'merged'), (True, 'object 7'))
    @ddt.unpack
    def test_write_counts_more_than_what_is_unproven(self, dirty: bool, first: str) -> None:
        self.back('check', {'dirty': False, 'unproven': True, 'first': 'merged', 'objects': 3,
                            'seconds': 0.5})
        self.back('check', {'dirty': dirty, 'unproven': False, 'objects': 4, 'seconds': 0.25,
                            'first': first if dirty else None}, host=SECOND)
        report = self.api.check(self.context, [HOST, SECOND], 's1')
        self.assertEqual((dirty, not dirty, first),
                         (report['dirty'], report['unproven'], report['first']))

    def test_merge_reaches_each_back_end(self) -> None:
        called = [self.back('merge', host=host) for host in (HOST, SECOND)]
        self.api.merge(self.context, [HOST, SECOND], 's1', 'begin')
        for each in called:
            self.assertEqual({'superposition_id': 's1', 'step': 'begin'}, self.arguments(each))

    @ddt.data('create', 'check', 'prepare', 'commit', 'drop')
    def test_step_of_a_member_is_passed_on(self, step: str) -> None:
        called = self.back(f'member_{step}', 'done', host=SECOND)
        self.assertEqual('done', self.api.member(self.context, SECOND, step, some='thing'))
        self.assertEqual({'some': 'thing'}, self.arguments(called))

    @ddt.data(
        exception.SuperpositionNotFound('none'), exception.SuperpositionInvalid('nonsense'),
        exception.SuperpositionConflict('no', state='merging'),
        exception.VolumeSuperposed('held', state='superposed'),
        exception.VolumesNotEligible('no', reasons=('a', 'b')),
        exception.SuperpositionUnavailable('no Ceph'), exception.SuperpositionPending('goes on'),
        exception.SuperpositionError('a bug'))
    def test_error_is_raised_as_the_same_error(self, raised: exception.SuperpositionError) -> None:
        self.back('get').side_effect = raised
        error = self.assertRaises(type(raised), self.api.get, self.context, HOST, 's1')
        self.assertEqual((type(raised), raised.msg, raised.state, raised.reasons, raised.code),
                         (type(error), error.msg, error.state, error.reasons, error.code))

    def test_unexpected_error_becomes_a_500(self) -> None:
        self.back('get').side_effect = KeyError('a bug')
        error = self.assertRaises(exception.SuperpositionError, self.api.get, self.context, HOST,
                                  's1')
        self.assertEqual(500, error.code)

    def test_unknown_error_of_a_newer_release_becomes_a_500(self) -> None:
        class SuperpositionMislaid(exception.SuperpositionError):
            __module__ = exception.__name__
        self.back('get').side_effect = SuperpositionMislaid('of a newer release')
        error = self.assertRaises(exception.SuperpositionError, self.api.get, self.context, HOST,
                                  's1')
        self.assertEqual('of a newer release', error.msg)


@ddt.ddt
class UnansweredTest(RpcTestCase):

    def hang(self, method: str) -> None:
        """Make a call take longer than its timeout."""
        go = threading.Event()
        self.addCleanup(go.set)
        getattr(self.backs[HOST], method).side_effect = lambda *_, **__: go.wait(_SECONDS)
        self.useFixture(fixtures.MockPatchObject(rpcapi, '_TIMEOUT_S', 0.2))

    @ddt.data(('collapse', ('s1', False)), ('abort', ('s1',)))
    @ddt.unpack
    def test_timeout_of_a_decision_is_pending(self, method: str,
                                              arguments: tuple[Any, ...]) -> None:
        self.hang(method)
        error = self.assertRaises(exception.SuperpositionPending, getattr(self.api, method),
                                  self.context, HOST, *arguments)
        self.assertEqual(202, error.code)
        self.assertIn('s1', error.msg)

    def test_timeout_of_a_query_is_unavailable(self) -> None:
        self.hang('get')
        error = self.assertRaises(exception.SuperpositionUnavailable, self.api.get, self.context,
                                  HOST, 's1')
        self.assertIn(HOST, error.msg)

    def test_timeout_behind_another_back_end_is_unavailable(self) -> None:
        self.hang('get')
        asking = rpcapi.SuperAPI()
        # As in the leader of a set, whose error is returned to its caller.
        self.backs[SECOND].get.side_effect = lambda _ctxt, superposition_id, brief: asking.get(
            self.context, HOST, superposition_id, brief=brief)
        self.assertRaises(exception.SuperpositionUnavailable, self.api.get, self.context, SECOND,
                          's1')

    def test_call_is_given_up_without_signs_of_life(self) -> None:
        with mock.patch.object(self.api, '_client') as client:
            client.prepare.return_value.call.return_value = {'result': []}
            self.api.list(self.context, HOST)
        client.prepare.assert_called_once_with(
            topic='cinder-volume.node@rbd', server='node', timeout=300, call_monitor_timeout=20)

    def test_failure_of_the_broker_is_unavailable(self) -> None:
        with mock.patch.object(self.api, '_client') as client:
            client.prepare.return_value.call.side_effect = messaging.MessageDeliveryFailure
            self.assertRaises(exception.SuperpositionUnavailable, self.api.list, self.context,
                              HOST)

    def test_other_remote_error_is_raised(self) -> None:
        with mock.patch.object(self.api, '_client') as client:
            client.prepare.return_value.call.side_effect = messaging.RemoteError('Unforeseen')
            self.assertRaises(messaging.RemoteError, self.api.list, self.context, HOST)

    @ddt.data('UnsupportedVersion', 'NoSuchMethod')
    def test_remote_error_of_a_missing_extension_is_invalid(self, kind: str) -> None:
        with mock.patch.object(self.api, '_client') as client:
            client.prepare.return_value.call.side_effect = messaging.RemoteError(kind)
            self.assertRaises(exception.SuperpositionInvalid, self.api.list, self.context, HOST)

    def test_back_end_without_the_extension_is_invalid(self) -> None:
        self.make_service('node2@lvm')
        self.serve('node2@lvm', Foreign())
        error = self.assertRaises(exception.SuperpositionInvalid, self.api.get, self.context,
                                  'node2@lvm', 's1')
        self.assertIn('node2@lvm', error.msg)
        self.assertIn('does not have the extension', error.msg)


@ddt.ddt
class ServiceTest(RpcTestCase):

    @ddt.data('node9@rbd', 'node', 'rbd', f'{HOST}2x')
    def test_unknown_back_end_is_unavailable(self, host: str) -> None:
        self.assertRaises(exception.SuperpositionUnavailable, self.api.list, self.context, host)

    def test_only_the_service_of_the_back_end_is_read(self) -> None:
        self.backs[HOST].get.return_value = {}
        listed: list[int] = []
        get_all = objects.ServiceList.get_all

        def count(*args: Any) -> Any:
            services = get_all(*args)
            listed.append(len(services))
            return services
        self.useFixture(fixtures.MockPatchObject(objects.ServiceList, 'get_all', count))
        self.api.get(self.context, HOST, 's1')
        self.assertEqual([1], listed)

    def test_service_that_is_down_is_unavailable(self) -> None:
        self.make_service('node3@rbd',
                          updated_at=timeutils.utcnow() - datetime.timedelta(hours=1))
        error = self.assertRaises(exception.SuperpositionUnavailable, self.api.list,
                                  self.context, 'node3@rbd#pool')
        self.assertIn('node3@rbd is down', error.msg)

    def test_cluster_answers_while_one_service_is_down(self) -> None:
        back = mock.Mock(**{'list.return_value': []})
        self.serve('cluster@rbd', endpoint.Endpoint(lambda: back))
        for number, age in enumerate((0, 1)):
            self.make_service(
                f'node{4 + number}@rbd', cluster_name='cluster@rbd',
                updated_at=timeutils.utcnow() - datetime.timedelta(hours=age))
        self.assertEqual([], self.api.list(self.context, 'cluster@rbd#pool'))

    def test_back_end_of_a_volume_has_no_pool(self) -> None:
        self.assertEqual(HOST, rpcapi.backend(self.volume(1, f'{HOST}#pool')))
        self.assertEqual(HOST, rpcapi.backend(self.volume(1, HOST)))
