# SPDX-License-Identifier: Apache-2.0
"""A server whose QEMU dies on a host that is well."""

import os
import signal

from cloud import drill as drills
from cloud.demo import recoveries
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.engine import base


class TestCrashes(base.EngineTestCase):
    """It is started again where it was, and nobody else is."""

    def test_started_again(self) -> None:
        stopped, crashed, other = self.boot(), self.boot(), self.boot()
        before, bystander = self.who(crashed), self.who(other)
        # Somebody who stops a server does not want it back.
        self.drill.act(stopped.id, 'os-stop')
        self.wait('the server to be stopped', lambda: self._stopped(stopped))
        self._kill(crashed)
        recovery = self.ended(crashed, recoveries.RESTARTED)
        self.assertEqual([recovery.id], self.engine.ids(crashed.id))
        here = self.drill.active(crashed.id, cloud_base.PRIMARY)
        self.wait_answer(here)
        self.assertNotEqual(before, self.who(here))
        self.assertEqual([cloud_base.PRIMARY], self.drill.running(here))
        self.assertEqual(bystander, self.who(other))
        self.assertEqual([], self.engine.ids(other.id))
        self.assertEqual([], self.engine.ids(stopped.id))
        self.assertTrue(self._stopped(stopped))

    def _kill(self, server: drills.Server) -> None:
        pid = self.drill.pid(server, cloud_base.PRIMARY)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)

    def _stopped(self, server: drills.Server) -> bool:
        shown = self.drill.show(server.id)
        return (shown['status'], shown['OS-EXT-STS:task_state']) == ('SHUTOFF', None)
