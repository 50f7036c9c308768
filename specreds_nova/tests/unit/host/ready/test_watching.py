# SPDX-License-Identifier: Apache-2.0
import time
from typing import Any
from unittest import mock

import testtools

from specreds_nova.host.ready import conditions
from specreds_nova.host.ready import watching


class TestWatch(testtools.TestCase):

    def _watch(self, *looks: Any, timeout: float = 60.0) -> watching.ReadinessWatch:
        self.probe = mock.Mock(interval=0.001)
        self.told = mock.Mock()
        self.probe.look.side_effect = [*looks] if looks else lambda: None
        watch = watching.ReadinessWatch(conditions.Condition(conditions.Kind.TCP, '80', timeout),
                                        self.probe, time.monotonic(), self.told)
        self.addCleanup(watch.stop)
        return watch

    def test_watch_ends_when_the_condition_holds(self) -> None:
        watch = self._watch(None, OSError('no'), 'seen')
        self.assertTrue(watch.wait(30))
        self.assertTrue(watch.ready)
        self.assertRegex(watch.detail, r'^seen, after [\d.]+ s$')
        self.told.assert_called_once_with()
        self.probe.close.assert_called_once_with()

    def test_watch_ends_at_the_timeout(self) -> None:
        watch = self._watch(timeout=0.0)
        self.assertTrue(watch.wait(30))
        self.assertFalse(watch.ready)
        self.assertTrue(watch.late)
        self.assertEqual('not ready within 0 s: tcp:80 does not hold', watch.detail)
        self.told.assert_not_called()

    def test_watch_ends_when_it_is_stopped(self) -> None:
        watch = self._watch()
        self.assertEqual('waiting for tcp:80', watch.detail)
        watch.stop()
        watch.stop()
        self.assertTrue(watch.wait(30))
        self.assertFalse(watch.ready)
        self.probe.close.assert_called_once_with()
