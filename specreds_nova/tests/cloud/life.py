# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of promoted, adopted and merged servers."""

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

from cloud import deadline
from cloud import drill as drills
from specreds_nova.host.disks import durable
from specreds_nova.host.disks import nodes as disk_nodes
from specreds_nova.host.merge import pivot
from specreds_nova.tests.cloud import base

_MIB = 1 << 20
# MiB per second of a merge that lasts.
_SLOWLY = 4
# Beyond the part of the disk that the guests' file systems use.
_OFFSET = 1536 * _MIB
_PATTERN = '0x5a'


class LifeTestCase(base.NovaTestCase):
    """A test with servers whose backup was promoted."""

    def promoted(self, *, fill: int = 0, server: drills.Server | None = None
                 ) -> drills.Recovery:
        """Promote the backup of a server, without an adoption.

        :param fill: MiB to write to the backup's disk beside the writes of the guest; they are
            merged slowly, so that there is time for what a test does before the end of the merge
        """
        server = server or self.boot(metadata={'specreds:ready': 'delay:1'})
        # Instead of an accident of its host: the primary only must not write.
        self.host(server.host).virsh('suspend', server.id)
        recovery = self.begin(server)
        if fill:
            self.fill(recovery, fill)
        self.drill.promote(recovery)
        if fill:
            self.limit_merge(recovery, _SLOWLY)
        return recovery

    def adopted(self, *, fill: int = 0, server: drills.Server | None = None
                ) -> drills.Recovery:
        """Promote the backup of a server and let Nova adopt it."""
        recovery = self.promoted(fill=fill, server=server)
        self.drill.adopt(recovery)
        return recovery

    def check_abort(self) -> None:
        """Assert that a dropped backup leaves nothing behind, and that its primary still runs."""
        server = self.boot()
        name = self.guest_name(server)
        recovery = self.begin(server)
        self.drill.abort(recovery)
        self.assertNothingLeft(recovery)
        self.assertEqual(name, self.guest_name(server))

    def check_promotion(self) -> None:
        """Assert that a backup is promoted, adopted and merged after the death of the host."""
        server = self.boot()
        name = self.guest_name(server)
        self.host(base.PRIMARY).kill()
        recovery = self.begin(server)
        self.drill.promote(recovery)
        adopted = self.drill.adopt(recovery)
        pid = self.drill.pid(adopted, base.BACKUP)
        self.assertIsNotNone(pid)
        self.assertNotEqual(name, self.guest_name(adopted))
        self.drill.merged(recovery)
        self.assertEqual(pid, self.drill.pid(adopted, base.BACKUP))
        self.wait_answer(adopted)
        self.assert_plain_and_durable(recovery)

    def wait_port(self, server: drills.Server, port: int) -> None:
        """Wait until something listens on a port of a server."""
        def is_open() -> bool:
            probe = f'import socket; socket.create_connection(("{server.address}", {port}), 2)'
            done = subprocess.run(self.cloud.tenant.argv([sys.executable, '-c', probe]),
                                  check=False, capture_output=True)
            return done.returncode == 0
        self.wait(f'port {port} of {server.name}', is_open)

    def fill(self, recovery: drills.Recovery, mib: int) -> None:
        """Write to the end of a server's first disk through its device, as its guest would."""
        for done in range(0, mib, 64):
            output = self._io(recovery, f'write -P {_PATTERN} {_OFFSET + done * _MIB} '
                                      f'{min(64, mib - done)}M')
            self.assertIn('wrote', output)

    def assert_filled(self, recovery: drills.Recovery, mib: int, host: str | None = None
                      ) -> None:
        """Assert that the first disk of a server has what fill has written."""
        for done in range(0, mib, 64):
            output = self._io(recovery, f'read -P {_PATTERN} {_OFFSET + done * _MIB} '
                                      f'{min(64, mib - done)}M', host)
            self.assertIn('read', output)
            self.assertNotIn('verification failed', output)

    def _io(self, recovery: drills.Recovery, command: str, host: str | None = None) -> str:
        where = self.host(host or recovery.host)
        with self.domain(recovery, where.name) as domain:
            root = ElementTree.fromstring(domain.XMLDesc(0))
            [alias] = [disk.find('alias') for disk in root.iterfind('./devices/disk')
                       if disk.findtext('serial') == recovery.server.volumes[0]]
            assert alias is not None
            device = f'/machine/peripheral/{alias.get("name")}/virtio-backend'
            # qemu-io prints to QEMU's standard output, which is the log of the domain.
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
        """Yield the domain of a server from the libvirt of its host."""
        connection = libvirt.open(self.host(host or recovery.host).libvirt_uri)
        try:
            yield connection.lookupByUUIDString(recovery.server.id)
        finally:
            connection.close()

    def overlays(self, recovery: drills.Recovery, host: str | None = None) -> list[str]:
        """Return the devices of a server that use an overlay."""
        with self.domain(recovery, host) as domain:
            return [disk.target for disk in disk_nodes.chained(domain)]

    def assert_plain_and_durable(self, recovery: drills.Recovery, host: str | None = None
                                 ) -> None:
        """Assert that a server runs on its volumes only, and that its flushes reach them."""
        with self.domain(recovery, host) as domain:
            self.assertEqual([], disk_nodes.chained(domain))
            self.assertEqual([], durable.ignoring_flushes(domain))
            stored = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        self.assertFalse(durable.speculative(stored))
        disks = [disk for disk in ElementTree.fromstring(stored).iterfind('./devices/disk')
                 if disk.get('type') == 'network']
        self.assertEqual({('raw', 'stop')}, {
            (driver.get('type'), driver.get('error_policy'))
            for disk in disks for driver in disk.iterfind('driver')})

    # Nova's operations

    def operate(self, server_id: str, action: str, body: Any = None) -> None:
        """Request an action on a server from Nova."""
        self.drill.act(server_id, action, body)

    def reboot(self, server: drills.Server, port: int) -> None:
        """Reboot a server hard, and wait until it listens on a port."""
        self.operate(server.id, 'reboot', {'type': 'HARD'})
        self.wait_status(server.id, 'ACTIVE')
        self.wait_port(server, port)

    @contextlib.contextmanager
    def assert_replaced_unseen(self, server: drills.Server) -> Iterator[None]:
        """Assert that the device of an adopted guest is replaced, and its port never removed.

        Neutron's agent takes a port for removed with any interface that has its id.
        """
        [port] = self.drill.ports(server)
        with self.host(base.BACKUP).popen(
                ['ovsdb-client', 'monitor', 'Interface', 'name,external_ids', '--format=json'],
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as monitor:
            assert monitor.stdout
            try:
                # What is there already.
                monitor.stdout.readline()
                yield
            finally:
                monitor.terminate()
                changes = [row for line in monitor.stdout for row in json.loads(line)['data']]
        removed = [row for row in changes if row[1] == 'delete']
        self.assertIn(port[:11], json.dumps(removed))
        self.assertNotIn(port, json.dumps(removed))

    def assert_refused(self, server_id: str, action: str, why: str = 'is being merged') -> None:
        """Assert that the last action of a kind on a server was refused for a reason."""
        def refused() -> dict[str, Any] | None:
            actions = self.drill.compute.get(
                f'/servers/{server_id}/os-instance-actions').json()['instanceActions']
            last = next((entry for entry in actions if entry['action'] == action), None)
            if last is None:
                return None
            shown: dict[str, Any] = self.drill.compute.get(
                f'/servers/{server_id}/os-instance-actions/{last["request_id"]}'
            ).json()['instanceAction']
            return shown if any(event['finish_time'] and event['result'] == 'Error'
                                for event in shown['events']) else None
        shown = self.wait(f'{action} of server {server_id} to be refused', refused)
        details = json.dumps([event.get('details') for event in shown['events']])
        self.assertIn(why, details)

    # Merges

    def wait_copying(self, recovery: drills.Recovery) -> None:
        """Wait until the merge of a server has begun to copy."""
        self.wait('a merge to be under way', lambda: (
            (self.drill.status(recovery)['merge'] or {}).get('done', 0) > 0))

    def limit_merge(self, recovery: drills.Recovery, mib: int) -> None:
        """Let the merge that has begun to copy a server's first disk copy so much in a second.

        :param mib: MiB; 0 for no limit
        """
        self.wait_copying(recovery)
        with self.domain(recovery) as domain:
            domain.blockJobSetSpeed('vda', mib * _MIB,
                                    libvirt.VIR_DOMAIN_BLOCK_JOB_SPEED_BANDWIDTH_BYTES)

    def wait_merged(self, recovery: drills.Recovery) -> None:
        """Wait until the host has merged a server; Cinder removes the overlays later."""
        self.wait(f'the merge of {recovery.server.name}',
                  lambda: self.drill.status(recovery)['phase'] == 'merged')

    def wait_switch(self, recovery: drills.Recovery) -> None:
        """Wait until a server's guest is paused for the end of its merge."""
        with self.domain(recovery) as domain:
            limit = deadline.Deadline(120)
            while pivot.note_of(domain.XMLDesc(0)) is None:
                self.assertFalse(limit.passed, 'the merge does not get to its end')
                time.sleep(0.005)
