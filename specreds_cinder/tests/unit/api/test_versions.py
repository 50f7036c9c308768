# SPDX-License-Identifier: Apache-2.0
"""Versions of the resource."""

import ddt

from specreds_cinder import exception
from specreds_cinder.tests.unit.api import base


@ddt.ddt
class TestVersions(base.APITestCase):

    @ddt.data(None, 'superposition 1.0', 'volume 3.70',
              'superposition 1.0, volume 3.70', 'volume 3.70,superposition 1.0', 'volume 99.99',
              'compute 2.94')
    def test_supported_version_is_accepted(self, version: str | None) -> None:
        self.done(200, 'GET', base.BASE, version=version)

    @ddt.data('superposition latest', 'superposition 1.3', 'volume 3.70, superposition 1.3')
    def test_newest_version_is_accepted(self, version: str) -> None:
        answer = self.ask('GET', base.BASE, version=version)
        self.assertEqual((200, 'superposition 1.3'), (answer.status, answer.headers[base.HEADER]))

    @ddt.data('superposition 1.4', 'superposition 0.9', 'superposition 2.0',
              'volume 3.70, superposition 7.0')
    def test_unsupported_version_returns_406(self, version: str) -> None:
        answer = self.ask('GET', base.BASE, version=version)
        self.assertEqual(406, answer.status)
        self.assertIn('1.0 to 1.3', answer.message)
        self.assertEqual('superposition 1.3', answer.headers[base.HEADER])

    @ddt.data('superposition x', 'superposition 1', 'superposition 1.0.0', 'superposition 1.0 x')
    def test_malformed_version_returns_400(self, version: str) -> None:
        self.refused(400, 'GET', base.BASE, version=version)

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

    def test_other_resources_keep_their_version(self) -> None:
        answer = self.ask('GET', '/volumes', version='volume 3.70')
        self.assertEqual('volume 3.70', answer.headers[base.HEADER])
