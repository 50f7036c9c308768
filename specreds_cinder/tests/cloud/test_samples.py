# SPDX-License-Identifier: Apache-2.0
"""The samples of the API reference have the shape of a real cloud's answers."""

from typing import Any
import uuid

from specreds_cinder.tests import api_samples
from specreds_cinder.tests.cloud import base


class SamplesTest(base.CloudTestCase):

    def assert_like(self, name: str, live: Any) -> None:
        """Compare a sample with an answer."""
        self.assertEqual([], api_samples.differences(api_samples.load(name), live))

    def superpositions_at(self, path: str) -> list[dict[str, Any]]:
        """Return a list that is not empty."""
        superpositions: list[dict[str, Any]] = self.request('GET', path)['superpositions']
        self.assertNotEqual([], superpositions)
        return superpositions

    def test_answers_have_the_shape_of_the_samples(self) -> None:
        volume = self.make_volume()
        server = str(uuid.uuid4())
        self.attach(volume['id'], server)
        query = f'volume_id={volume["id"]}'
        self.assert_like('superposition-eligibility-response', self.request(
            'GET', f'/os-superpositions/eligibility?{query}'))
        body = api_samples.load('superposition-create-request')
        body['superposition'].update(volume_ids=[volume['id']], server_id=server)
        made = self.request('POST', '/os-superpositions', body, expect=201)
        self.assert_like('superposition-create-response', made)
        superposition_id = made['superposition']['id']
        self.addCleanup(self.end, superposition_id)
        path = f'/os-superpositions/{superposition_id}'

        self.assert_like('superposition-show-response', self.request('GET', path))
        for name, where in (('list', ''), ('detail', '/detail')):
            # Only a page with a next one has a link to it.
            sample = api_samples.load(f'superpositions-{name}-response')['superpositions']
            self.assertEqual([], api_samples.differences(sample, self.superpositions_at(
                f'/os-superpositions{where}?all_tenants=1&sizes=1&{query}')))
        self.assert_like('superposition-check-response', self.request(
            'POST', f'{path}/check'))
        self.assert_like('superposition-connection-response', self.request(
            'POST', f'{path}/connection', api_samples.load('superposition-connection-request')))
        self.assert_like('volume-superposed-response', self.request(
            'POST', f'/volumes/{volume["id"]}/action', {'os-extend': {'new_size': 2}},
            expect=409))
        self.assert_like('superposition-promote-response', self.request(
            'POST', f'{path}/collapse', api_samples.load('superposition-promote-request')))
        self.assert_like('superposition-conflict-response', self.request(
            'DELETE', path, expect=409))

    def test_answer_of_an_abort_has_the_shape_of_the_sample(self) -> None:
        made = self.superpose(self.make_volume()['id'])
        self.assert_like('superposition-abort-response', self.request(
            'POST', f'/os-superpositions/{made["id"]}/collapse',
            api_samples.load('superposition-abort-request')))
