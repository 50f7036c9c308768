# SPDX-License-Identifier: Apache-2.0
"""How a host is frozen and killed."""

import subprocess
import time
from unittest import mock

import fixtures
import testtools

from cloud import commands
from cloud.hosts import namespaces


class MachineTest(testtools.TestCase):
    """Without control groups, and with a host that is one process."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.MockPatch('cloud.hosts.namespaces._control_groups',
                                           return_value=None))
        self.process = subprocess.Popen(['sleep', '1000'])
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.pid = self.process.pid
        self.useFixture(fixtures.MockPatch('cloud.hosts.namespaces.members',
                                           return_value=[self.pid]))
        self.machine = namespaces.Machine('x')

    def test_frozen_machine_can_be_thawed(self) -> None:
        self.assertFalse(self.machine.frozen(self.pid))
        self.machine.freeze(self.pid)
        self.assertTrue(self.machine.frozen(self.pid))
        self.machine.thaw(self.pid)
        deadline = time.monotonic() + 10
        while self.machine.frozen(self.pid) and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertFalse(self.machine.frozen(self.pid))

    def test_frozen_machine_can_be_killed(self) -> None:
        began = namespaces.started(self.pid)
        self.assertTrue(began)
        self.machine.freeze(self.pid)
        self.machine.kill(self.pid)
        self.assertEqual('', namespaces.started(self.pid))
        self.assertEqual(-9, self.process.wait())

    def test_process_that_does_not_stop_is_an_error(self) -> None:
        self.useFixture(fixtures.MockPatch('cloud.hosts.namespaces._TIMEOUT', 0.05))
        with mock.patch('cloud.hosts.namespaces._state', return_value='D'):
            self.assertRaisesRegex(commands.CloudError, 'do not stop', self.machine.freeze,
                                   self.pid)
