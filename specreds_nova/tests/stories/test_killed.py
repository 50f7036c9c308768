# SPDX-License-Identifier: Apache-2.0
"""A process dies while there is a backup."""

import os
import signal

from cloud import drill as drills
from cloud.hosts import services
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life


class TestKilled(life.LifeTestCase):
    """A process dies while there is a backup."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot()
        self.name = self.who(self.server)

    def _kill(self, host: str) -> None:
        """Kill the QEMU that runs the server, or its backup, on a host."""
        pid = self.drill.pid(self.server, host)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.wait('the guest to be gone', lambda: self.drill.pid(self.server, host) is None)

    def test_qemu_of_the_primary(self) -> None:
        recovery = self.begin(self.server)
        self._kill(base.PRIMARY)
        self.drill.promote(recovery)
        adopted = self.drill.adopt(recovery)
        self.wait_answer(adopted)
        self.assertNotEqual(self.name, self.who(adopted))
        self.drill.merged(recovery)

    def test_qemu_of_the_backup(self) -> None:
        recovery = self.begin(self.server)
        self._kill(base.BACKUP)
        self.wait('the backup to have failed', lambda: (
            self.drill.status(recovery)['phase'] == 'failed'))
        self.drill.drop(recovery)
        self.assertEqual(self.name, self.who(self.server))
        self.assertNothingLeft(recovery)

    def test_qemu_of_the_promoted_backup(self) -> None:
        # What it had made durable is there, and an evacuation starts from it.
        recovery = self.promoted(server=self.server)
        self._kill(base.BACKUP)
        adopted = self.drill.adopt(recovery)
        self.wait_answer(adopted)
        self.wait('the merge', lambda: self.drill.state(recovery) is None)

    def test_services_of_the_backups_host(self) -> None:
        host = self.host(base.BACKUP)
        recovery = self.begin(self.server)
        pid = self.drill.pid(self.server, base.BACKUP)
        for service in (services.COMPUTE, services.LIBVIRT):
            host.kill_program(service)
            self.assertEqual(self.name, self.who(self.server))
            host.boot()
            self.wait(f'{service} to answer', lambda: self._answers(recovery))
            self.assertEqual(pid, self.drill.pid(self.server, base.BACKUP))
        # Between the commit point and the word to the host.
        self.assertEqual('promoted', self.drill.collapse(recovery))
        host.kill_program(services.COMPUTE)
        host.boot()
        self.wait('nova-compute to answer', lambda: self._answers(recovery))
        self.drill.backups.promote({}, recovery.host, recovery.id)
        self.wait_answer(self.server)
        self.assertNotEqual(self.name, self.who(self.server))
        host.kill_program(services.LIBVIRT)
        host.boot()
        self.drill.adopt(recovery)
        self.assertEqual(pid, self.drill.pid(self.server, base.BACKUP))
        self.drill.merged(recovery)

    def test_services_of_the_primarys_host(self) -> None:
        host = self.host(base.PRIMARY)
        pid = self.drill.pid(self.server, base.PRIMARY)
        recovery = self.begin(self.server)
        for service in (services.COMPUTE, services.LIBVIRT):
            host.kill_program(service)
        self.drill.abort(recovery)
        host.boot()
        self.assertEqual(pid, self.drill.pid(self.server, base.PRIMARY))
        self.assertEqual(self.name, self.who(self.server))
        self.assertNothingLeft(recovery)

    def _answers(self, recovery: drills.Recovery) -> bool:
        # What is asked of a nova-compute that is down waits for it.
        return bool(self.drill.status(recovery)['domain'])
