# SPDX-License-Identifier: Apache-2.0
"""The client of RPC, on a real server with oslo.messaging's transport for tests."""

from collections.abc import Callable
import datetime
import functools
import threading
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

from specreds_cinder import exception
from specreds_cinder.service import rpcapi
from specreds_cinder.service import service

HOST, SECOND = 'node@rbd', 'node@rbd2'
_SECONDS = 30


def _method(name: str) -> Callable[..., Any]:
    return lambda back, ctxt, **arguments: getattr(back, name)(ctxt, **arguments)


# Each calls the method of the same name of a stand-in for a back end.
_METHODS = {name: _method(name) for name in service.METHODS}


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
            self.serve(host, rpcapi.Endpoint(functools.partial(self.backs.get, host), _METHODS))
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

    @ddt.data('create', 'fence_host', 'fence_disks')
    def test_call_that_changes_something_expires(self, method: str) -> None:
        called = self.back(method, [])
        self.api.call(self.context, HOST, method, some='thing')
        # The endpoint takes the time for itself.
        self.assertEqual({'some': 'thing'}, self.arguments(called))
        called.reset_mock()
        with fixtures.MockPatchObject(rpcapi, '_SIGN_OF_LIFE', -1):
            error = self.assertRaises(exception.SuperpositionUnavailable, self.api.call,
                                      self.context, HOST, method)
        self.assertIn('too old', error.msg)
        called.assert_not_called()

    @ddt.data(f'{HOST}#pool', HOST)
    def test_arguments_and_result_are_passed_on(self, host: str) -> None:
        called = self.back('get', {'some': ['thing', 1, None, True]})
        self.assertEqual({'some': ['thing', 1, None, True]},
                         self.api.call(self.context, host, 'get', superposition_id='s1',
                                       connector={'host': 'h'}))
        self.assertEqual({'superposition_id': 's1', 'connector': {'host': 'h'}},
                         self.arguments(called))
        self.backs[SECOND].get.assert_not_called()

    @ddt.data(
        exception.SuperpositionNotFound('none'), exception.SuperpositionInvalid('nonsense'),
        exception.SuperpositionConflict('no', state='merging'),
        exception.VolumeSuperposed('held', state='superposed'),
        exception.VolumesNotEligible('no', reasons=('a', 'b')),
        exception.SuperpositionUnavailable('no Ceph'), exception.SuperpositionPending('goes on'),
        exception.SuperpositionError('a bug'))
    def test_error_is_raised_as_the_same_error(self, raised: exception.SuperpositionError) -> None:
        self.back('get').side_effect = raised
        error = self.assertRaises(type(raised), self.api.call, self.context, HOST,
                                  'get')
        self.assertEqual((type(raised), raised.msg, raised.state, raised.reasons, raised.code),
                         (type(error), error.msg, error.state, error.reasons, error.code))

    def test_unexpected_error_becomes_a_500(self) -> None:
        self.back('get').side_effect = KeyError('a bug')
        error = self.assertRaises(exception.SuperpositionError, self.api.call, self.context, HOST,
                                  'get')
        self.assertEqual(500, error.code)

    def test_unknown_error_of_a_newer_release_becomes_a_500(self) -> None:
        class SuperpositionMislaid(exception.SuperpositionError):
            __module__ = exception.__name__
        self.back('get').side_effect = SuperpositionMislaid('of a newer release')
        error = self.assertRaises(exception.SuperpositionError, self.api.call, self.context, HOST,
                                  'get')
        self.assertEqual('of a newer release', error.msg)


@ddt.ddt
class UnansweredTest(RpcTestCase):

    def hang(self, method: str) -> None:
        """Make a call take longer than its timeout."""
        go = threading.Event()
        self.addCleanup(go.set)
        getattr(self.backs[HOST], method).side_effect = lambda *_, **__: go.wait(_SECONDS)
        self.useFixture(fixtures.MockPatchObject(rpcapi, '_TIMEOUT_S', 0.2))

    def test_timeout_is_told_from_other_silence(self) -> None:
        self.hang('promote')
        error = self.assertRaises(rpcapi.TookTooLong, self.api.call, self.context, HOST,
                                  'promote')
        self.assertIn('promote', error.msg)

    def test_timeout_of_a_query_is_unavailable(self) -> None:
        self.hang('get')
        error = self.assertRaises(exception.SuperpositionUnavailable, self.api.call,
                                  self.context, HOST, 'get')
        self.assertIn(HOST, error.msg)

    def test_timeout_behind_another_back_end_is_unavailable(self) -> None:
        self.hang('get')
        asking = rpcapi.SuperAPI()
        # As in the leader of a set, whose error is returned to its caller.
        self.backs[SECOND].get.side_effect = lambda _ctxt: asking.call(self.context, HOST, 'get')
        self.assertRaises(exception.SuperpositionUnavailable, self.api.call, self.context, SECOND,
                          'get')

    def test_call_is_given_up_without_signs_of_life(self) -> None:
        with mock.patch.object(self.api, '_client') as client:
            client.prepare.return_value.call.return_value = {'result': []}
            self.api.call(self.context, HOST, 'list')
        client.prepare.assert_called_once_with(
            topic='cinder-volume.node@rbd', server='node', timeout=300, call_monitor_timeout=20)

    def test_failure_of_the_broker_is_unavailable(self) -> None:
        with mock.patch.object(self.api, '_client') as client:
            client.prepare.return_value.call.side_effect = messaging.MessageDeliveryFailure
            self.assertRaises(exception.SuperpositionUnavailable, self.api.call,
                              self.context, HOST, 'list')

    def test_other_remote_error_is_raised(self) -> None:
        with mock.patch.object(self.api, '_client') as client:
            client.prepare.return_value.call.side_effect = messaging.RemoteError('Unforeseen')
            self.assertRaises(messaging.RemoteError, self.api.call, self.context, HOST,
                              'list')

    @ddt.data('UnsupportedVersion', 'NoSuchMethod')
    def test_remote_error_of_a_missing_extension_is_invalid(self, kind: str) -> None:
        with mock.patch.object(self.api, '_client') as client:
            client.prepare.return_value.call.side_effect = messaging.RemoteError(kind)
            self.assertRaises(exception.SuperpositionInvalid, self.api.call, self.context, HOST,
                              'list')

    def test_back_end_without_the_extension_is_invalid(self) -> None:
        self.make_service('node2@lvm')
        self.serve('node2@lvm', Foreign())
        error = self.assertRaises(exception.SuperpositionInvalid, self.api.call, self.context,
                                  'node2@lvm', 'get')
        self.assertIn('node2@lvm', error.msg)
        self.assertIn('does not have the extension', error.msg)


@ddt.ddt
class ServiceTest(RpcTestCase):

    @ddt.data('node9@rbd', 'node', 'rbd', f'{HOST}2x')
    def test_unknown_back_end_is_unavailable(self, host: str) -> None:
        self.assertRaises(exception.SuperpositionUnavailable, self.api.call, self.context, host,
                              'list')

    def test_only_the_service_of_the_back_end_is_read(self) -> None:
        self.backs[HOST].get.return_value = {}
        listed: list[int] = []
        get_all = objects.ServiceList.get_all

        def count(*args: Any) -> Any:
            services = get_all(*args)
            listed.append(len(services))
            return services
        self.useFixture(fixtures.MockPatchObject(objects.ServiceList, 'get_all', count))
        self.api.call(self.context, HOST, 'get')
        self.assertEqual([1], listed)

    def test_service_that_is_down_is_unavailable(self) -> None:
        self.make_service('node3@rbd',
                          updated_at=timeutils.utcnow() - datetime.timedelta(hours=1))
        error = self.assertRaises(exception.SuperpositionUnavailable, self.api.call,
                                  self.context, 'node3@rbd#pool', 'list')
        self.assertIn('node3@rbd is down', error.msg)

    def test_cluster_answers_while_one_service_is_down(self) -> None:
        back = mock.Mock(**{'list.return_value': []})
        self.serve('cluster@rbd', rpcapi.Endpoint(lambda: back, _METHODS))
        for number, age in enumerate((0, 1)):
            self.make_service(
                f'node{4 + number}@rbd', cluster_name='cluster@rbd',
                updated_at=timeutils.utcnow() - datetime.timedelta(hours=age))
        self.assertEqual([], self.api.call(self.context, 'cluster@rbd#pool', 'list'))

    def test_back_end_of_a_volume_has_no_pool(self) -> None:
        self.assertEqual(HOST, rpcapi.backend(self.volume(1, f'{HOST}#pool')))
        self.assertEqual(HOST, rpcapi.backend(self.volume(1, HOST)))
