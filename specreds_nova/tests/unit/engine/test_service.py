# SPDX-License-Identifier: Apache-2.0
"""The threads of an engine."""

from typing import Any
from unittest import mock

import testtools

from specreds_nova.engine import metrics
from specreds_nova.engine import service


class ThreadsTest(testtools.TestCase):
    """An engine with only the parts that its threads need."""

    def setUp(self) -> None:
        super().setUp()
        self.engine: Any = service.Engine.__new__(service.Engine)
        self.engine._stopping = mock.Mock()
        self.engine._metrics = metrics.Metrics()
        self.engine._monitor = mock.Mock()

    def test_received_beats_are_counted(self) -> None:
        self.engine._stopping.wait.side_effect = [False, False, True]
        self.engine._monitor.counted.side_effect = [5, 7]
        self.engine._tick()
        self.assertIn('specreds_heartbeats_total 12.0', self.engine._metrics.text())
