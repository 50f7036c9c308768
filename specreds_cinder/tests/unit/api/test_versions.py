# SPDX-License-Identifier: Apache-2.0
"""Versions of the resource."""

import ddt

from specreds_cinder import exception
from specreds_cinder.tests.unit.api import base


@ddt.ddt
class TestVersions(base.APITestCase):

    @ddt.data(None, 'superposition 1.0', 'superposition latest', 'volume 3.70',
              'superposition 1.0, volume 3.70', 'volume 3.70,superposition 1.0', 'volume 99.99',
              'compute 2.94')
    def test_supported_version_is_accepted(self, version: str | None) -> None:
        answer = self.ask('GET', base.BASE, version=version)
        self.assertEqual((200, 'superposition 1.0'), (answer.status, answer.headers[base.HEADER]))

    @ddt.data('superposition 1.1', 'superposition 0.9', 'superposition 2.0',
              'volume 3.70, superposition 7.0')
    def test_unsupported_version_returns_406(self, version: str) -> None:
        answer = self.ask('GET', base.BASE, version=version)
        self.assertEqual(406, answer.status)
        self.assertIn('1.0 to 1.0', answer.message)
        self.assertEqual(('version-unsupported', '1.0', '1.0'), self.details(answer))
        self.assertEqual('superposition 1.0', answer.headers[base.HEADER])

    @ddt.data('superposition x', 'superposition 1', 'superposition 1.0.0', 'superposition 1.0 x')
    def test_malformed_version_returns_400(self, version: str) -> None:
        answer = self.ask('GET', base.BASE, version=version)
        self.assertEqual(400, answer.status)
        self.assertEqual(('version-malformed', '1.0', '1.0'), self.details(answer))

    def test_unsupported_version_changes_nothing(self) -> None:
        self.superposed()
        self.refused(406, 'DELETE', f'{base.BASE}/{base.ID}', version='superposition 9.0')
        self.rpc.abort.assert_not_called()

    def test_errors_name_the_version(self) -> None:
        self.superposed()
        self.rpc.check.side_effect = exception.SuperpositionConflict('it is promoted')
        answer = self.ask('POST', f'{base.BASE}/{base.ID}/check')
        self.assertEqual((409, 'superposition 1.0', base.HEADER),
                         (answer.status, answer.headers[base.HEADER], answer.headers['Vary']))

    @ddt.data((exception.SuperpositionConflict, 'state-conflict'),
              (exception.VolumeSuperposed, 'volume-superposed'),
              (exception.VolumesNotEligible, 'volume-not-eligible'))
    @ddt.unpack
    def test_conflicts_have_a_code_for_programs(
            self, error: type[exception.SuperpositionError], code: str) -> None:
        self.superposed()
        self.rpc.check.side_effect = error('it is promoted', state='promoted')
        [fault] = self.ask('POST', f'{base.BASE}/{base.ID}/check').body.values()
        self.assertEqual({'code': 409, 'message': 'it is promoted', 'error_code': code,
                          'state': 'promoted'}, fault)

    def test_each_conflict_has_a_code_of_its_own(self) -> None:
        codes = [kind.error_code for kind in vars(exception).values()
                 if isinstance(kind, type) and issubclass(kind, exception.SuperpositionError)
                 and kind.code == 409]
        self.assertNotIn(None, codes)
        self.assertEqual(len(codes), len(set(codes)))

    def details(self, answer: base.Answer) -> tuple[str, ...]:
        [fault] = answer.body.values()
        return tuple(fault[name] for name in ('error_code', 'min_version', 'max_version'))

    def test_other_resources_keep_their_version(self) -> None:
        answer = self.ask('GET', '/volumes', version='volume 3.70')
        self.assertEqual('volume 3.70', answer.headers[base.HEADER])
