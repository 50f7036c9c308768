# SPDX-License-Identifier: Apache-2.0
"""The clock of an engine while the clock of its machine is set."""

import time
from typing import Any
from unittest import mock

import testtools

from specreds_nova.engine import model
from specreds_nova.engine.clients import clock
from specreds_nova.engine.suspicion import leases


class ClockTest(testtools.TestCase):
    """An administrator, or NTP, sets the clock of the system by a minute."""

    def setUp(self) -> None:
        super().setUp()
        self.clock = clock.Clock()
        self.now = self.clock.now()

    def test_set_clock_of_the_system_is_ignored(self) -> None:
        for seconds in (60.0, -60.0):
            with mock.patch.object(time, 'time', return_value=self.now + seconds):
                self.assertLess(abs(self.clock.now() - self.now), 30.0)

    def test_wait_for_the_lease_is_not_shortened(self) -> None:
        options: Any = mock.Mock(sentinel_network_lease=1000.0, network_lease_margin=1.0)
        host = model.Host('h1', model.SUSPECTED, 1, since=self.now)
        waits = leases.Leases()
        before = waits.left(host, self.clock.now(), options)
        with mock.patch.object(time, 'time', return_value=self.now + 600.0):
            after = waits.left(host, self.clock.now(), options)
        self.assertLess(before - after, 60.0)
