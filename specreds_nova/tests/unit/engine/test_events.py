# SPDX-License-Identifier: Apache-2.0
"""Metrics and notifications of an engine."""

import ipaddress
import re
import threading
from typing import Any
from unittest import mock

from oslo_config import cfg
import oslo_messaging as messaging
from oslo_messaging.notify import _impl_test
import requests
import testtools

from specreds_nova.engine import conf as engine_conf
from specreds_nova.engine import events
from specreds_nova.engine import metrics
from specreds_nova.engine import model
from specreds_nova.engine import notify
from specreds_nova.tests.unit.engine.api import base
from specreds_nova.tests.unit.engine.store import base as db_base


class MetricsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        self.metrics = metrics.Metrics()

    def value(self, name: str) -> float:
        """Return the value of a metric with labels."""
        match = re.search(f'^{re.escape(name)} (.*)$', self.metrics.text(), re.MULTILINE)
        assert match, self.metrics.text()
        return float(match[1])

    def test_initial_values_are_zero(self) -> None:
        for outcome in model.OUTCOMES:
            self.assertEqual(0, self.value(f'specreds_recoveries_total{{outcome="{outcome}"}}'))
        self.assertEqual(0, self.value('specreds_hosts{state="suspected"}'))

    def test_events_are_counted(self) -> None:
        self.metrics.beats.inc(5)
        self.metrics.beats.inc()
        self.metrics.suspicions.inc()
        self.metrics.suspicions.inc()
        self.metrics.false_suspicions.inc()
        self.metrics.ended.labels(model.PRIMARY).inc()
        self.metrics.backups.set(3)
        self.metrics.hosts.set({model.TRUSTED: 9, model.FENCED: 1})
        self.metrics.active.set({model.RACING: 2})
        self.metrics.steps.labels('super').observe(0.03)
        self.metrics.steps.labels('super').observe(0.2)
        self.assertEqual(
            [6, 2, 1, 1, 3, 9, 0, 1, 2, 2, 1],
            [self.value(name) for name in (
                'specreds_heartbeats_total', 'specreds_suspicions_total',
                'specreds_false_suspicions_total', 'specreds_recoveries_total{outcome="primary"}',
                'specreds_backups_running', 'specreds_hosts{state="trusted"}',
                'specreds_hosts{state="suspected"}', 'specreds_hosts{state="fenced"}',
                'specreds_active_recoveries{state="racing"}',
                'specreds_step_seconds_count{step="super"}',
                'specreds_step_seconds_bucket{le="0.05",step="super"}')])

    def test_holds_are_counted_with_their_ends(self) -> None:
        sent = mock.Mock(spec=notify.Notifications)
        observer = events.Observer(self.metrics, sent)
        names = ('specreds_holds_total{phase="begun"}', 'specreds_holds_total{phase="ended"}')
        self.assertEqual([0, 0], [self.value(name) for name in names])
        for phase in ('hold', 'suspect', 'hold', 'release', 'clear'):
            observer.host(phase, model.Host('node1'))
        self.assertEqual([2, 1], [self.value(name) for name in names])
        self.assertIn(mock.call('release', model.Host('node1')), sent.host.mock_calls)

    def test_sentinels_are_counted_by_state(self) -> None:
        name = 'specreds_sentinels{{state="{}"}}'.format
        states = (model.LIVE, model.SILENT, model.UNLEASED, 'unknown')
        self.assertEqual([0] * 4, [self.value(name(state)) for state in states])
        self.metrics.sentinels.set({model.LIVE: 7, model.SILENT: 2, None: 1})
        self.assertEqual([7, 2, 0, 1], [self.value(name(state)) for state in states])

    def test_hosts_are_counted_by_mode(self) -> None:
        self.metrics.modes.set({model.ACT: 2, model.PAUSE: 1})
        self.assertEqual([2, 0, 1], [self.value(f'specreds_host_modes{{mode="{mode}"}}')
                                     for mode in (model.ACT, model.OBSERVE, model.PAUSE)])

    def test_removed_hosts_have_no_metrics(self) -> None:
        self.metrics.hosts.set({model.SUSPECTED: 1})
        self.metrics.hosts.set({model.TRUSTED: 1})
        self.assertEqual(0, self.value('specreds_hosts{state="suspected"}'))

    def test_metrics_are_served_over_http(self) -> None:
        problems: list[str] = []
        port = self.metrics.serve(0, '127.0.0.1', lambda: problems)
        self.metrics.beats.inc(3)
        self.assertIn('specreds_heartbeats_total 3.0', self._read(port, '/metrics', 200))
        self.assertEqual('ok\n', self._read(port, '/health', 200))
        problems.append('thread detector has failed: no')
        self.assertEqual('thread detector has failed: no\n', self._read(port, '/health', 503))

    def test_metrics_are_served_to_their_own_machine_by_default(self) -> None:
        conf = cfg.ConfigOpts()
        engine_conf.register(conf)
        conf([], default_config_files=[], default_config_dirs=[])
        self.assertTrue(ipaddress.ip_address(conf.engine.metrics_host).is_loopback)

    def _read(self, port: int, path: str, status: int) -> str:
        answer = requests.get(f'http://127.0.0.1:{port}{path}', timeout=30)
        self.assertEqual(status, answer.status_code)
        return answer.text


class NotificationsTest(testtools.TestCase):

    def setUp(self) -> None:
        super().setUp()
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        # This call registers the options.
        messaging.get_notification_transport(conf, url='fake:')
        conf.set_override('driver', ['test'], 'oslo_messaging_notifications')
        conf.set_override('transport_url', 'fake:', 'oslo_messaging_notifications')
        self.conf = conf
        self.notifications = notify.from_conf(conf, 'engine1')
        _impl_test.reset()
        self.addCleanup(_impl_test.reset)

    def sent(self) -> tuple[str, str, Any]:
        """Return event, priority and payload of the notification that was sent."""
        self.notifications.flush()
        ((_context, message, priority, _retry),) = _impl_test.NOTIFICATIONS
        self.assertEqual('specreds-engine.engine1', message['publisher_id'])
        return message['event_type'], priority, message['payload']

    def test_recovery_is_notified(self) -> None:
        self.notifications.recovery('end', db_base.make_recovery(
            id=base.ID, server=base.SERVER, state=model.ENDED, outcome=model.RECOVERED,
            destination='node2', superposition='s1', engine='engine1', why=base.WHY,
            ended=1003.0, bytes=4096, steps=(
                model.Step('super', 1, 'engine1', 1000.0), model.Step(
                    'super', 2, 'engine1', 1001.0, 1001.25))))
        event, priority, payload = self.sent()
        self.assertEqual(('recovery.end', 'INFO'), (event, priority))
        self.assertEqual({
            'specreds_object.name': 'RecoveryPayload',
            'specreds_object.version': '1.0',
            'specreds_object.namespace': 'specreds',
            'specreds_object.data': {
                'id': base.ID, 'state': 'ended', 'outcome': 'recovered',
                'server_id': base.SERVER, 'server_name': 'vm1', 'project_id': 'p1',
                'host': 'node1', 'destination': 'node2', 'superposition_id': 's1',
                'engine': 'engine1', 'why': ['no heartbeat for 0.9 s'],
                'suspected_at': '1970-01-01T00:16:39Z', 'ended_at': '1970-01-01T00:16:43Z',
                'steps': {'super': 0.25}, 'merged_bytes': 4096, 'error': None,
            }}, payload)

    def test_without_a_driver_no_payload_is_made(self) -> None:
        self.conf.set_override('driver', [], 'oslo_messaging_notifications')
        silent = notify.from_conf(self.conf, 'engine1')
        with mock.patch.object(notify, 'RecoveryPayload') as payload:
            silent.recovery('end', db_base.make_recovery())
        silent.flush()
        payload.assert_not_called()

    def test_host_is_notified(self) -> None:
        self.notifications.host('suspect', model.Host(
            'node1', model.SUSPECTED, 3, 1000.0, base.WHY, flaps=1))
        event, priority, payload = self.sent()
        self.assertEqual(('host.suspect', 'INFO', '1.0'),
                         (event, priority, payload['specreds_object.version']))
        self.assertEqual({
            'name': 'node1', 'state': 'suspected', 'since': '1970-01-01T00:16:40Z',
            'why': ['no heartbeat for 0.9 s'], 'word': None, 'word_reason': None, 'flaps': 1,
            'held': [],
        }, payload['specreds_object.data'])

    def test_held_host_is_notified(self) -> None:
        self.notifications.host('hold', model.Host('node1', held=('8 of 9 are silent',)))
        event, _, payload = self.sent()
        data = payload['specreds_object.data']
        self.assertEqual(('host.hold', 'held', ['8 of 9 are silent']),
                         (event, data['state'], data['held']))

    def test_error_has_the_priority_error(self) -> None:
        self.notifications.recovery('error', db_base.make_recovery(error='no'))
        self.assertEqual(('recovery.error', 'ERROR'), self.sent()[:2])

    def test_failed_recovery_has_the_priority_error(self) -> None:
        self.notifications.recovery('end', db_base.make_recovery(
            state=model.ENDED, outcome=model.FAILED, ended=1003.0, error='no'))
        self.assertEqual(('recovery.end', 'ERROR'), self.sent()[:2])

    def test_unreachable_broker_does_not_block(self) -> None:
        with mock.patch.object(_impl_test.TestDriver, 'notify', side_effect=OSError('no')):
            self.notifications.host('clear', model.Host('node1'))
            self.notifications.flush()
        self.assertEqual([], _impl_test.NOTIFICATIONS)
        self.notifications.host('clear', model.Host('node1'))
        self.assertEqual('host.clear', self.sent()[0])

    def test_hanging_broker_does_not_block(self) -> None:
        answer = threading.Event()
        with mock.patch.object(_impl_test.TestDriver, 'notify',
                               side_effect=lambda *_args, **_kwargs: answer.wait()) as tell:
            for _ in range(3000):
                self.notifications.host('clear', model.Host('node1'))
            answer.set()
            self.notifications.flush()
        self.assertIn(tell.call_count, (1000, 1001))
