# SPDX-License-Identifier: Apache-2.0
"""A process dies while there is a backup."""

import contextlib
import os
import signal
import threading

import oslo_messaging as messaging

from cloud import drill as drills
from cloud.hosts import services
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life


class TestKilled(life.LifeTestCase):
    """A process dies while there is a backup."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot()
        self.name = self.guest_name(self.server)

    def _kill(self, host: str) -> None:
        """Kill the QEMU that runs the server, or its backup, on a host."""
        pid = self.drill.pid(self.server, host)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        self.wait('the guest to be gone', lambda: self.drill.pid(self.server, host) is None)

    def test_backup_is_promoted_after_the_death_of_the_primary(self) -> None:
        recovery = self.begin(self.server)
        self._kill(base.PRIMARY)
        self.drill.promote(recovery)
        adopted = self.drill.adopt(recovery)
        self.wait_answer(adopted)
        self.assertNotEqual(self.name, self.guest_name(adopted))
        self.drill.merged(recovery)

    def test_primary_stays_after_the_death_of_its_backup(self) -> None:
        recovery = self.begin(self.server)
        self._kill(base.BACKUP)
        self.wait('the backup to have failed', lambda: (
            self.drill.status(recovery)['phase'] == 'failed'))
        self.drill.drop(recovery)
        self.assertEqual(self.name, self.guest_name(self.server))
        self.assertNothingLeft(recovery)

    def test_promoted_backup_that_dies_is_evacuated(self) -> None:
        # An evacuation starts from the durable writes of the backup.
        recovery = self.promoted(server=self.server)
        self._kill(base.BACKUP)
        adopted = self.drill.adopt(recovery)
        self.wait_answer(adopted)
        self.wait('the merge', lambda: self.drill.state(recovery) is None)

    def test_backup_outlives_the_services_of_its_host(self) -> None:
        host = self.host(base.BACKUP)
        recovery = self.begin(self.server)
        pid = self.drill.pid(self.server, base.BACKUP)
        for service in (services.COMPUTE, services.LIBVIRT):
            host.kill_program(service)
            self.assertEqual(self.name, self.guest_name(self.server))
            host.boot()
            self.wait(f'{service} to answer', lambda: self._answers(recovery))
            self.assertEqual(pid, self.drill.pid(self.server, base.BACKUP))
        # Between the commit point and the promotion on the host.
        self.assertEqual('promoted', self.drill.collapse(recovery))
        host.kill_program(services.COMPUTE)
        host.boot()
        self.wait('nova-compute to answer', lambda: self._answers(recovery))
        self.drill.backups.promote({}, recovery.host, recovery.id)
        self.wait_answer(self.server)
        self.assertNotEqual(self.name, self.guest_name(self.server))
        self.restart_libvirt(recovery)
        self.drill.adopt(recovery)
        self.assertEqual(pid, self.drill.pid(self.server, base.BACKUP))
        self.drill.merged(recovery)

    def test_backup_fails_if_nova_compute_dies_while_it_starts(self) -> None:
        host = self.host(base.BACKUP)
        recovery = self.drill.recovery(self.server, base.BACKUP)
        self.addCleanup(self.end, recovery)
        starting = threading.Thread(target=self._begin, args=(recovery,))
        starting.start()
        self.addCleanup(starting.join)
        self.wait('the QEMU of the backup', lambda: self.drill.pid(self.server, base.BACKUP))
        host.kill_program(services.COMPUTE)
        host.boot()
        # Its box was never opened, and no call reported that it runs.
        self.wait('the backup to have failed', lambda: (
            self.drill.status(recovery)['phase'] == 'failed'))
        self.drill.drop(recovery)
        self.assertNothingLeft(recovery)
        self.assertEqual(self.name, self.guest_name(self.server))
        self.begin(self.server)

    def test_adopted_backup_outlives_nova_compute(self) -> None:
        host = self.host(base.BACKUP)
        recovery = self.promoted(server=self.server)
        pid = self.drill.pid(self.server, base.BACKUP)
        self.drill.force_down(base.PRIMARY)
        self.drill.act(self.server.id, 'evacuate', {'host': base.BACKUP})
        self.wait('the adoption to begin', lambda: self._adopting(recovery))
        host.kill_program(services.COMPUTE)
        host.boot()
        self.drill.bring_up(base.BACKUP)
        self.wait('the evacuation to have ended', lambda: self._task() is None)
        # Either Nova recorded the end of the evacuation right before, or it returned the server.
        if self.drill.show(self.server.id)['OS-EXT-SRV-ATTR:host'] != base.BACKUP:
            self.drill.evacuate(self.server, base.BACKUP)
        self.assertEqual(pid, self.drill.pid(self.server, base.BACKUP))
        self.assertNotEqual(self.name, self.guest_name(self.server))
        self.drill.merged(recovery)

    def test_primary_outlives_the_services_of_its_host(self) -> None:
        host = self.host(base.PRIMARY)
        pid = self.drill.pid(self.server, base.PRIMARY)
        recovery = self.begin(self.server)
        for service in (services.COMPUTE, services.LIBVIRT):
            host.kill_program(service)
        self.drill.abort(recovery)
        host.boot()
        self.assertEqual(pid, self.drill.pid(self.server, base.PRIMARY))
        self.assertEqual(self.name, self.guest_name(self.server))
        self.assertNothingLeft(recovery)

    def _begin(self, recovery: drills.Recovery) -> None:
        # The caller of a nova-compute that was killed gets no answer.
        with contextlib.suppress(messaging.MessagingTimeout):
            self.drill.begin(recovery)

    def _adopting(self, recovery: drills.Recovery) -> bool:
        # Too short for a call to observe it.
        journal = self.host(base.BACKUP).files.state / 'nova' / 'specreds'
        return '"adopting": true' in (journal / f'{recovery.id}.json').read_text()

    def _task(self) -> str | None:
        task: str | None = self.drill.show(self.server.id)['OS-EXT-STS:task_state']
        return task

    def _answers(self, recovery: drills.Recovery) -> bool:
        # A call to a nova-compute that is down waits for it.
        return bool(self.drill.status(recovery)['domain'])
