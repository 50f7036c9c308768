# SPDX-License-Identifier: Apache-2.0
"""A Ceph with several monitors, of which the first one dies."""

import contextlib
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

from cloud import commands
from cloud.openstack import services
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life

_FIRST = 'mon.a'
# The first port of each additional monitor, as an offset to that of the cluster; the ports are
# unused.
_MORE = {'b': 2, 'c': 4}
_STOP = 10.0


class TestMonitors(life.LifeTestCase):
    """A backup knows all monitors, and depends on none of them."""

    def setUp(self) -> None:
        super().setUp()
        self.ceph = self.cloud.ceph
        self.addCleanup(self._forget)
        for name in _MORE:
            self._add(name)
        self._await_quorum(1 + len(_MORE))
        self._configure_all()
        # It may use the monitors that it knew before for a minute.
        self.cloud.restart_daemon(services.cinder_volume('rbd'))

    def test_backups_survive_the_death_of_the_first_monitor(self) -> None:
        server = self.boot()
        name = self.guest_name(server)
        dropped = self.begin(server)
        monitors = self._monitors(server.id)
        self.assertEqual(1 + len(_MORE), len(set(monitors)), str(monitors))
        self.ceph.kill_daemon(_FIRST)
        # The others take some 10 s to elect a leader, and answer no request before.
        self._await_quorum(len(_MORE))
        self.drill.abort(dropped)
        self.assertNothingLeft(dropped)
        self.assertEqual(name, self.guest_name(server))

        recovery = self.adopted(server=server)
        self.assertNotEqual(name, self.guest_name(server))
        self.drill.merged(recovery)
        self.assert_plain_and_durable(recovery)

    def _monitors(self, server_id: str) -> list[tuple[str | None, str | None]]:
        """Return the monitors in the backup's disk."""
        domain = ElementTree.fromstring(self.host(base.BACKUP).virsh('dumpxml', server_id))
        return [(host.get('name'), host.get('port'))
                for host in domain.iterfind('./devices/disk[1]/source/host')]

    def _configure_all(self) -> None:
        """Add the additional monitors to every configuration that has the first one."""
        first = f'mon host = {self.ceph.settings.monitor}'
        every = ','.join([first, *(self._addresses(name) for name in _MORE)])
        for conf in (*self.ceph.files.root.glob('*.conf'),
                     *(host.files.etc / 'ceph' / 'ceph.conf' for host in self.cloud.hosts)):
            text = conf.read_text()
            if first in text:
                self.addCleanup(conf.write_text, text)
                conf.write_text(text.replace(first, every))

    def _addresses(self, name: str) -> str:
        host, port = self.ceph.settings.address, self.ceph.settings.port + _MORE[name]
        return f'[v2:{host}:{port},v1:{host}:{port + 1}]'

    def _add(self, name: str) -> None:
        """Start another monitor, which joins the others."""
        files, scratch = self.ceph.files, self.scratch()
        monmap, keyring = scratch / 'monmap', scratch / 'keyring'
        self.ceph.admin(['mon', 'getmap', '-o', str(monmap)])
        self.ceph.admin(['auth', 'get', 'mon.', '-o', str(keyring)])
        shared = ['ceph-mon', '--id', name, '--conf', str(files.daemon_conf)]
        self.addCleanup(shutil.rmtree, files.data(f'mon.{name}'), ignore_errors=True)
        commands.run([*shared, '--mkfs', '--monmap', str(monmap), '--keyring', str(keyring)])
        process = subprocess.Popen(
            [*shared, '-f', '--public-addrv', self._addresses(name)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self._remove, name, process)

    def _remove(self, name: str, process: 'subprocess.Popen[bytes]') -> None:
        """Remove a monitor, and start the first one again."""
        try:
            with contextlib.suppress(commands.CloudError):
                self.ceph.start_daemon(_FIRST)
            self.wait(f'{_FIRST} to be in the quorum',
                      lambda: 'a' in self._quorum())
            self.ceph.admin(['mon', 'rm', name])
        finally:
            process.terminate()
            process.wait(_STOP)

    def _forget(self) -> None:
        """Restart the first monitor, which would not admit the monitors that it has removed."""
        self.ceph.kill_daemon(_FIRST)
        self.ceph.start_daemon(_FIRST)
        self._await_quorum(1)

    def _await_quorum(self, count: int) -> None:
        self.wait(f'{count} monitors', lambda: len(self._quorum()) == count)

    def _quorum(self) -> list[str]:
        try:
            names: list[str] = self.ceph.admin_json(['quorum_status'], 10.0)['quorum_names']
        except commands.CloudError:
            return []
        return names
