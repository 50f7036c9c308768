# SPDX-License-Identifier: Apache-2.0
"""Commands on volumes whose promoted version is not merged yet."""

from specreds_cinder.tests.unit.osc import cloud

_BASE = '/os-superpositions'


class AgainTest(cloud.CommandTest):

    def test_promoted_version_is_superposed_on_request(self) -> None:
        self.cloud.answer('POST', _BASE, {'superposition': {
            **cloud.SUPERPOSITION, 'predecessor': cloud.SECOND}}, status=201)
        seen = self.run_json('create', cloud.VOLUME, '--again')
        (request,) = self.cloud.to(_BASE)
        self.assertEqual({'superposition': {'volume_ids': [cloud.VOLUME], 'again': True}},
                         request.body)
        self.assertEqual('superposition 1.1', request.headers['OpenStack-API-Version'])
        self.assertEqual(cloud.SECOND, seen['predecessor'])

    def test_volume_stands_for_its_latest_superposition(self) -> None:
        self.volume()
        self.cloud.answer('GET', f'{_BASE}/detail', {'superpositions': [
            {**cloud.SUPERPOSITION, 'id': cloud.SECOND, 'state': 'promoted'},
            cloud.SUPERPOSITION]})
        self.assertEqual(cloud.ID, self.run_json('show', 'data')['id'])
