# SPDX-License-Identifier: Apache-2.0
"""Servers that run on what was promoted, and how far the merge of one is."""

from collections.abc import Iterator
import contextlib
import json
import subprocess
import sys
import time
from typing import Any
import xml.etree.ElementTree as ElementTree

import libvirt
import libvirt_qemu

from cloud import drill as drills
from specreds_nova.tests.cloud import base
from specreds_nova.virt import chain_nodes
from specreds_nova.virt import durable
from specreds_nova.virt import switching

_MIB = 1 << 20
# Beyond what the guests' file systems use.
_OFFSET = 1536 * _MIB
_PATTERN = '0x5a'


class LifeTestCase(base.NovaTestCase):
    """A server whose backup was promoted."""

    def promoted(self, *, fill: int = 0, server: drills.Server | None = None
                 ) -> drills.Recovery:
        """Let a server's backup be promoted, and not adopted yet.

        :param fill: MiB that its backup writes, beside what the guest does
        """
        server = server or self.boot(metadata={'specreds:ready': 'delay:1'})
        # What becomes of its host is not what counts here, only that the primary does not write.
        self.host(server.host).virsh('suspend', server.id)
        recovery = self.begin(server)
        if fill:
            self.fill(recovery, fill)
        self.drill.promote(recovery)
        return recovery

    def adopted(self, *, fill: int = 0, server: drills.Server | None = None
                ) -> drills.Recovery:
        """Let a server's backup become the server. The rest of its life is the test's."""
        recovery = self.promoted(fill=fill, server=server)
        self.drill.adopt(recovery)
        return recovery

    def see_abort(self) -> None:
        """See that of a backup that is dropped nothing remains, and its primary goes on."""
        server = self.boot()
        name = self.who(server)
        recovery = self.begin(server)
        self.drill.abort(recovery)
        self.assertNothingLeft(recovery)
        self.assertEqual(name, self.who(server))

    def see_promotion(self) -> None:
        """See that the backup of a server whose host has died becomes the server, to the end."""
        server = self.boot()
        name = self.who(server)
        self.host(base.PRIMARY).kill()
        recovery = self.begin(server)
        self.drill.promote(recovery)
        adopted = self.drill.adopt(recovery)
        pid = self.drill.pid(adopted, base.BACKUP)
        self.assertIsNotNone(pid)
        self.assertNotEqual(name, self.who(adopted))
        self.drill.merged(recovery)
        self.assertEqual(pid, self.drill.pid(adopted, base.BACKUP))
        self.wait_answer(adopted)
        self.assert_plain_and_durable(recovery)

    def wait_port(self, server: drills.Server, port: int) -> None:
        """Wait until something listens on a port of a server."""
        def open_now() -> bool:
            probe = f'import socket; socket.create_connection(("{server.address}", {port}), 2)'
            done = subprocess.run(self.cloud.tenant.argv([sys.executable, '-c', probe]),
                                  check=False, capture_output=True)
            return done.returncode == 0
        self.wait(f'port {port} of {server.name}', open_now)

    def fill(self, recovery: drills.Recovery, mib: int) -> None:
        """Write to the end of a server's first disk, as if its guest did."""
        for done in range(0, mib, 64):
            said = self._io(recovery, f'write -P {_PATTERN} {_OFFSET + done * _MIB} '
                                      f'{min(64, mib - done)}M')
            self.assertIn('wrote', said)

    def assert_filled(self, recovery: drills.Recovery, mib: int, host: str | None = None
                      ) -> None:
        """See that what was written is there."""
        for done in range(0, mib, 64):
            said = self._io(recovery, f'read -P {_PATTERN} {_OFFSET + done * _MIB} '
                                      f'{min(64, mib - done)}M', host)
            self.assertIn('read', said)
            self.assertNotIn('verification failed', said)

    def _io(self, recovery: drills.Recovery, command: str, host: str | None = None) -> str:
        where = self.host(host or recovery.host)
        with self.domain(recovery, where.name) as domain:
            root = ElementTree.fromstring(domain.XMLDesc(0))
            [alias] = [disk.find('alias') for disk in root.iterfind('./devices/disk')
                       if disk.findtext('serial') == recovery.server.volumes[0]]
            assert alias is not None
            device = f'/machine/peripheral/{alias.get("name")}/virtio-backend'
            # What qemu-io says goes to QEMU's standard output, which is the domain's log.
            log = where.path(f'/var/log/libvirt/qemu/{domain.name()}.log')
            before = log.stat().st_size
            refused: str = libvirt_qemu.qemuMonitorCommand(
                domain, f'qemu-io -d {device} "{command}"',
                libvirt_qemu.VIR_DOMAIN_QEMU_MONITOR_COMMAND_HMP)
        with log.open('rb') as file:
            file.seek(before)
            return refused + file.read().decode(errors='replace')

    @contextlib.contextmanager
    def domain(self, recovery: drills.Recovery, host: str | None = None) -> Iterator[Any]:
        """The domain of a server, in its host's libvirt."""
        connection = libvirt.open(self.host(host or recovery.host).libvirt_uri)
        try:
            yield connection.lookupByUUIDString(recovery.server.id)
        finally:
            connection.close()

    def overlays(self, recovery: drills.Recovery, host: str | None = None) -> list[str]:
        """The devices of a server that go through overlays."""
        with self.domain(recovery, host) as domain:
            return [disk.target for disk in chain_nodes.chained(domain)]

    def assert_plain_and_durable(self, recovery: drills.Recovery, host: str | None = None
                                 ) -> None:
        """See that a server runs on its volumes, and its flushes get to them."""
        with self.domain(recovery, host) as domain:
            self.assertEqual([], chain_nodes.chained(domain))
            self.assertEqual([], durable.loose(domain))
            stored = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        self.assertFalse(durable.speculative(stored))
        disks = [disk for disk in ElementTree.fromstring(stored).iterfind('./devices/disk')
                 if disk.get('type') == 'network']
        self.assertEqual({('raw', 'stop')}, {
            (driver.get('type'), driver.get('error_policy'))
            for disk in disks for driver in disk.iterfind('driver')})

    # Nova's operations

    def operate(self, server_id: str, action: str, body: Any = None) -> None:
        """Have Nova do something with a server that has been adopted."""
        self.drill.act(server_id, action, body)

    def reboot(self, server: drills.Server, port: int) -> None:
        """Have a server started anew, and wait until something listens on a port of it."""
        self.operate(server.id, 'reboot', {'type': 'HARD'})
        self.wait_status(server.id, 'ACTIVE')
        self.wait_port(server, port)

    def wait_status(self, server_id: str, status: str) -> dict[str, Any]:
        """Wait until a server has a status, and no task is under way."""
        def found() -> dict[str, Any] | None:
            shown = self.drill.show(server_id)
            if shown['status'] == 'ERROR' and status != 'ERROR':
                self.fail(json.dumps(shown.get('fault')))
            ready = shown['status'] == status and shown['OS-EXT-STS:task_state'] is None
            return shown if ready else None
        shown: dict[str, Any] = self.wait(f'server {server_id} to be {status}', found)
        return shown

    def assert_refused(self, server_id: str, action: str, why: str = 'is being merged') -> None:
        """See that the last action of a kind on a server was refused, and says why."""
        def found() -> dict[str, Any] | None:
            actions = self.drill.compute.get(
                f'/servers/{server_id}/os-instance-actions').json()['instanceActions']
            last = next((one for one in actions if one['action'] == action), None)
            if last is None:
                return None
            shown: dict[str, Any] = self.drill.compute.get(
                f'/servers/{server_id}/os-instance-actions/{last["request_id"]}'
            ).json()['instanceAction']
            return shown if any(event['finish_time'] and event['result'] == 'Error'
                                for event in shown['events']) else None
        shown = self.wait(f'{action} of server {server_id} to be refused', found)
        said = json.dumps([event.get('details') for event in shown['events']])
        self.assertIn(why, said)

    # Merges

    def wait_copying(self, recovery: drills.Recovery) -> None:
        """Wait until the merge of a server copies, and has much left to copy."""
        self.wait('a merge to be under way', lambda: (
            (self.drill.status(recovery)['merge'] or {}).get('done', 0) > 0))

    def wait_merged(self, recovery: drills.Recovery) -> None:
        """Wait until a server runs on its volumes; Cinder tidies up a while later."""
        self.wait(f'the merge of {recovery.server.name}',
                  lambda: self.drill.status(recovery)['phase'] == 'merged')

    def at_the_switch(self, recovery: drills.Recovery) -> None:
        """Wait until a server's guest stands still for the end of its merge."""
        with self.domain(recovery) as domain:
            deadline = time.monotonic() + 120
            while switching.note_of(domain.XMLDesc(0)) is None:
                self.assertLess(time.monotonic(), deadline, 'the merge does not get to its end')
                time.sleep(0.005)
