# SPDX-License-Identifier: Apache-2.0
"""librbd's cache, as compute hosts and backups configure it: what it acknowledges is in Ceph."""

from collections.abc import Mapping
import contextlib
import time

import ddt
import rados
import rbd

from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.tests.functional import protocol_base
from specreds_nova import cache_policy
from specreds_nova import deployment
from specreds_nova.host.disks import backup_clients

# Of primaries on compute hosts, and of backups.
_CLIENTS = ({name: str(value) for name, value in deployment.clients()['client'].items()},
            backup_clients.OPTIONS)
_BLOCK = b'\x55' * 4096
# Blocks in different objects, so that several writes are in flight.
_PLACES = [number << 22 for number in range(1, 9)]
# Seconds in which failed writes come back after the flush was requested, at that moment, and
# before it.
_DELAYS = (0.0, 0.005, 0.02, 0.1, 0.5)
_TIMES = 4
_CLOCKS = 600
_PATIENCE = 200


@ddt.ddt
class CachePolicyTest(protocol_base.ProtocolTestCase):

    def open_image(self, options: Mapping[str, str]) -> tuple[rbd.Image, str]:
        """Open a new image with librbd's cache, and return it and the client's address."""
        client = self.connect(self.ceph.conf, 'client.cinder', **{'rbd_cache': 'true', **options})
        io = client.open_ioctx(self.pool)
        self.addCleanup(io.close)
        image = rbd.Image(io, self.make_volume(size=64 << 20).image)
        self.addCleanup(image.close)
        # The client gets the lock, and librbd begins to write back.
        image.write(_BLOCK, 0)
        image.flush()
        return image, str(client.get_addrs())

    def fence(self, address: str) -> None:
        """Fence a client that does not know it yet."""
        self.ceph.admin(['osd', 'blocklist', 'add', address])

    def give_fence_to_osds(self, image: rbd.Image) -> None:
        """Return when no OSD accepts writes of a fenced client to the places."""
        self.cinder.wait_for_latest_osdmap()
        with self.cinder.open_ioctx(self.pool) as io:
            for place in _PLACES:
                # A request carries the epoch of its client, and its OSD waits for that map.
                with contextlib.suppress(rados.ObjectNotFound):
                    io.stat(f'{image.block_name_prefix()}.{place >> 22:016x}')

    def test_write_is_in_ceph_when_it_is_acknowledged(self) -> None:
        for options in _CLIENTS:
            image, _ = self.open_image(options)
            for place in _PLACES:
                image.write(_BLOCK, place)
            self.assertEqual([_BLOCK] * len(_PLACES), self.stored(image.get_name()), str(options))

    def test_write_behind_a_fence_fails_or_is_stored(self) -> None:
        for options in _CLIENTS:
            image, address = self.open_image(options)
            self.fence(address)
            acknowledged = self.write_until_refused(image)
            stored = dict(zip(_PLACES, self.stored(image.get_name()), strict=True))
            self.assertEqual([_BLOCK] * len(acknowledged),
                             [stored[place] for place in acknowledged], str(options))
            self.give_fence_to_osds(image)
            self.assertRaises(rbd.ConnectionShutdown, image.write, _BLOCK, _PLACES[0])

    def write_until_refused(self, image: rbd.Image) -> list[int]:
        """Write to each place in turn until a write fails, and return where writes did not."""
        acknowledged = []
        with contextlib.suppress(rbd.ConnectionShutdown):
            # An OSD accepts writes until it has the fence.
            for place in _PLACES * _PATIENCE:
                image.write(_BLOCK, place)
                acknowledged.append(place)
        return acknowledged

    @ddt.data(*_DELAYS)
    def test_flush_behind_a_fence_fails_with_writeback_unless_its_writes_are_stored(
            self, delay: float) -> None:
        for _ in range(_TIMES):
            image, address = self.open_image({cache_policy.OPTION: 'writeback'})
            self.fence(address)
            self.give_fence_to_osds(image)
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


class OptionTest(protocol_base.ProtocolTestCase):
    """The policy that a client has that opens an image now, and since when it has."""

    def policy(self) -> tuple[str, float]:
        """Return it."""
        return volumes.option(self.cluster, self.volume, cache_policy.OPTION)

    def test_option_of_a_pool_or_an_image_takes_precedence(self) -> None:
        pool = self.make_pool('options')
        self.volume = self.make_volume(pool=pool)
        self.assertEqual(cache_policy.DEFAULT, self.policy()[0])
        with self.open_pool(pool) as io:
            rbd.RBD().pool_metadata_set(io, f'conf_{cache_policy.OPTION}', cache_policy.SAFE)
            policy, changed = self.policy()
            self.assertEqual(cache_policy.SAFE, policy)
            self.assertTrue(abs(time.time() - changed) < _CLOCKS, changed)
            with rbd.Image(io, self.volume.image) as image:
                image.metadata_set(f'conf_{cache_policy.OPTION}', 'writeback')
        self.assertEqual('writeback', self.policy()[0])
