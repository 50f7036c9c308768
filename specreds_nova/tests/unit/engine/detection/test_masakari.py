# SPDX-License-Identifier: Apache-2.0
"""Masakari's notifications as evidence."""

import threading
import time
from typing import Any
from unittest import mock

import ddt
import oslo_messaging as messaging
from oslo_messaging import conffixture
from oslo_utils import timeutils

from specreds_nova.engine import exception
from specreds_nova.engine.clients import clock as clocks
from specreds_nova.engine.clients import rest
from specreds_nova.engine.detection import evidence
from specreds_nova.engine.detection import masakari
from specreds_nova.tests.unit.engine.clients import base

_HOST = '11111111-1111-4111-8111-111111111111'
_OTHER = '22222222-2222-4222-8222-222222222222'
_FAILED = {'event': 'STOPPED', 'cluster_status': 'OFFLINE', 'host_status': 'NORMAL'}
_PATIENCE = 60.0


def _payload(payload_status: Any, host: str = _HOST, kind: str = 'COMPUTE_HOST') -> dict[str, Any]:
    return {'masakari_object.name': 'NotificationApiPayload',
            'masakari_object.namespace': 'masakari', 'masakari_object.version': '1.0',
            'masakari_object.data': {
                'id': 1, 'type': kind, 'source_host_uuid': host, 'payload': payload_status,
                'notification_uuid': _OTHER, 'status': 'new', 'fault': None,
                'generated_time': '2026-01-02T03:04:05Z'}}


class _Monitor:
    """A monitor that records evidence."""

    def __init__(self) -> None:
        self.payload_status: list[tuple[Any, ...]] = []
        self.enough = threading.Event()

    def look(self, host: str) -> object | None:
        """Return whether the host is known."""
        return host if host in ('cn1', 'cn2.example.org') else None

    def note(self, host: str, kind: str, measured: object, share: float = 1.0) -> None:
        """Record evidence."""
        self.payload_status.append((host, kind, share, measured))
        self.enough.set()

    def withdraw(self, host: str, kind: str) -> None:
        """Record that evidence is withdrawn."""
        self.payload_status.append((host, kind))


@ddt.ddt
class EndpointTest(base.ServiceTest):
    """Single notifications."""

    def setUp(self) -> None:
        super().setUp()
        self.monitor = _Monitor()
        self.clock = clocks.Clock()
        self.session.answer('GET', '/segments', {'segments': [{'uuid': 's1'}, {'uuid': 's2'}]})
        self.session.answer('GET', '/segments/s1/hosts', {'hosts': []})
        self.session.answer('GET', '/segments/s2/hosts', {'hosts': [
            {'uuid': _HOST, 'name': 'cn1.example.org'}]})
        self.names = masakari.Names(rest.Service(
            self.session, self.conf, 'Masakari', 'instance-ha'), self.clock)
        self.endpoint = masakari.Endpoint(self.monitor, self.clock, self.names.name, 60.0)

    def _notify(self, payload: Any, timestamp: str | None = None) -> None:
        self.endpoint.info({}, 'masakari-api:c1', 'notification.create.end', payload,
                           {'timestamp': timestamp or str(timeutils.utcnow())})

    def test_failed_host_is_evidence(self) -> None:
        self._notify(_payload(_FAILED))
        self.assertEqual([('cn1', evidence.MASAKARI, 1.0, 'its cluster has lost it')],
                         self.monitor.payload_status)

    def test_returned_host_withdraws_the_evidence(self) -> None:
        self._notify(_payload({'event': 'STARTED', 'cluster_status': 'ONLINE',
                               'host_status': 'NORMAL'}))
        self.assertEqual([('cn1', evidence.MASAKARI)], self.monitor.payload_status)

    @ddt.data({**_FAILED, 'host_status': 'UNKNOWN'}, {**_FAILED, 'cluster_status': 'ONLINE'}, {},
              None, 'STOPPED')
    def test_other_events_are_ignored(self, payload_status: Any) -> None:
        self._notify(_payload(payload_status))
        self.assertEqual([], self.monitor.payload_status)

    @ddt.data('VM', 'PROCESS')
    def test_notification_about_a_server_is_ignored(self, kind: str) -> None:
        self._notify(_payload(_FAILED, kind=kind))
        self.assertEqual([], self.monitor.payload_status)

    def test_old_notification_is_ignored(self) -> None:
        self._notify(_payload(_FAILED), '2026-01-02 03:04:05.000000')
        self.assertEqual([], self.monitor.payload_status)

    @ddt.data(None, {}, {'masakari_object.data': {}}, 'nonsense')
    def test_malformed_notification_is_ignored(self, payload: Any) -> None:
        self._notify(payload)
        self._notify(_payload(_FAILED), 'yesterday')
        self.assertEqual([], self.monitor.payload_status)

    def test_host_unknown_to_masakari_is_ignored(self) -> None:
        for _ in range(3):
            self._notify(_payload(_FAILED, _OTHER))
        self.assertEqual([], self.monitor.payload_status)
        self.assertEqual(3, len(self.session.calls))

    def test_unreachable_masakari_is_tolerated(self) -> None:
        self.session.fail('GET', '/segments', 503)
        self._notify(_payload(_FAILED))
        self.assertEqual([], self.monitor.payload_status)
        self.assertRaises(exception.Unreachable, self.names.name, _HOST)


class ListenerTest(base.ServiceTest):
    """The listener on a bus of oslo.messaging."""

    def setUp(self) -> None:
        super().setUp()
        fixture = self.useFixture(conffixture.ConfFixture(self.conf))
        fixture.transport_url = 'fake:/'
        self.monitor = _Monitor()

    def _listener(self) -> masakari.Listener:
        with mock.patch.object(rest, 'session', return_value=self.session):
            return masakari.Listener(self.conf, 'e1', self.monitor, clocks.Clock())

    def test_listener_is_disabled_by_default(self) -> None:
        listener = self._listener()
        listener.start()
        listener.stop(_PATIENCE)
        self.assertEqual([], self.session.calls)

    def test_sent_notification_is_received(self) -> None:
        self.conf.set_override('masakari_topics', ['notifications'], 'engine')
        self.session.answer('GET', '/segments', {'segments': [{'uuid': 's1'}]})
        self.session.answer('GET', '/segments/s1/hosts', {'hosts': [
            {'uuid': _HOST, 'name': 'cn2.example.org'}]})
        listener = self._listener()
        listener.start()
        self.addCleanup(listener.stop, _PATIENCE)
        self.conf.set_override('control_exchange', 'masakari')
        transport = messaging.get_notification_transport(self.conf)
        notifier = messaging.Notifier(transport, 'masakari-api:c1', driver='messaging',
                                      topics=['notifications'])
        until = time.monotonic() + _PATIENCE
        while not self.monitor.enough.wait(0.05) and time.monotonic() < until:
            notifier.info({}, 'notification.delete.end', _payload(_FAILED))
            notifier.info({}, 'notification.create.end', _payload(_FAILED))
        self.assertEqual({('cn2.example.org', evidence.MASAKARI, 1.0, 'its cluster has lost it')},
                         set(self.monitor.payload_status))
