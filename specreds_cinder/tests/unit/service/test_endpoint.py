# SPDX-License-Identifier: Apache-2.0
"""Answers of a volume service to RPC, without the RPC."""

from typing import Any
from unittest import mock

import cinder.tests.unit  # noqa: F401  it registers Cinder's objects
import ddt
import fixtures
import testtools

from specreds_cinder import exception
from specreds_cinder.service import rpcapi
from specreds_cinder.service import service


@ddt.ddt
class EndpointTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.logged = self.useFixture(fixtures.FakeLogger())
        self.get = mock.create_autospec(service.get)
        self.endpoint = rpcapi.Endpoint(lambda: 'backend', {**service.METHODS, 'get': self.get})

    def error(self, raised: Exception) -> dict[str, Any]:
        """Return the answer when the service raises an error."""
        self.get.side_effect = raised
        answer = self.endpoint.get('context', superposition_id='s1')
        self.assertEqual({'error'}, set(answer))
        error: dict[str, Any] = answer['error']
        return error

    def test_result_is_returned(self) -> None:
        self.get.return_value = {'id': 's1'}
        self.assertEqual({'result': {'id': 's1'}},
                         self.endpoint.get('context', superposition_id='s1'))
        self.get.assert_called_once_with('backend', 'context', superposition_id='s1')

    @ddt.data(*sorted(service.METHODS))
    def test_method_of_the_service_is_exposed(self, method: str) -> None:
        self.assertTrue(callable(getattr(self.endpoint, method)))

    @ddt.data('look_after', 'announce_dirty', '_ask', '_answering', '_methods_', 'no_such_method')
    def test_other_attributes_are_not_exposed(self, method: str) -> None:
        self.assertFalse(hasattr(self.endpoint, method))

    def test_target_has_namespace_and_version(self) -> None:
        self.assertEqual(('specreds', '1.0'),
                         (self.endpoint.target.namespace, self.endpoint.target.version))

    @ddt.data(exception.SuperpositionNotFound, exception.SuperpositionUnavailable,
              exception.SuperpositionInvalid, exception.SuperpositionError)
    def test_expected_error_is_returned(self, kind: type[exception.SuperpositionError]) -> None:
        self.assertEqual({'type': kind.__name__, 'reason': 'so what', 'state': None,
                          'reasons': []}, self.error(kind('so what')))
        self.assertNotIn('Traceback', self.logged.output)

    def test_error_has_state_and_reasons(self) -> None:
        error = self.error(exception.SuperpositionConflict('no', state='merging'))
        self.assertEqual('merging', error['state'])
        error = self.error(exception.VolumesNotEligible('no', reasons=('a', 'b')))
        self.assertEqual(['a', 'b'], error['reasons'])

    def test_private_error_is_returned_as_its_public_base(self) -> None:
        self.assertEqual('SuperpositionUnavailable',
                         self.error(rpcapi.TookTooLong('slow'))['type'])

    def test_unexpected_error_hides_its_text_and_is_logged(self) -> None:
        error = self.error(KeyError('secret'))
        self.assertEqual('SuperpositionError', error['type'])
        self.assertIn('KeyError', error['reason'])
        self.assertNotIn('secret', error['reason'])
        self.assertIn('Traceback', self.logged.output)

    def test_back_end_with_another_driver_is_an_error(self) -> None:
        def fail() -> Any:
            raise exception.SuperpositionInvalid('another driver')
        answer = rpcapi.Endpoint(fail, service.METHODS).list('context')
        self.assertEqual('SuperpositionInvalid', answer['error']['type'])
