# SPDX-License-Identifier: Apache-2.0
"""A server whose QEMU dies on a healthy host."""

import os
import signal

from cloud import drill as drills
from cloud.demo import recoveries
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base


class TestCrashes(base.EngineTestCase):
    """The server is restarted on its host, and no other server is."""

    def test_crashed_server_is_restarted_on_its_host(self) -> None:
        ids = [self.boot_later() for _ in range(3)]
        stopped, crashed, other = map(self.booted, ids)
        before, bystander = self.guest_name(crashed), self.guest_name(other)
        # A server that its owner has stopped stays stopped.
        self.drill.act(stopped.id, 'os-stop')
        self.wait('the server to be stopped', lambda: self._stopped(stopped))
        self._kill(crashed)
        recovery = self.ended(crashed, recoveries.RESTARTED)
        self.assertEqual([recovery.id], self.engine.ids(crashed.id))
        here = self.drill.active(crashed.id, cloud_base.PRIMARY)
        self.wait_answer(here)
        self.assertNotEqual(before, self.guest_name(here))
        self.assertEqual([cloud_base.PRIMARY], self.drill.running(here))
        self.assertEqual(bystander, self.guest_name(other))
        self.assertIsNone(self.engine.latest(other.id))
        self.assertIsNone(self.engine.latest(stopped.id))
        self.assertTrue(self._stopped(stopped))

    def _kill(self, server: drills.Server) -> None:
        pid = self.drill.pid(server, cloud_base.PRIMARY)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def _stopped(self, server: drills.Server) -> bool:
        shown = self.drill.show(server.id)
        return (shown['status'], shown['OS-EXT-STS:task_state']) == ('SHUTOFF', None)
