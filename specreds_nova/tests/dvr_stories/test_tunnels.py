# SPDX-License-Identifier: Apache-2.0
"""When users on other hosts reach a promoted server, on a network of VXLAN with l2population."""

from collections.abc import Iterator
import contextlib
import pathlib
import re
import subprocess
import time

from testtools import content

from cloud import drill as drills
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.dvr_stories import base

_DEVICE = 'user0'
_NAMESPACE = 'user'
_REPLY = re.compile(r'^\[(?P<at>[0-9.]+)\] \d+ bytes from ', re.MULTILINE)


class TestTunnels(base.TunnelsTestCase):
    """A user on a third host, to which that host's agent says where the server is.

    ``./run test test_tunnels --all-attachments`` prints what was measured.
    """

    def setUp(self) -> None:
        super().setUp()
        self.server = self.boot_behind(self.make_port())
        self._add_user()
        self.wait('the server to answer', self._answers)

    def test_users_of_other_hosts_reach_a_promoted_server(self) -> None:
        with self._pinging() as output:
            self.host(cloud_base.PRIMARY).kill()
            recovery = self.begin(self.server)
            promoting = time.time()
            self.drill.promote(recovery)
            promoted = time.time()
            self.wait('a user to reach the promoted server',
                      lambda: self._first_after(output, promoting))
            # Before Nova knows that the server has moved.
            self.assertEqual(cloud_base.PRIMARY,
                             self.drill.show(self.server.id)['OS-EXT-SRV-ATTR:host'])
            adopted = self.drill.adopt(recovery)
            self.drill.merged(recovery)
        self.wait('the server to answer', self._answers)
        reached = self._first_after(output, promoting)
        self.addDetail('reached', content.text_content(
            f'asked to promote; {promoted - promoting:.2f} s later promoted; '
            f'{reached - promoting:.2f} s later reached by a user on {cloud_base.OTHER}'))
        # With isolate_vif, os-vif puts a device on the dead VLAN unless the bridge has its port.
        self._reboot(adopted)

    def _reboot(self, server: drills.Server) -> None:
        """Reboot a server hard, and wait until its new guest answers."""
        pid = self.drill.pid(server, server.host)
        self.drill.act(server.id, 'reboot', {'type': 'HARD'})
        self.wait('a new guest', lambda: self.drill.pid(server, server.host) not in (None, pid))
        self.drill.active(server.id)
        self.wait('the server to answer', self._answers)

    def _add_user(self) -> None:
        """Create a namespace with a device on the network on a third host."""
        port = self.make_port(cloud_base.OTHER)
        host = self.host(cloud_base.OTHER)
        self.addCleanup(host.run, ['ip', 'netns', 'delete', _NAMESPACE])
        self.addCleanup(host.run, ['ovs-vsctl', '--if-exists', 'del-port', _DEVICE])
        mac, address = port['mac_address'], port['fixed_ips'][0]['ip_address']
        host.run(['ip', 'netns', 'add', _NAMESPACE])
        host.run(['ovs-vsctl', 'add-port', 'br-int', _DEVICE, '--', 'set', 'Interface', _DEVICE,
                  'type=internal', f'external_ids:iface-id={port["id"]}',
                  f'external_ids:attached-mac={mac}',
                  'external_ids:iface-status=active'])
        host.run(['ip', 'link', 'set', _DEVICE, 'netns', _NAMESPACE])
        for words in (['link', 'set', _DEVICE, 'address', mac, 'mtu', '1450', 'up'],
                      ['address', 'add', f'{address}/24', 'dev', _DEVICE]):
            host.run(['ip', '-n', _NAMESPACE, *words])
        self.wait('the port of the user', lambda: self.port(port['id'])['status'] == 'ACTIVE')

    def _ping(self, *options: str) -> list[str]:
        return self.host(cloud_base.OTHER).argv([
            'ip', 'netns', 'exec', _NAMESPACE, 'ping', '-n', *options, self.server.address])

    def _answers(self) -> bool:
        return subprocess.run(self._ping('-c', '1', '-W', '1'), check=False, capture_output=True,
                              stdin=subprocess.DEVNULL).returncode == 0

    @contextlib.contextmanager
    def _pinging(self) -> Iterator[pathlib.Path]:
        """Ping the server 20 times a second; yield the file of the answers with their times."""
        file = self.scratch() / 'pings'
        with file.open('wb') as output, subprocess.Popen(
                self._ping('-D', '-i', '0.05'), stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.DEVNULL) as process:
            try:
                yield file
            finally:
                process.terminate()

    @staticmethod
    def _first_after(file: pathlib.Path, when: float) -> float:
        """Return the time of the first answer after another time; 0 if there is none."""
        times = (float(match['at']) for match in _REPLY.finditer(file.read_text()))
        return next((at for at in times if at > when), 0.0)
