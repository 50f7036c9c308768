# SPDX-License-Identifier: Apache-2.0
"""Notifications of superpositions, through oslo.messaging's own notifier."""

import json
import pathlib
import re
from typing import Any
from unittest import mock

from cinder import context
from cinder import rpc
import ddt
from oslo_config import cfg
from oslo_config import fixture as config_fixture
import oslo_messaging as messaging
from oslo_messaging.notify import _impl_test
from oslo_versionedobjects import fixture
import testtools

import specreds_cinder
from specreds_cinder.service import notifications

_HOST = 'node1@rbd'
_ID = 'b6a1d7f0-5c56-4a52-8f50-3a2f6c1f7d10'
_VOLUME = '0f9c2c7e-8a77-4e4b-b6d0-0a9a4b6c9d01'
_VIEW: dict[str, Any] = {
    'id': _ID, 'state': 'promoted', 'outcome': 'promoted', 'created_at': '2026-01-02T03:04:05Z',
    'reason': 'host gone', 'server_id': 'vm1', 'project_id': 'p1', 'user_id': 'u1',
    'members': [_HOST], 'volumes': [{'id': _VOLUME, 'size_bytes': 1, 'overlay_bytes': 7}],
    'overlay_bytes': 7, 'dirty': None, 'dirty_object': None, 'fenced': 2,
}


@ddt.ddt
class EmitTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        transport = messaging.get_notification_transport(cfg.CONF, url='fake:')
        self.useFixture(config_fixture.Config(cfg.CONF)).config(
            driver=['test'], group='oslo_messaging_notifications')
        notifier = messaging.Notifier(
            transport,
            serializer=rpc.RequestContextSerializer(messaging.JsonPayloadSerializer()))
        patched = mock.patch.object(rpc, 'NOTIFIER', notifier)
        patched.start()
        self.addCleanup(patched.stop)
        self.addCleanup(_impl_test.reset)
        _impl_test.reset()
        self.context = context.RequestContext('u1', 'p1', is_admin=False, request_id='req-1')

    def _sent(self) -> tuple[dict[str, Any], str]:
        ((ctxt, message, priority, _retry),) = _impl_test.NOTIFICATIONS
        self.assertEqual('req-1', ctxt['request_id'])
        self.assertEqual(f'volume.{_HOST}', message['publisher_id'])
        return message, priority

    def test_payload_has_all_fields(self) -> None:
        notifications.emit(self.context, _HOST, 'superposition.collapse.end', _VIEW,
                           decision='promote', durations={'sweep1': 0.5, 'sweep2': None})
        message, priority = self._sent()
        self.assertEqual('superposition.collapse.end', message['event_type'])
        self.assertEqual('INFO', priority)
        self.assertEqual({
            'specreds_object.name': 'SuperpositionPayload',
            'specreds_object.version': '1.0',
            'specreds_object.namespace': 'specreds',
            'specreds_object.data': {
                'id': _ID, 'state': 'promoted', 'outcome': 'promoted', 'decision': 'promote',
                'volumes': [_VOLUME], 'server_id': 'vm1', 'project_id': 'p1', 'user_id': 'u1',
                'reason': 'host gone', 'host': _HOST, 'durations': {'sweep1': 0.5},
                'dirty_object': None, 'overlay_bytes': 7, 'error': None,
            },
        }, message['payload'])

    def test_start_of_a_creation_has_no_volumes(self) -> None:
        notifications.emit(self.context, _HOST, 'superposition.create.start', {'id': _ID})
        data = self._sent()[0]['payload']['specreds_object.data']
        self.assertEqual((_ID, [], None), (data['id'], data['volumes'], data['durations']))

    @ddt.data('create', 'collapse', 'merge')
    def test_failure_has_priority_error(self, what: str) -> None:
        notifications.emit(self.context, _HOST, f'superposition.{what}.error', _VIEW,
                           error='Ceph is away')
        message, priority = self._sent()
        self.assertEqual('ERROR', priority)
        self.assertEqual('Ceph is away', message['payload']['specreds_object.data']['error'])

    @ddt.data(('no.such', _VIEW), ('superposition.dirty', {}),
              ('superposition.dirty', {**_VIEW, 'overlay_bytes': 'many'}))
    @ddt.unpack
    def test_invalid_notification_is_logged(self, event: str, view: dict[str, Any]) -> None:
        with mock.patch.object(notifications.LOG, 'exception') as logged:
            notifications.emit(self.context, _HOST, event, view)
        logged.assert_called_once()
        self.assertEqual([], _impl_test.NOTIFICATIONS)

    def test_failure_of_the_broker_is_logged(self) -> None:
        with mock.patch.object(rpc, 'get_notifier', side_effect=messaging.MessagingException), \
                mock.patch.object(notifications.LOG, 'exception') as logged:
            notifications.emit(self.context, _HOST, 'superposition.dirty', _VIEW)
        logged.assert_called_once()


class DocsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.page = (pathlib.Path(specreds_cinder.__file__).parents[1] /
                     'doc/source/notifications.rst').read_text()

    def test_page_has_every_event(self) -> None:
        documented = re.findall(r'^``(superposition[.][a-z.]+)``', self.page, re.MULTILINE)
        self.assertEqual(sorted(notifications.EVENTS), sorted(documented))

    def test_page_has_every_field(self) -> None:
        documented = re.findall(r'^``([a-z_]+)``', self.page, re.MULTILINE)
        self.assertEqual(sorted(notifications.SuperpositionPayload.fields), sorted(documented))

    def test_sample_of_the_page_is_a_payload(self) -> None:
        sample = json.loads(self.page.split('.. code-block:: json')[1].split('\n\n=')[0])
        payload = notifications.SuperpositionPayload.obj_from_primitive(sample)
        self.assertEqual(sample, payload.obj_to_primitive())
        self.assertEqual(set(payload.fields), set(sample['specreds_object.data']))


class VersionTest(testtools.TestCase):

    def test_changed_payload_needs_another_version(self) -> None:
        payload = notifications.SuperpositionPayload
        checker = fixture.ObjectVersionChecker({payload.obj_name(): [payload]})
        self.assertEqual({'SuperpositionPayload': '1.0-b365e2e9aea1aa5fb08feefe05c06d02'},
                         checker.get_hashes())
