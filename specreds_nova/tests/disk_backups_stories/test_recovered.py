# SPDX-License-Identifier: Apache-2.0
"""Servers with disks that Nova keeps in RBD have backups."""

from collections.abc import Iterator
import contextlib
import uuid

import rados
import rbd

from cloud import drill as drills
from cloud.demo import recoveries
from cloud.openstack import nova
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.disk_backups_stories import base

# A place in a disk that neither Nova nor the guest writes to.
_PLACE = 8 << 20


class TestRecovered(base.DisksTestCase):

    def test_backup_has_what_was_written_and_keeps_what_it_writes(self) -> None:
        servers = [self.boot_from_image(), self.boot_from_image({
            'source_type': 'blank', 'destination_type': 'volume', 'volume_size': 1,
            'delete_on_termination': True})]
        for server in servers:
            self.assertEqual('speculative',
                             self.openstack('server', 'check', server.id)['recovery'])
        written = {server.id: self.write(server) for server in servers}
        self.host(cloud_base.PRIMARY).kill()
        for server in servers:
            self.begun(server, 'merge')
            here = self.drill.active(server.id)
            self.assertGreaterEqual(self.count(here), written[server.id])
            written[server.id] = self.write(here)
            # Where the merge has not ended, the overlay is opened again.
            self.reboot(here)
            self.assertGreaterEqual(self.count(here), written[server.id])
        for server in servers:
            here = self.assertRecovered(server)
            written[server.id] = self.write(here)
            # The disk itself is opened after the merge.
            self.reboot(here)
            self.assertGreaterEqual(self.count(here), written[server.id])
        self.assertNoOverlays()
        self.mend()
        self.trusted()
        for server in servers:
            self.assertEqual([self.drill.active(server.id).host], self.drill.running(server))

    def test_backup_has_all_disks_that_nova_keeps_in_rbd(self) -> None:
        flavor = self.flavor(ephemeral=1, swap=64)
        servers = {
            # The config drive is read-only, and primary and backup share it.
            self.boot_from_image(flavor=flavor, config_drive=True): ('disk', 'disk.eph0',
                                                                     'disk.swap'),
            self.boot(flavor=flavor, metadata={'specreds:ready': 'tcp:80'}): ('disk.eph0',
                                                                              'disk.swap')}
        disks = {f'{server.id}_{name}' for server, names in servers.items() for name in names}
        self.assertEqual(disks, {image for image in self.images()
                                 if image.partition('_')[0] in {server.id for server in servers}
                                 and not image.endswith('.config')})
        # Of a disk that Nova makes anew, nothing else would differ.
        marks = {image: uuid.uuid4().bytes for image in disks if not image.endswith('_disk')}
        for server in servers:
            self.assertEqual('speculative',
                             self.openstack('server', 'check', server.id)['recovery'])
            self._turn(server, 'os-stop', 'SHUTOFF')
        for image, mark in marks.items():
            with self._opened(image) as disk:
                disk.write(mark, _PLACE)
        for server in servers:
            self._turn(server, 'os-start', 'ACTIVE')
            self.wait_answer(server)
        self.host(cloud_base.PRIMARY).kill()
        self.wait('all disks to have overlays', lambda: disks == {
            image.partition('.')[2] for image in self.images() if image.startswith('super-')})
        for server in servers:
            self.reboot(self.assertRecovered(server))
        self.assertNoOverlays()
        for image, mark in marks.items():
            with self._opened(image, read_only=True) as disk:
                self.assertEqual(mark, disk.read(_PLACE, len(mark)), image)

    def _turn(self, server: drills.Server, action: str, status: str) -> None:
        """Start or stop a server."""
        self.drill.act(server.id, action)
        self.wait_status(server.id, status)

    @contextlib.contextmanager
    def _opened(self, image: str, *, read_only: bool = False) -> Iterator[rbd.Image]:
        """Open an image in the pool of Nova's disks."""
        with (rados.Rados(name='client.admin', conffile=str(self.cloud.ceph.admin_conf)) as ceph,
              ceph.open_ioctx(nova.POOL) as io,
              rbd.Image(io, image, read_only=read_only) as disk):
            yield disk

    def test_primary_that_writes_keeps_its_disk(self) -> None:
        server = self.boot_from_image()
        name = self.guest_name(server)
        self.heartbeat(server, 0.1)
        host = self.host(cloud_base.PRIMARY)
        host.hang()
        self.begun(server)
        host.resume()
        self.ended(server, recoveries.PRIMARY)
        self.trusted()
        self.assertUnnoticed(server, name)
        before = self.count(server)
        self.wait('the guest to write', lambda: self.count(server) > before + 2)
        self.assertNoOverlays()

    def reboot(self, server: drills.Server) -> None:
        """Reboot a server hard, and wait until another guest of it answers."""
        name = self.guest_name(server)
        self.drill.act(server.id, 'reboot', {'type': 'HARD'})
        self.wait_status(server.id, 'ACTIVE')
        self.assertNotEqual(name, self.guest_name(server))

    def assertNoOverlays(self) -> None:
        """Assert that no overlay is left in the pool."""
        self.wait('all overlays to be removed', lambda: not [
            image for image in self.images() if 'super-' in image])
