# SPDX-License-Identifier: Apache-2.0
"""Attachments show the current connection of a superposed volume."""

import ast
import pathlib
from typing import Any

from cinder import objects
import ddt

import specreds_cinder
from specreds_cinder import exception
from specreds_cinder.api import attachments
from specreds_cinder.service import hints
from specreds_cinder.tests.unit.api import base

_CINDERS = {'attachment_id': 'a', 'access_mode': 'rw', 'encrypted': False, 'qos_specs': None,
            'cacheable': False, 'enforce_multipath': False}
_STORED = {**_CINDERS, 'driver_volume_type': 'rbd', 'name': 'volumes/volume-1', 'hosts': ['old']}
_OVERLAY = {'id': base.ID, 'overlay': {'name': 'volumes/overlay-1'}}
_NOW = {'driver_volume_type': 'rbd_super',
        'data': {'name': 'volumes/volume-1', 'superposition': _OVERLAY}}
_CONNECTOR = {'host': 'node3'}


@ddt.ddt
class TestAttachments(base.APITestCase):

    def setUp(self) -> None:
        super().setUp()
        self.superposed()
        self.attachment = self.attached(_STORED)
        self.rpc.current_connection.return_value = _NOW

    def attached(self, stored: dict[str, Any] | None) -> str:
        """Attach the volume, and return the id of the attachment."""
        attachment = self.attach()
        if stored is not None:
            attachment.update({'connection_info': stored, 'connector': _CONNECTOR})
            attachment.save()
        return str(attachment.id)

    def shown(self, attachment_id: str, status: int = 200) -> Any:
        answer = self.ask('GET', f'/attachments/{attachment_id}', version='volume 3.71')
        self.assertEqual(status, answer.status, answer.body)
        return answer.body

    def info(self, attachment_id: str) -> Any:
        return self.shown(attachment_id)['attachment']['connection_info']

    def listed(self) -> Any:
        answer = self.ask('GET', '/attachments/detail', version='volume 3.71')
        self.assertEqual(200, answer.status, answer.body)
        return [each['connection_info'] for each in answer.body['attachments']]

    def test_superposed_volume_shows_its_current_connection(self) -> None:
        expected = {**_CINDERS, 'driver_volume_type': 'rbd_super', 'name': 'volumes/volume-1',
                    'superposition': _OVERLAY}
        self.assertEqual(expected, self.info(self.attachment))
        self.assertEqual({'volume_id': base.VOLUME, 'connector': _CONNECTOR, 'hand_out': True},
                         self.rpc.current_connection.call_args.kwargs)
        self.assertEqual([expected], self.listed())

    def test_merged_volume_shows_no_overlay(self) -> None:
        hints.remove([base.VOLUME], base.ID)
        stored = {**_CINDERS, 'driver_volume_type': 'rbd_super', 'name': 'volumes/volume-1',
                  'superposition': _OVERLAY}
        attachment = self.attached(stored)
        now = {'driver_volume_type': 'rbd', 'data': {'name': 'volumes/volume-1'}}
        self.rpc.current_connection.return_value = now
        self.assertEqual({**_CINDERS, 'driver_volume_type': 'rbd', 'name': 'volumes/volume-1'},
                         self.info(attachment))

    def test_volume_without_superposition_shows_what_is_stored(self) -> None:
        hints.remove([base.VOLUME], base.ID)
        self.assertEqual(_STORED, self.info(self.attachment))
        self.assertEqual([_STORED], self.listed())
        self.rpc.current_connection.assert_not_called()

    def test_reserved_attachment_has_no_connection(self) -> None:
        self.assertIsNone(self.info(self.attached(None)))
        self.rpc.current_connection.assert_not_called()

    def test_silent_back_end_returns_503_or_an_empty_connection(self) -> None:
        self.rpc.current_connection.side_effect = exception.SuperpositionUnavailable('no answer')
        self.assertIn('no answer', self.shown(self.attachment, 503)
                      ['serviceUnavailable']['message'])
        self.assertEqual([{}], self.listed())

    def test_index_asks_no_back_end(self) -> None:
        answer = self.ask('GET', '/attachments', version='volume 3.71')
        self.assertEqual([self.attachment], [each['id'] for each in answer.body['attachments']])
        self.rpc.current_connection.assert_not_called()

    def test_service_of_another_project_lists_attachments_of_a_server(self) -> None:
        self.attach(server_id=base.OTHER_ID)
        service = base.caller('admin', base.OTHER_PROJECT)
        for all_projects, listed in (('', []), ('all_tenants=1&', [self.attachment])):
            answer = self.ask(
                'GET', f'/attachments?{all_projects}instance_id={base.SERVER}', ctxt=service,
                version='volume 3.44')
            self.assertEqual(listed, [each['id'] for each in answer.body['attachments']])
            self.assertEqual({base.VOLUME} if listed else set(), {
                each['volume_id'] for each in answer.body['attachments']})

    @ddt.data(('promoted', base.SERVER, True), ('merging', base.SERVER, True),
              ('superposed', base.SERVER, False), ('promoted', base.OTHER_ID, False))
    @ddt.unpack
    def test_change_that_was_begun_since_the_decision_ends_when_nova_moves_the_volume(
            self, state: str, server_id: str, ends: bool) -> None:
        self.rpc.get.return_value = base.view(state=state)
        for status in ('detaching', 'backing-up'):
            objects.Volume.get_by_id(self.admin, base.VOLUME).conditional_update(
                {'status': status, 'attach_status': 'attached'})
            answer = self.ask('POST', '/attachments', {'attachment': {
                'volume_uuid': base.VOLUME, 'instance_uuid': server_id}}, version='volume 3.71')
            self.assertEqual((200, 'in-use') if ends else (400, status), (
                answer.status, objects.Volume.get_by_id(self.admin, base.VOLUME).status))

    def test_stranger_ends_no_change_of_a_volume(self) -> None:
        self.rpc.get.return_value = base.view(state='promoted')
        objects.Volume.get_by_id(self.admin, base.VOLUME).conditional_update(
            {'status': 'detaching', 'attach_status': 'attached'})
        stranger = base.caller('member', base.OTHER_PROJECT)
        answer = self.ask('POST', '/attachments', {'attachment': {
            'volume_uuid': base.VOLUME, 'instance_uuid': base.SERVER}}, ctxt=stranger,
            version='volume 3.71')
        self.assertEqual((404, 'detaching'), (
            answer.status, objects.Volume.get_by_id(self.admin, base.VOLUME).status))

    def test_connection_type_equals_that_of_the_driver(self) -> None:
        # The driver itself cannot be imported without Ceph's libraries.
        source = pathlib.Path(specreds_cinder.__file__).with_name('driver.py').read_text()
        assigned = {node.targets[0].id: node.value for node in ast.parse(source).body
                    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
        self.assertEqual(attachments.CONNECTION_TYPE,
                         ast.literal_eval(assigned['CONNECTION_TYPE']))
