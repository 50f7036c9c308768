# SPDX-License-Identifier: Apache-2.0
"""The report of a ready backup, and its owner's timeout."""

from typing import Any
from unittest import mock

import fixtures
import testtools

from specreds_nova.host.backup import journal as journals
from specreds_nova.host.backup import readiness
from specreds_nova.host.ready import conditions

_PARSE = conditions.parse


class WatchesTest(testtools.TestCase):
    """The watches of a running backup."""

    def setUp(self) -> None:
        super().setUp()
        self.watch = self._patch('specreds_nova.host.ready.watching.watch')
        self.frames = self._patch('specreds_nova.host.ready.watching.watch_frames')
        self.condition = conditions.Condition(conditions.Kind.TCP, '80', 60.0, explicit=True)
        parse = self._patch('specreds_nova.host.ready.conditions.parse')
        parse.side_effect = lambda _: self.condition
        self._patch('specreds_nova.host.backup.host.find_instance')
        self._patch('specreds_nova.host.backup.host.admin_context')
        self.record = journals.Record('recovery-1', 'server-1', 'superposition-1', 'node2')
        self.box = mock.Mock()
        self.watches = readiness.Watches(mock.Mock(), self.box)

    def _patch(self, name: str) -> Any:
        return self.useFixture(fixtures.MockPatch(name)).mock

    def test_readiness_is_reported_before_the_hardening(self) -> None:
        calls: list[tuple[str, str]] = []
        self.watches.notify = lambda backup_id: calls.append(('tell', backup_id))
        self.watches.then = lambda backup_id: calls.append(('then', backup_id))
        self.watches.begin(self.record)
        self.watch.call_args.kwargs['then']()
        self.assertEqual([('tell', 'recovery-1'), ('then', 'recovery-1')], calls)

    def test_first_frame_is_reported_before_the_hardening(self) -> None:
        calls: list[tuple[str, str]] = []
        self.watches.notify = lambda sign: calls.append(('tell', sign))
        self.watches.then = lambda backup_id: calls.append(('then', backup_id))
        self.condition = conditions.Condition(conditions.Kind.BOOT, '', 60.0)
        self.watches.begin(self.record)
        self.assertFalse(self.record.first_frame)
        self.frames.call_args.kwargs['then']()
        self.assertTrue(self.record.first_frame)
        self.assertEqual([('tell', 'recovery-1 frame'), ('then', 'recovery-1')], calls)

    def test_frames_mean_nothing_to_an_owner_with_a_condition(self) -> None:
        self.watches.begin(self.record)
        self.frames.assert_not_called()

    def test_promoted_backup_is_watched_until_it_is_ready(self) -> None:
        self.condition = conditions.Condition(conditions.Kind.BOOT, '', 60.0)
        self.watch.return_value.configure_mock(ready=False, late=False)
        self.watches.begin(self.record)
        self.watches.opened(self.record)
        self.frames.return_value.stop.assert_called_once_with()
        self.watch.return_value.stop.assert_not_called()
        self.assertFalse(self.watches.is_late('recovery-1'))
        self.watch.return_value.late = True
        self.assertTrue(self.watches.is_late('recovery-1'))
        self.watch.return_value.ready = True
        self.watches.opened(self.record)
        self.watch.return_value.stop.assert_called_once_with()
        self.assertFalse(self.watches.is_late('recovery-1'))

    def test_timeout_of_the_owner_is_used(self) -> None:
        self.watches.begin(self.record)
        self.assertIsNone(self.record.ready_timeout)
        self.watches.end('recovery-1')
        self.condition = conditions.Condition(conditions.Kind.TCP, '80', 9.0, owned=True)
        self.watches.begin(self.record)
        self.assertEqual(9.0, self.record.ready_timeout)

    def test_backup_without_a_port_is_not_probed_by_its_network(self) -> None:
        self.box.namespace.return_value = None
        self.condition = conditions.Condition(conditions.Kind.TCP, '80', 9.0, owned=True)
        instance = mock.Mock(system_metadata={})
        with mock.patch('specreds_nova.host.backup.host.find_instance', return_value=instance):
            self.watches.begin(self.record)
        condition = self.watch.call_args.args[0]
        self.assertEqual((conditions.Kind.BOOT, 9.0, 9.0),
                         (condition.kind, condition.timeout, self.record.ready_timeout))

    def test_backup_is_watched_once(self) -> None:
        self.watches.begin(self.record)
        self.watches.begin(self.record)
        self.watch.assert_called_once()

    def test_invalid_condition_of_the_owner_falls_back_to_the_default(self) -> None:
        instance = mock.Mock(metadata={'specreds:ready': r'console:(a)\1'}, system_metadata={},
                             uuid='server-1')
        self.useFixture(fixtures.MockPatch('specreds_nova.host.ready.conditions.parse', _PARSE))
        with mock.patch('specreds_nova.host.backup.host.find_instance', return_value=instance):
            self.watches.begin(self.record)
        condition = self.watch.call_args.args[0]
        self.assertEqual((conditions.Kind.BOOT, ''), (condition.kind, condition.argument))
        self.assertIn('neither back references nor lookaround', str(condition))
        # Its owner wants another moment than the first frame.
        self.assertTrue(condition.explicit)
        self.assertEqual([], readiness.devices(instance))
