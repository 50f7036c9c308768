# SPDX-License-Identifier: Apache-2.0
"""What a volume service answers over RPC, without the RPC."""

from typing import Any
from unittest import mock

import ddt
import fixtures
import testtools

from specreds_cinder import endpoint
from specreds_cinder import exception
from specreds_cinder import rpcapi
from specreds_cinder.volume import service


@ddt.ddt
class EndpointTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.logged = self.useFixture(fixtures.FakeLogger())
        self.superpositions = mock.create_autospec(service.BackendSuperpositions, instance=True)
        self.endpoint = endpoint.Endpoint(lambda: self.superpositions)

    def error(self, raised: Exception) -> dict[str, Any]:
        """Give the answer when something is raised."""
        self.superpositions.get.side_effect = raised
        answer = self.endpoint.get('context', superposition_id='s1')
        self.assertEqual({'error'}, set(answer))
        error: dict[str, Any] = answer['error']
        return error

    def test_result(self) -> None:
        self.superpositions.get.return_value = {'id': 's1'}
        self.assertEqual({'result': {'id': 's1'}},
                         self.endpoint.get('context', superposition_id='s1'))
        self.superpositions.get.assert_called_once_with('context', superposition_id='s1')

    @ddt.data(*sorted(endpoint.METHODS))
    def test_every_method_is_there(self, method: str) -> None:
        self.assertTrue(callable(getattr(self.endpoint, method)))
        self.assertTrue(callable(getattr(service.BackendSuperpositions, method)))

    @ddt.data('look_after', 'announce_dirty', '_ask', '_answering', 'no_such_method')
    def test_nothing_else_is(self, method: str) -> None:
        self.assertFalse(hasattr(self.endpoint, method))

    def test_target(self) -> None:
        self.assertEqual(('specreds', '1.0'),
                         (self.endpoint.target.namespace, self.endpoint.target.version))

    @ddt.data(exception.SuperpositionNotFound, exception.SuperpositionUnavailable,
              exception.SuperpositionInvalid, exception.SuperpositionError)
    def test_error(self, kind: type[exception.SuperpositionError]) -> None:
        self.assertEqual({'type': kind.__name__, 'reason': 'so what', 'state': None,
                          'reasons': []}, self.error(kind('so what')))
        self.assertNotIn('Traceback', self.logged.output)

    def test_state_and_reasons(self) -> None:
        error = self.error(exception.SuperpositionConflict('no', state='merging'))
        self.assertEqual('merging', error['state'])
        error = self.error(exception.VolumesNotEligible('no', reasons=('a', 'b')))
        self.assertEqual(['a', 'b'], error['reasons'])

    def test_special_cases_travel_as_what_they_are_cases_of(self) -> None:
        self.assertEqual('SuperpositionUnavailable',
                         self.error(rpcapi._TookTooLong('slow'))['type'])

    def test_unforeseen(self) -> None:
        error = self.error(KeyError('secret'))
        self.assertEqual('SuperpositionError', error['type'])
        self.assertIn('KeyError', error['reason'])
        self.assertNotIn('secret', error['reason'])
        self.assertIn('Traceback', self.logged.output)

    def test_no_superpositions_here(self) -> None:
        def fail() -> Any:
            raise exception.SuperpositionInvalid('another driver')
        answer = endpoint.Endpoint(fail).list('context', brief=True)
        self.assertEqual('SuperpositionInvalid', answer['error']['type'])
