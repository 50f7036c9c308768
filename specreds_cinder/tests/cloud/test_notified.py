# SPDX-License-Identifier: Apache-2.0
"""A superposition can be followed on the message bus and in the log."""

import queue
from typing import Any

from oslo_config import cfg
import oslo_messaging as messaging

from specreds_cinder.tests.cloud import base

_SECONDS = 60


class Listener:
    """Collects Cinder's notifications on superpositions.

    :param url: of the message bus
    """

    def __init__(self, url: str) -> None:
        self._arrived: queue.SimpleQueue[tuple[str, dict[str, Any]]] = queue.SimpleQueue()
        conf = cfg.ConfigOpts()
        conf([])
        transport = messaging.get_notification_transport(conf, url=url)
        # A pool of its own: other listeners get their copies.
        self.listener = messaging.get_notification_listener(
            transport, [messaging.Target(topic='notifications')], [self],
            executor='threading', pool='specreds-tests')

    def info(self, _ctxt: Any, _publisher: str, event: str, payload: Any, _meta: Any) -> None:
        """Receive a notification."""
        if event.startswith('superposition.'):
            self._arrived.put((event, payload))

    error = info

    def until(self, last: str, superposition_id: str) -> dict[str, dict[str, Any]]:
        """Wait for an event, and return all payloads until then by event."""
        came = {}
        while last not in came:
            event, payload = self._arrived.get(timeout=_SECONDS)
            if payload['specreds_object.data']['id'] == superposition_id:
                came[event] = payload['specreds_object.data']
        return came


class NotificationsTest(base.CloudTestCase):

    def setUp(self) -> None:
        super().setUp()
        self.volume_ = self.make_volume()
        self.listener = Listener(self.cloud.rabbit_url)
        self.listener.listener.start()
        self.addCleanup(self.listener.listener.wait)
        self.addCleanup(self.listener.listener.stop)

    def test_creation_collapse_and_merge_are_notified(self) -> None:
        made = self.superpose(self.volume_['id'], reason='a test')
        self.collapse(made['id'])
        self.merge(made['id'])
        came = self.listener.until('superposition.merge.end', made['id'])
        self.assertEqual({f'superposition.{what}.{when}' for what in (
            'create', 'collapse', 'merge') for when in ('start', 'end')}, set(came))
        decided = came['superposition.collapse.end']
        self.assertEqual(('promoted', 'promote', 'a test', [self.volume_['id']]), (
            decided['outcome'], decided['decision'], decided['reason'], decided['volumes']))
        self.assertLess(0, decided['durations']['total'])
        self.assertLess(0, came['superposition.create.end']['durations']['total'])

    def test_write_is_notified(self) -> None:
        primary = self.make_primary(self.volume_)
        made = self.superpose(self.volume_['id'])
        self.assertEqual(0, primary.write(1 << 20, 0x51))
        came = self.listener.until('superposition.dirty', made['id'])
        self.assertIn('was written', came['superposition.dirty']['dirty_object'])

    def test_dirty_collapse_is_notified(self) -> None:
        made = self.superpose(self.volume_['id'])
        self.make_primary(self.volume_)
        self.assertEqual('dirty', self.collapse(made['id'])['outcome'])
        came = self.listener.until('superposition.collapse.end', made['id'])
        self.assertEqual('dirty', came['superposition.collapse.end']['outcome'])

    def test_log_has_the_request_of_each_step(self) -> None:
        response = self.api().post('/os-superpositions', json={
            'superposition': {'volume_ids': [self.volume_['id']]}})
        self.assertEqual(201, response.status_code)
        made = response.json()['superposition']
        self.addCleanup(self.end, made['id'])
        request = response.headers['x-openstack-request-id']
        self.assertEqual(request, made['request_id'])
        log = self.cloud.log_of('cinder-volume-rbd').read_text()
        lines = [line for line in log.splitlines() if request in line]
        # The volume service and its worker log a line each.
        for logger in ('specreds_cinder.service', 'specreds_cinder.superposition.steps'):
            self.assertTrue([line for line in lines if logger in line and made['id'] in line],
                            f'{logger} says nothing of {request}')
