# SPDX-License-Identifier: Apache-2.0
"""Base class of the tests of fences."""

import rbd

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import protocol_base


class FenceTestCase(protocol_base.ProtocolTestCase):
    """A test with a superposed volume and its primary."""

    def setUp(self) -> None:
        super().setUp()
        # First, because only later connections may use them.
        self.make_pools()
        self.volume = self.make_volume()
        self.primary = self.make_primary(self.volume)
        self.record = self.superpose(self.volume)

    def make_pools(self) -> None:
        """Create the pools that the test needs, beside the usual one."""

    def promote(self) -> None:
        """Promote the backup of a silent primary."""
        self.assertEqual('promoted', self.protocol.collapse(self.record).outcome)

    def collapse_cut_off(self, name: str, phase: str) -> sp.Record:
        """Collapse by a controller that ends at an event, and return the record."""
        with sp.trace.observe(self.at(name, phase, protocol_base.cut)):
            self.assertRaises(protocol_base.Cut, self.protocol.collapse, self.record)
        record = self.protocol.reload(self.record)
        self.assertEqual(states.COLLAPSING, record.state)
        self.assertEqual(self.primary.clients, set(record.fenced))
        return record

    def open_image(self) -> str:
        """Open the volume's image as another writer, and return the client's address."""
        client = self.connect(self.ceph.conf, 'client.cinder')
        io = client.open_ioctx(self.pool)
        self.addCleanup(io.close)
        image = rbd.Image(io, self.volume.image)
        self.addCleanup(image.close)
        return str(client.get_addrs())
