# SPDX-License-Identifier: Apache-2.0
"""librbd's cache, as compute hosts configure it: no flush succeeds whose writes were refused."""

import contextlib
import time

import ddt
import rbd

from specreds_cinder.tests.functional import protocol_base
from specreds_nova import write_around

_BLOCK = b'\x55' * 4096
# Blocks in different objects, so that several writes are in flight.
_PLACES = [number << 22 for number in range(1, 9)]
# Seconds in which failed writes come back after the flush was requested, at that moment, and
# before it.
_DELAYS = (0.0, 0.005, 0.02, 0.1, 0.5)
_TIMES = 4


@ddt.ddt
class WriteBackTest(protocol_base.ProtocolTestCase):

    def open_image(self) -> tuple[rbd.Image, str]:
        """Open a new image with librbd's cache, and return it and the client's address."""
        client = self.connect(self.ceph.conf, 'client.cinder', rbd_cache='true',
                              **{write_around.OPTION: write_around.SAFE})
        io = client.open_ioctx(self.pool)
        self.addCleanup(io.close)
        image = rbd.Image(io, self.make_volume(size=64 << 20).image)
        self.addCleanup(image.close)
        # The client gets the lock, and librbd begins to write back.
        image.write(_BLOCK, 0)
        image.flush()
        return image, str(client.get_addrs())

    @ddt.data(*_DELAYS)
    def test_flush_behind_a_fence_fails_unless_its_writes_are_stored(self, delay: float) -> None:
        for _ in range(_TIMES):
            image, address = self.open_image()
            self.ceph.admin(['osd', 'blocklist', 'add', address])
            # Until the OSDs have the fence. The client does not know it yet.
            time.sleep(0.3)
            with contextlib.suppress(rbd.ConnectionShutdown):
                for place in _PLACES:
                    image.write(_BLOCK, place)
                time.sleep(delay)
                image.flush()
                self.assertEqual([_BLOCK] * len(_PLACES), self.stored(image.get_name()))
            self.assertRaises(rbd.ConnectionShutdown, image.flush)

    def stored(self, image: str) -> list[bytes]:
        """Return what another client finds at the places."""
        with (self.cinder.open_ioctx(self.pool) as io,
              rbd.Image(io, image, read_only=True) as other):
            return [other.read(place, len(_BLOCK)) for place in _PLACES]
