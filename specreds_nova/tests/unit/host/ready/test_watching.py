# SPDX-License-Identifier: Apache-2.0
import time
from typing import Any
from unittest import mock

import testtools
from testtools import matchers

from specreds_nova.host.ready import conditions
from specreds_nova.host.ready import watching


class TestWatch(testtools.TestCase):

    def _watch(self, *looks: Any, timeout: float = 60.0, guest: Any = None
               ) -> watching.ReadinessWatch:
        self.probe = mock.Mock(interval=0.001)
        self.told = mock.Mock()
        self.probe.look.side_effect = [*looks] if looks else lambda: None
        watch = watching.ReadinessWatch(conditions.Condition(conditions.Kind.TCP, '80', timeout),
                                        self.probe, time.monotonic(), self.told, guest)
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

    def test_end_of_the_console_of_a_late_guest_is_quoted(self) -> None:
        xml = '<domain><devices><console><log file="/log"/></console></devices></domain>'
        guest = mock.Mock(get_xml_desc=lambda: xml)
        said = b'.' * 200 + b'\x1b[0m mount: \r\n/dev/vda: no such device\n'
        with mock.patch('nova.privsep.path.last_bytes', return_value=(said, 0)):
            watch = self._watch(timeout=0.0, guest=guest)
            self.assertTrue(watch.wait(30))
        prefix = 'not ready within 0 s: tcp:80 does not hold; its console ends with: '
        self.assertThat(watch.detail, matchers.StartsWith(prefix))
        self.assertThat(watch.detail, matchers.EndsWith('mount:  /dev/vda: no such device'))
        self.assertEqual(120, len(watch.detail) - len(prefix))

    def test_console_that_cannot_be_read_is_not_quoted(self) -> None:
        watch = self._watch(timeout=0.0, guest=mock.Mock(get_xml_desc=lambda: 'no XML'))
        self.assertTrue(watch.wait(30))
        self.assertEqual('not ready within 0 s: tcp:80 does not hold', watch.detail)

    def test_watch_ends_when_it_is_stopped(self) -> None:
        watch = self._watch()
        self.assertEqual('waiting for tcp:80', watch.detail)
        watch.stop()
        watch.stop()
        self.assertTrue(watch.wait(30))
        self.assertFalse(watch.ready)
        self.probe.close.assert_called_once_with()
