# SPDX-License-Identifier: Apache-2.0
"""A merged server is like any other server, and as durable."""

import libvirt

from cloud import drill as drills
from specreds_nova.host.disks import durable
from specreds_nova.tests.cloud import base
from specreds_nova.tests.cloud import life


class TestAfterTheMerge(life.LifeTestCase):
    """The server is like any other server, and as durable."""

    def merged(self) -> drills.Recovery:
        """Return the recovery of a server that has just been merged."""
        recovery = self.adopted(fill=16)
        self.wait_merged(recovery)
        self.assert_plain_and_durable(recovery)
        return recovery

    def test_merged_server_is_suspended_and_migrated(self) -> None:
        recovery = self.merged()
        server = recovery.server
        name = self.guest_name(server)
        self.operate(server.id, 'suspend')
        self.wait_status(server.id, 'SUSPENDED')
        self.operate(server.id, 'resume')
        self.wait_status(server.id, 'ACTIVE')
        self.assert_plain_and_durable(recovery)
        self.wait('the guest', lambda: self.guest_name(server) == name)

        self.drill.migrate(server.id, base.OTHER)
        self.assert_plain_and_durable(recovery, base.OTHER)
        self.wait('the guest', lambda: self.guest_name(server) == name)
        self.assert_filled(recovery, 16, base.OTHER)

    def test_live_migration_in_spite_of_cache_mode_unsafe(self) -> None:
        # The live definition of the domain keeps the cache mode with which the backup was started.
        recovery = self.merged()
        with self.domain(recovery) as domain:
            self.assertTrue(durable.speculative(
                domain.XMLDesc(libvirt.VIR_DOMAIN_XML_MIGRATABLE)))
        self.drill.migrate(recovery.server.id, base.OTHER)
        self.assert_plain_and_durable(recovery, base.OTHER)
        with self.domain(recovery, base.OTHER) as domain:
            self.assertFalse(durable.speculative(domain.XMLDesc(0)))
