# SPDX-License-Identifier: Apache-2.0
"""How a REST service is asked."""

import ddt
from keystoneauth1 import exceptions

from specreds_nova.engine import exception
from specreds_nova.engine.clients import rest
from specreds_nova.tests.unit.engine.clients import base


@ddt.ddt
class ServiceTest(base.ServiceTest):
    """Errors are what they mean to a recovery."""

    def setUp(self) -> None:
        super().setUp()
        self.service = rest.Service(self.session, self.conf, 'Nova', 'compute', '2.94')

    @ddt.data((404, exception.NotFound), (400, exception.Refused), (403, exception.Refused),
              (409, exception.Refused), (401, exception.Unreachable),
              (408, exception.Unreachable), (429, exception.Unreachable),
              (500, exception.Unreachable), (503, exception.Unreachable))
    @ddt.unpack
    def test_an_error(self, status: int, kind: type[Exception]) -> None:
        self.session.fail('GET', '/it', status, 'because')
        words = self.raised(kind, self.service.get, '/it')
        self.assertIn('Nova', words)
        self.assertIn('because', words)

    @ddt.data(exceptions.ConnectFailure(), exceptions.ConnectTimeout(),
              exceptions.EndpointNotFound(), exceptions.DiscoveryFailure())
    def test_a_service_that_is_away(self, failure: Exception) -> None:
        self.session.answer('POST', '/it', failure)
        self.raised(exception.Unreachable, self.service.post, '/it', {})

    def test_an_answer(self) -> None:
        self.session.answer('GET', '/it', {'a': 1})
        self.assertEqual({'a': 1}, self.service.get('/it', limit=3))
        [asked] = self.session.requests
        self.assertEqual({'limit': 3}, asked['params'])
        self.assertEqual('2.94', asked['microversion'])

    def test_an_answer_that_says_nothing(self) -> None:
        self.session.answer('POST', '/it', None, status=202)
        self.assertEqual({}, self.service.post('/it'))

    def test_without_credentials(self) -> None:
        self.assertIn('auth_type', self.raised(exception.Invalid, rest.session, self.conf))
