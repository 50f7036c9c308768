# SPDX-License-Identifier: Apache-2.0
"""Second failures: a host, a network or a monitor fails before or after the promotion."""

from collections.abc import Iterator
from concurrent import futures
import contextlib
import signal
import time

from cloud import commands
from cloud import drill as drills
from specreds_cinder import superposition as sp
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

# Longer than the sweep with which a collapse begins.
_LOOK_S = 2.0
_WRITES_S = 4.0


class TestSecondHost(life.LifeTestCase):
    """The host of the backup dies too."""

    def _lose_backup_host(self, recovery: drills.Recovery) -> drills.Server:
        """Kill the backup's host, and evacuate the server to the remaining host."""
        self.host(base.BACKUP).kill()
        # Before the adoption, the first host owns the server for Nova, which considers a dead
        # host up for a minute and evacuates nothing until then.
        self.drill.force_down(base.PRIMARY)
        self.drill.force_down(base.BACKUP)
        self.drill.act(recovery.server.id, 'evacuate', {'host': base.OTHER})
        # Ceph notices the end of the host half a minute later; then Cinder merges.
        server: drills.Server = self.wait(
            'the server on the third host', lambda: self._active(recovery.server), 300)
        self.wait_answer(server)
        self.wait('the merge', lambda: self.drill.state(recovery) is None)
        return server

    def _active(self, server: drills.Server) -> drills.Server | None:
        shown = self.drill.show(server.id)
        self.assertNotEqual('ERROR', shown['status'], shown.get('fault'))
        if (shown['OS-EXT-SRV-ATTR:host'], shown['OS-EXT-STS:task_state']) != (base.OTHER, None):
            return None
        return self.drill.active(server.id, base.OTHER)

    def test_backup_host_dies_during_the_race(self) -> None:
        server = self.boot()
        name = self.guest_name(server)
        recovery = self.begin(server)
        self.host(base.BACKUP).kill()
        # The engine can drop the backup without that host.
        self.drill.drop(recovery)
        self.assertEqual(name, self.guest_name(server))
        second = self.begin(server, base.OTHER)
        self.drill.abort(second)
        self.assertEqual(name, self.guest_name(server))
        # The host returns, and removes what was left of the backup.
        self.mend()
        self.wait('the backup to be gone', lambda: self._clean(recovery))
        self.assertNothingLeft(recovery)

    def _clean(self, recovery: drills.Recovery) -> bool:
        return self.drill.status(recovery)['phase'] in ('failed', 'aborted')

    def test_backup_host_dies_after_the_promotion(self) -> None:
        server = self.boot(image='g2')
        client = base.Client(self, server)
        client.start()
        client.wait_more(100)
        self.host(base.PRIMARY).kill()
        recovery = self.begin(server)
        self.drill.promote(recovery)
        client.wait_more(100)
        server = self._lose_backup_host(recovery)
        client.wait_more(50)
        client.stop()
        client.assert_nothing_lost()

    def test_backup_host_dies_during_the_merge(self) -> None:
        recovery = self.adopted(fill=192)
        self.wait_copying(recovery)
        self._lose_backup_host(recovery)
        self.assert_filled(recovery, 192, base.OTHER)


class TestCutOff(life.LifeTestCase):
    """The primary's host has lost a network."""

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot()
        self.heartbeat(self.server, 0.2)
        self.name = self.guest_name(self.server)

    def test_control_network_cut_lets_the_primary_win(self) -> None:
        # The guest runs and writes, so its version counts.
        self.host(base.PRIMARY).cut(control=True)
        recovery = self.begin(self.server)
        self.assertEqual('dirty', self.drill.collapse(recovery))
        self.drill.backups.abort({}, recovery.host, recovery.id)
        self.assertEqual(self.name, self.guest_name(self.server))
        self.host(base.PRIMARY).heal()

    def test_storage_network_cut_lets_the_backup_win(self) -> None:
        # The guest runs and cannot write: the backup wins, and late writes are refused.
        self.host(base.PRIMARY).cut(storage=True)
        recovery = self.begin(self.server)
        self.drill.promote(recovery)
        adopted = self.drill.adopt(recovery)
        pid = self.drill.pid(adopted, base.BACKUP)
        self.host(base.PRIMARY).heal()
        self.wait('the stale guest to be ended',
                  lambda: self.drill.pid(self.server, base.PRIMARY) is None)
        self.wait_answer(adopted)
        self.assertNotEqual(self.name, self.guest_name(adopted))
        self.assertEqual(pid, self.drill.pid(adopted, base.BACKUP))
        self.drill.merged(recovery)


class TestLateDirty(life.LifeTestCase):
    """The primary writes between the sweep and the fence."""

    def test_acknowledged_transactions_survive(self) -> None:
        server = self.boot(image='g2')
        client = base.Client(self, server)
        # A slow guest needs more than the client's half second to accept it again.
        client.start('--timeout', '2')
        client.wait_more(50)
        primary = self.host(base.PRIMARY)
        primary.virsh('suspend', server.id)
        recovery = self.begin(server, ready=False)
        self.drill.backups.harden({}, recovery.host, recovery.id)
        # Without the monitor, the primary can be swept but not fenced. A slow one leaves time to
        # stop it between the two.
        volume = sp.VolumeRef('volumes', '', f'volume-{server.volumes[0]}')
        with sp.Cluster(str(self.cloud.ceph.conf), 'cinder') as cluster, self._slow_monitor(), \
                futures.ThreadPoolExecutor() as pool:
            protocol = sp.Protocol(cluster)
            self.assertEqual('superposed', protocol.find(volume).state)
            collapse = pool.submit(self.drill.decide, recovery)
            while protocol.find(volume).state == 'superposed':
                self.assertFalse(collapse.done())
            self._monitor(signal.SIGSTOP)
            try:
                time.sleep(_LOOK_S)
                primary.virsh('resume', server.id)
                self._write(recovery, client)
            finally:
                self._monitor(signal.SIGCONT)
            self.assertEqual('late-dirty', collapse.result())
        self.drill.backups.abort({}, recovery.host, recovery.id)
        self.assertNothingLeft(recovery)
        # The primary's version counts, but the primary is fenced: it has to be rebooted.
        self.reboot(server, 5432)
        client.wait_more(20)
        client.stop()
        client.assert_nothing_lost()

    def _write(self, recovery: drills.Recovery, client: base.Client) -> None:
        """Let the guest of the primary write for a few seconds.

        A collapse bears a stopped monitor for 10 s, in which a slow guest may write nothing: its
        device does.
        """
        before = client.acknowledged()
        self.assertIn('wrote', self._io(recovery, 'write -P 0x11 1536M 4k', base.PRIMARY))
        with contextlib.suppress(commands.CloudError):
            self.drill.wait('a transaction', lambda: client.acknowledged() > before, _WRITES_S)

    @contextlib.contextmanager
    def _slow_monitor(self) -> Iterator[None]:
        """Let the monitor gather changes of its maps for seconds before it commits them."""
        try:
            self._gather('3', '3')
            yield
        finally:
            self._gather('0.05', '1')

    def _gather(self, *seconds: str) -> None:
        for option, value in zip(('paxos_min_wait', 'paxos_propose_interval'), seconds,
                                 strict=True):
            self.cloud.ceph.admin(['tell', 'mon.a', 'config', 'set', option, value])

    def _monitor(self, number: int) -> None:
        self.cloud.ceph.signal_daemon('mon.a', number)
