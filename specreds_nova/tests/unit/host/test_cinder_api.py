# SPDX-License-Identifier: Apache-2.0
"""The requests to Cinder, and the meaning of its answers."""

import json
import pathlib
from typing import Any
from unittest import mock

from keystoneauth1 import exceptions

from specreds_nova import exception
from specreds_nova.host import cinder_api
from specreds_nova.tests.unit.host import base

_SAMPLES = pathlib.Path(__file__).parents[4] / 'doc' / 'api_samples'


def answer(sample: str) -> mock.Mock:
    """Return an answer of Cinder's API reference."""
    text = (_SAMPLES / f'{sample}.json').read_text()
    return mock.Mock(text=text, json=lambda: json.loads(text))


def failure(kind: type[exceptions.HttpError], body: dict[str, Any]) -> exceptions.HttpError:
    """Return an error of Cinder."""
    return kind(response=mock.Mock(text=json.dumps(body), json=lambda: body))


class StorageTest(base.TestCase):
    """Requests and answers."""

    def setUp(self) -> None:
        super().setUp()
        self.api = cinder_api.CinderAPI()
        self.adapter = self.api._adapter = mock.Mock()

    def answers(self, result: Any) -> None:
        if isinstance(result, Exception):
            self.adapter.request.side_effect = result
        else:
            self.adapter.request.return_value = result

    def asked(self) -> tuple[str, str, Any]:
        call = self.adapter.request.call_args
        self.assertEqual({'OpenStack-API-Version': 'superposition 1.0'}, call.kwargs['headers'])
        return call.args[1], call.args[0], call.kwargs['json']

    def test_state_is_read(self) -> None:
        self.answers(answer('superposition-show-response'))
        self.assertEqual('superposed', self.api.state('s1'))
        self.assertEqual(('GET', '/os-superpositions/s1?sizes=0', None), self.asked())

    def test_warming_up_lists_no_superpositions(self) -> None:
        self.answers(failure(exceptions.NotFound, {'itemNotFound': {'message': 'none'}}))
        self.api.warm_up()
        self.assertEqual(('GET', '/os-superpositions/none?sizes=0', None), self.asked())
        self.answers(failure(exceptions.NotFound, {'error': 'no such page'}))
        self.assertRaises(exception.SuperpositionRefused, self.api.warm_up)

    def test_missing_superposition_has_no_state(self) -> None:
        self.answers(failure(exceptions.NotFound, {'itemNotFound': {'message': 'none'}}))
        self.assertIsNone(self.api.state('s1'))

    def test_wrong_endpoint_is_an_error(self) -> None:
        self.answers(failure(exceptions.NotFound, {'error': 'no such page'}))
        self.assertRaises(exception.SuperpositionRefused, self.api.state, 's1')

    def test_unknown_state_is_an_error(self) -> None:
        self.answers(mock.Mock(json=lambda: {'superposition': {'state': 'unknown'}}))
        self.assertRaises(exception.SuperpositionUnknown, self.api.state, 's1')

    def test_silent_cinder_is_an_error(self) -> None:
        for error in (exceptions.ConnectFailure('refused'), exceptions.ConnectTimeout('late'),
                      failure(exceptions.ServiceUnavailable, {}),
                      failure(exceptions.InternalServerError, {}),
                      exceptions.EndpointNotFound()):
            self.answers(error)
            self.assertRaises(exception.SuperpositionUnknown, self.api.state, 's1')

    def test_connections_are_read(self) -> None:
        self.answers(answer('superposition-connection-response'))
        connections = self.api.connections('s1', {'host': base.HOST})
        volume_id = '0f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d01'
        self.assertEqual([volume_id], list(connections))
        self.assertEqual(('rbd_super', volume_id), (
            connections[volume_id]['driver_volume_type'], connections[volume_id]['serial']))
        self.assertEqual(('POST', '/os-superpositions/s1/connection',
                          {'connector': {'host': base.HOST}}), self.asked())

    def test_connections_of_disks_are_read_by_image(self) -> None:
        disk = f'{base.SERVER}_disk'
        for read, more in ((self.api.connections, {}),
                           (self.api.disk_connections, {'disks_only': True})):
            self.answers(mock.Mock(json=lambda: {'connections': [
                {'disk': disk, 'driver_volume_type': 'rbd_super', 'data': {}}]}))
            self.assertEqual({disk: {'driver_volume_type': 'rbd_super', 'data': {}}},
                             read('s1', {'host': base.HOST}))
            self.assertEqual(('POST', '/os-superpositions/s1/connection',
                              {'connector': {'host': base.HOST}, **more}), self.asked())

    def test_superpositions_of_disks_of_a_server_are_listed(self) -> None:
        listed = [{'id': 's1', 'state': 'merging', 'disks': ['d']},
                  {'id': 's2', 'state': 'unknown', 'disks': []}]
        self.answers(mock.Mock(json=lambda: {'superpositions': listed}))
        self.assertEqual({'s1': 'merging'}, self.api.with_disks(base.SERVER))
        self.assertEqual(
            f'/os-superpositions?all_tenants=1&server_id={base.SERVER}', self.asked()[1])
        listed[0]['state'] = 'unknown'
        self.assertRaises(exception.SuperpositionUnknown, self.api.with_disks, base.SERVER)

    def test_superpositions_of_a_volume_are_listed(self) -> None:
        listed = [{'id': 's1', 'state': 'promoted'}]
        self.answers(mock.Mock(json=lambda: {'superpositions': listed}))
        self.assertEqual({'s1': 'promoted'}, self.api.with_volume(base.SERVER, 'v1'))
        self.assertEqual(
            f'/os-superpositions?all_tenants=1&server_id={base.SERVER}&volume_id=v1',
            self.asked()[1])
        listed[0]['state'] = 'unknown'
        self.assertRaises(exception.SuperpositionUnknown, self.api.with_volume, base.SERVER, 'v1')

    def test_cinder_without_superpositions_has_none(self) -> None:
        self.answers(failure(exceptions.NotFound, {}))
        self.assertEqual({}, self.api.with_volume(base.SERVER, 'v1'))
        self.answers(failure(exceptions.NotFound, {}))
        self.assertEqual({}, self.api.with_disks(base.SERVER))
        self.answers(failure(exceptions.Forbidden, {}))
        self.assertRaises(exception.SuperpositionRefused, self.api.with_volume, base.SERVER, 'v1')

    def test_refusal_has_the_message_of_cinder(self) -> None:
        body = json.loads((_SAMPLES / 'superposition-conflict-response.json').read_text())
        self.answers(failure(exceptions.Conflict, body))
        error = self.assertRaises(exception.SuperpositionRefused, self.api.connections, 's1',
                                  {})
        self.assertIn('it can only be merged', str(error))

    def test_merge_is_requested(self) -> None:
        self.api.merge('s1', 'end')
        self.assertEqual(('POST', '/os-superpositions/s1/merge', {'merge': {'step': 'end'}}),
                         self.asked())

    def test_reasons_of_volumes_are_listed(self) -> None:
        self.answers(answer('superposition-eligibility-response'))
        self.assertEqual([
            'volume 1f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d02: it can be attached several times: '
            'there must be one primary'], self.api.reasons(['v1', 'v2']))
        self.assertEqual('/os-superpositions/eligibility?volume_id=v1&volume_id=v2',
                         self.asked()[1])

    def test_missing_credentials_are_an_error(self) -> None:
        cinder = cinder_api.CinderAPI()
        with mock.patch('keystoneauth1.loading.load_auth_from_conf_options', return_value=None):
            error = self.assertRaises(exception.SuperpositionUnknown, cinder.state, 's1')
        self.assertIn('[cinder]', str(error))
