# SPDX-License-Identifier: Apache-2.0
"""The live merge of an adopted server: under load, and interrupted by the death of a process."""

from specreds_nova.host.merge import pivot
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

_MIB = 1 << 20


class TestMerge(life.LifeTestCase):
    """The merge is not interrupted."""

    def test_two_disks_are_merged_under_load(self) -> None:
        server = self.boot(image='g2', sizes=(2, 1))
        client = base.Client(self, server)
        recovery = self.adopted(server=server, fill=64)
        client.start()
        client.wait_more(20)
        self.wait_merged(recovery)
        client.wait_more(20)
        self.assert_plain_and_durable(recovery)
        self.assert_filled(recovery, 64)
        merge = self.drill.status(recovery)['merge']
        self.assertEqual('merged', merge['state'])
        self.assertGreaterEqual(merge['total'], 64 * _MIB)
        # The volumes have everything that was written through the overlays.
        self.reboot(server, 5432)
        client.wait_more(20)
        client.stop()
        client.assert_nothing_lost()
        self.assert_plain_and_durable(recovery)


class TestCutOff(life.LifeTestCase):
    """A process dies during the merge."""

    def test_merge_continues_after_the_death_of_nova_compute(self) -> None:
        recovery = self.adopted(fill=192)
        self.wait_copying(recovery)
        host = self.host(base.BACKUP)
        host.kill_program('nova-compute')
        name = self.guest_name(recovery.server)
        host.start('nova-compute')
        self.wait_merged(recovery)
        self.assertEqual(name, self.guest_name(recovery.server))
        self.assert_filled(recovery, 192)
        self.assert_plain_and_durable(recovery)

    def test_guest_resumes_after_the_death_of_nova_compute_at_the_switch(self) -> None:
        recovery = self.adopted(fill=32)
        self.wait_switch(recovery)
        self.host(base.BACKUP).kill_program('nova-compute')
        self.host(base.BACKUP).start('nova-compute')
        self.wait_merged(recovery)
        self.wait_answer(recovery.server)
        self.assert_filled(recovery, 32)
        self.assert_plain_and_durable(recovery)
        with self.domain(recovery) as domain:
            self.assertIsNone(pivot.note_of(domain.XMLDesc(0)))

    def test_merge_continues_after_the_death_of_libvirtd(self) -> None:
        recovery = self.adopted(fill=192)
        self.wait_copying(recovery)
        host = self.host(base.BACKUP)
        name = self.guest_name(recovery.server)
        host.kill_program('libvirtd')
        host.start('libvirtd')
        self.wait_merged(recovery)
        self.assertEqual(name, self.guest_name(recovery.server))
        self.assert_filled(recovery, 192)
        self.assert_plain_and_durable(recovery)

    def test_merge_begins_again_after_the_death_of_qemu(self) -> None:
        recovery = self.adopted(fill=192)
        self.wait_copying(recovery)
        server = recovery.server
        pid = self.drill.pid(server, base.BACKUP)
        self.host(base.BACKUP).virsh('destroy', server.id)
        self.wait_status(server.id, 'SHUTOFF')
        self.operate(server.id, 'os-start')
        self.wait_status(server.id, 'ACTIVE')
        self.assertNotIn(self.drill.pid(server, base.BACKUP), (None, pid))
        self.wait_answer(server)
        self.wait_merged(recovery)
        self.assert_filled(recovery, 192)
        self.assert_plain_and_durable(recovery)

    def test_guest_runs_on_while_cinder_is_down_at_the_switch(self) -> None:
        recovery = self.adopted(fill=96)
        self.wait_copying(recovery)
        service = 'cinder-api'
        self.addCleanup(self.cloud.start_daemon, service)
        self.cloud.stop_daemon(service)
        name = self.guest_name(recovery.server)
        self.wait('the merge to fail', lambda: (
            self.drill.status(recovery)['merge'] or {}).get('state') == 'failed')
        # The guest is not paused for that.
        with self.domain(recovery) as domain:
            self.assertEqual(1, domain.state()[0])
        self.assertEqual(name, self.guest_name(recovery.server))
        self.assertNotEqual([], self.overlays(recovery))
        self.cloud.start_daemon(service)
        self.wait('Cinder to answer', lambda: self._cinder_answers())
        self.wait_merged(recovery)
        self.assertEqual(name, self.guest_name(recovery.server))
        self.assert_plain_and_durable(recovery)

    def _cinder_answers(self) -> bool:
        answer = self.drill.volume.get('/volumes', raise_exc=False)
        return bool(answer.status_code == 200)
