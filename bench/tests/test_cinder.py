# SPDX-License-Identifier: Apache-2.0
"""The benchmark of Cinder: its requests to the API, and what it computes from the answers."""

import types
from typing import Any
from unittest import mock

import testtools

from bench import cinder
from bench import report
from specreds_cinder.tests.unit.osc import cloud

_OWN = f'/os-superpositions/{cloud.ID}'
_DURATIONS = {'rpc': 0.2, 'storage': 0.05}


class ApiTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        patched = mock.patch('time.sleep')
        patched.start()
        self.addCleanup(patched.stop)
        self.cloud = cloud.Cloud()
        self.cloud.answer('GET', '/os-superpositions', {'superpositions': []})
        openstack: Any = types.SimpleNamespace(session=lambda: self.cloud.connection.session)
        self.api = cinder.Api(openstack)

    def _collapsed(self, outcome: str) -> None:
        self.cloud.answer('POST', f'{_OWN}/collapse',
                          {'collapse': {'outcome': outcome, 'durations': _DURATIONS}})

    def test_parts_add_up(self) -> None:
        self.cloud.answer('POST', '/os-superpositions', {
            'superposition': {**cloud.SUPERPOSITION, 'durations': _DURATIONS}}, status=201)
        superposition_id, took = self.api.create([cloud.VOLUME])
        self.assertEqual(cloud.ID, superposition_id)
        self.assertAlmostEqual(took.total, took.http + took.rpc + took.storage)
        self.assertEqual((0.05, 0.15), (took.storage, round(took.rpc, 6)))

    def test_promoted_superposition_is_merged_before_the_next_round(self) -> None:
        self._collapsed('promoted')
        self.cloud.answer('POST', f'{_OWN}/merge', None, status=202)
        self.cloud.answer('GET', _OWN, {'superposition': cloud.SUPERPOSITION})
        self.cloud.fault('GET', _OWN, 404, 'gone', 'itemNotFound')
        self.api.promote(cloud.ID)
        self.assertEqual(['POST', 'POST', 'GET', 'GET'],
                         [request.method for request in self.cloud.requests[1:]])

    def test_unexpected_outcome_is_an_error(self) -> None:
        self._collapsed('dirty')
        error = self.assertRaises(RuntimeError, self.api.promote, cloud.ID)
        self.assertIn('ended dirty', str(error))

    def test_volume_that_cannot_be_created_is_an_error(self) -> None:
        self.cloud.answer('POST', '/volumes', {'volume': {'id': cloud.VOLUME}}, status=202)
        for status in ('creating', 'error'):
            self.cloud.answer('GET', f'/volumes/{cloud.VOLUME}', {'volume': {'status': status}})
        error = self.assertRaises(RuntimeError, self.api.volumes, 1, 'rbd')
        self.assertIn('state error', str(error))


class FiguresTest(testtools.TestCase):

    def test_every_bar_is_measured(self) -> None:
        took = [cinder.split(0.25, _DURATIONS)]
        fake: Any = mock.MagicMock()
        with mock.patch.object(cinder, 'Api') as api, mock.patch('bench.primary.attached'), \
                mock.patch('bench.environment.connected'):
            api.return_value.volumes.return_value = [cloud.VOLUME]
            api.return_value.create.return_value = (cloud.ID, took[0])
            api.return_value.promote.return_value = took[0]
            figures = cinder.run(fake, fake, 1, None)
        self.assertEqual([], [bar.key for bar in report.BARS
                              if bar.key.startswith('cinder.') and bar.key not in figures])
        self.assertEqual(250, figures['cinder.super_ms'])
        self.assertEqual(50, round(figures['cinder.collapse_storage_ms']))
