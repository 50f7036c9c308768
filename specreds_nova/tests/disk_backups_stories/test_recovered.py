# SPDX-License-Identifier: Apache-2.0
"""Servers whose root disk Nova keeps in RBD have backups."""

from cloud import drill as drills
from cloud.demo import recoveries
from cloud.openstack import layout
from specreds_nova.tests.cloud import base as cloud_base
from specreds_nova.tests.disks_stories import base


class TestRecovered(base.DisksTestCase):

    DISKS = layout.RBD_BACKUPS

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

        def rebooted() -> bool:
            shown = self.drill.show(server.id)
            return shown['status'] == 'ACTIVE' and shown['OS-EXT-STS:task_state'] is None
        self.wait(f'{server.name} to be rebooted', rebooted)
        self.assertNotEqual(name, self.guest_name(server))

    def assertNoOverlays(self) -> None:
        """Assert that no overlay is left in the pool."""
        self.wait('all overlays to be removed', lambda: not [
            image for image in self.images() if 'super-' in image])
