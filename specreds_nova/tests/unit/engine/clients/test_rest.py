# SPDX-License-Identifier: Apache-2.0
"""The client of a REST service."""

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
              (408, exception.Unreachable), (429, exception.Unreachable),
              (500, exception.Unreachable), (503, exception.Unreachable))
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
