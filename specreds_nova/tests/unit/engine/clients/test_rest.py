# SPDX-License-Identifier: Apache-2.0
"""The client of a REST service."""

import types

import ddt
from keystoneauth1 import exceptions

from specreds_nova.engine import exception
from specreds_nova.engine.clients import rest
from specreds_nova.tests.unit.engine.clients import base


@ddt.ddt
class ServiceTest(base.ServiceTest):
    """Each error is translated to its meaning for a recovery."""

    def setUp(self) -> None:
        super().setUp()
        self.service = rest.Service(self.session, self.conf, 'Nova', 'compute', '2.94')

    @ddt.data((404, exception.NotFound), (400, exception.Refused), (403, exception.Refused),
              (409, exception.Refused), (401, exception.Unreachable),
              (408, exception.Unanswered), (429, exception.Unreachable),
              (500, exception.Unreachable), (503, exception.Unreachable),
              (504, exception.Unanswered))
    @ddt.unpack
    def test_status_is_translated(self, status: int, kind: type[Exception]) -> None:
        self.session.fail('GET', '/it', status, 'because')
        words = self.raised(kind, self.service.get, '/it')
        self.assertIn('Nova', words)
        self.assertIn('because', words)

    @ddt.data(exceptions.ConnectFailure(), exceptions.ConnectTimeout(),
              exceptions.EndpointNotFound(), exceptions.DiscoveryFailure())
    def test_connection_failure_is_unreachable(self, failure: Exception) -> None:
        self.session.answer('POST', '/it', failure)
        self.raised(exception.Unreachable, self.service.post, '/it', {})

    def test_answer_that_is_late_may_follow_an_act(self) -> None:
        self.session.answer('POST', '/it', exceptions.ConnectTimeout())
        self.raised(exception.Unanswered, self.service.post, '/it', {})

    def test_answer_is_parsed(self) -> None:
        self.session.answer('GET', '/it', {'a': 1})
        self.assertEqual({'a': 1}, self.service.get('/it', limit=3))
        [request] = self.session.requests
        self.assertEqual({'limit': 3}, request['params'])
        self.assertEqual('2.94', request['microversion'])

    def test_empty_answer_is_an_empty_dict(self) -> None:
        self.session.answer('POST', '/it', None, status=202)
        self.assertEqual({}, self.service.post('/it'))

    def test_missing_credentials_name_the_option(self) -> None:
        self.assertIn('auth_type', self.raised(exception.Invalid, rest.session, self.conf))


class AddressTest(base.ServiceTest):

    def setUp(self) -> None:
        super().setUp()
        self.addresses = ['http://nova/%7e', 'http://other', 'http://third']
        self.session.auth = types.SimpleNamespace(auth_ref=None)
        self.session.get_endpoint = self._look_up
        self.session.answer('GET', '/it', {})
        self.service = rest.Service(self.session, self.conf, 'Nova', 'compute')

    def _look_up(self, auth: object, **service: object) -> str:
        self.assertEqual((None, 'compute'), (auth, service['service_type']))
        return self.addresses.pop(0)

    def _sent_to(self) -> object:
        self.service.get('/it')
        return self.session.requests[-1]['endpoint_override']

    def test_address_is_looked_up_once_for_each_token(self) -> None:
        self.assertIsNone(self._sent_to())
        self.session.auth.auth_ref = object()
        self.assertEqual(['http://nova/%%7e'] * 2, [self._sent_to(), self._sent_to()])
        self.session.auth.auth_ref = object()
        self.assertEqual(['http://other'] * 2, [self._sent_to(), self._sent_to()])

    def test_address_from_an_invalid_token_is_not_kept(self) -> None:
        self.session.auth.auth_ref = object()
        self._sent_to()
        self.session.auth.auth_ref = None
        self.assertIsNone(self._sent_to())
        self.assertEqual(2, len(self.addresses))

    def test_missing_service_is_unreachable(self) -> None:
        self.session.auth.auth_ref = object()

        def look_up(auth: object, **service: object) -> str:
            raise exceptions.EndpointNotFound

        self.session.get_endpoint = look_up
        self.raised(exception.Unreachable, self.service.get, '/it')
