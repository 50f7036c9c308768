# SPDX-License-Identifier: Apache-2.0
"""After a superposition, a volume of any kind holds exactly one version."""

import dataclasses
import pathlib

import ddt
import fixtures
import nbd
import rbd

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base

KIB = 1024
SIZE = protocol_base.SIZE
OBJECT = 4 * base.MIB


@dataclasses.dataclass(frozen=True)
class Change:
    """One operation of the backup, for qemu-io, NBD and the model."""

    verb: str
    offset: int
    length: int

    def command(self) -> str:
        """Return qemu-io's command."""
        verb = {'write': 'write -P 0xc1', 'zero': 'write -z', 'discard': 'discard'}[self.verb]
        return f'{verb} {self.offset} {self.length}'

    def send(self, disk: nbd.NBD) -> None:
        """Send the operation through NBD."""
        if self.verb == 'write':
            disk.pwrite(b'\xc1' * self.length, self.offset)
        elif self.verb == 'zero':
            disk.zero(self.length, self.offset)
        else:
            disk.trim(self.length, self.offset)

    def apply(self, disk: bytearray) -> None:
        """Apply the operation to the model."""
        byte = b'\xc1' if self.verb == 'write' else b'\0'
        disk[self.offset:self.offset + self.length] = byte * self.length


# Over written parts (the first four objects have 4 KiB each) and others, across the borders of
# objects, of clusters and of the subclusters that a zero may cover.
CHANGES = (
    Change('write', 0, 512),
    Change('write', 2 * KIB, 4 * KIB),
    Change('write', OBJECT - 64 * KIB, 128 * KIB),
    Change('zero', 2 * OBJECT, 4 * KIB),
    Change('write', 2 * OBJECT + 128 * KIB, 300 * KIB),
    Change('zero', 2 * OBJECT + 192 * KIB, 8 * KIB),
    Change('discard', 3 * OBJECT, 128 * KIB),
    Change('write', 6 * OBJECT + 77 * 512, 3 * 512),
    Change('discard', 6 * OBJECT + 1024 * KIB, 1024 * KIB),
    Change('write', SIZE - 4 * KIB, 4 * KIB),
)


class ContentsTestCase(protocol_base.ProtocolTestCase):

    def assert_holds(self, expected: bytes | bytearray, contents: bytes | bytearray) -> None:
        """Assert that contents are equal, and name the first difference."""
        self.assertEqual(len(expected), len(contents))
        if expected != contents:
            offset = next(index for index in range(0, len(contents), 512)
                          if expected[index:index + 512] != contents[index:index + 512])
            self.fail(f'sector at {offset}: {expected[offset:offset + 16].hex()} expected, '
                      f'{contents[offset:offset + 16].hex()} found')


@ddt.ddt
class KindsTest(ContentsTestCase):
    """Kinds of images, each through its whole life: promoted and merged, dirty, aborted."""

    def assert_right(self, *refs: sp.VolumeRef, size: int = SIZE) -> None:
        """Superpose volumes once for each outcome, and check their contents."""
        expected = [bytearray(self.contents(ref, size)) for ref in refs]
        record = self.superpose(*refs)
        self.assertFalse(self.protocol.check(record).dirty)
        for index, volume in enumerate(record.volumes):
            actors.child_io(self.cluster, volume, *(change.command() for change in CHANGES))
            self.harden(record)
            for change in CHANGES:
                change.apply(expected[index])
        self.assertEqual('promoted', self.protocol.collapse(record).outcome)
        self.protocol.merge(record)
        self.assert_nothing_left(record)
        for index, ref in enumerate(refs):
            self.assert_holds(expected[index], self.contents(ref, size))

        record = self.superpose(*refs)
        actors.child_io(self.cluster, record.volumes[-1], 'write -P 0xc2 0 1M')
        self.harden(record)
        with self.open_pool(refs[-1].pool, refs[-1].namespace) as io, \
                rbd.Image(io, refs[-1].image) as image:
            image.write(b'\x99' * 512, 5 * OBJECT)
        expected[-1][5 * OBJECT:5 * OBJECT + 512] = b'\x99' * 512
        self.assertTrue(self.protocol.check(record).dirty)
        self.assertEqual('dirty', self.protocol.collapse(record).outcome)
        self.assert_nothing_left(record)

        record = self.superpose(*refs)
        actors.child_io(self.cluster, record.volumes[0], 'write -P 0xc3 0 1M')
        self.protocol.abort(record)
        self.assert_nothing_left(record)
        for index, ref in enumerate(refs):
            self.assert_holds(expected[index], self.contents(ref, size))

    @ddt.data(
        {},
        {'order': 20},
        {'order': 25, 'objects': 1},
        {'stripe_unit': 64 * KIB, 'stripe_count': 4},
        {'features': rbd.RBD_FEATURE_EXCLUSIVE_LOCK | rbd.RBD_FEATURE_OBJECT_MAP},
    )
    def test_image_of_each_layout_has_the_right_contents(self, options: dict[str, int]) -> None:
        self.assert_right(self.make_volume(**options))

    def test_full_image_has_the_right_contents(self) -> None:
        volume = self.make_volume(objects=0)
        with self.open_pool() as io, rbd.Image(io, volume.image) as image:
            image.write(bytes(range(256)) * (SIZE // 256), 0)
        self.assert_right(volume)

    def test_size_that_is_no_multiple_of_a_cluster(self) -> None:
        self.assert_right(self.make_volume(size=SIZE + 7 * 512), size=SIZE + 7 * 512)

    @ddt.data(False, True)
    def test_image_with_a_data_pool_has_the_right_contents(self, erasure: bool) -> None:
        data = self.make_pool('data', pg_num=8, erasure=erasure)
        self.assert_right(self.make_volume(data_pool=data))

    def test_default_data_pool_of_a_later_ceph_conf_is_not_the_overlay_s(self) -> None:
        data = self.make_pool('later', pg_num=8)
        conf = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'ceph.conf')
        conf.write_text(self.ceph.conf.read_text()
                        + f'\n[client]\nrbd default data pool = {data}\n')
        with sp.Cluster(str(conf), 'cinder', base.TIMEOUT) as cluster:
            ref = self.make_volume()
            record = sp.Protocol(cluster).super([ref])
            self.addCleanup(self.drop, record)
            with volumes.opened(cluster, record.volumes[0].overlay_ref) as overlay:
                self.assertEqual(record.volumes[0].pool_id, overlay.data_pool_id())
            self.make_backup(record).end()

    def test_image_with_data_pool_and_namespace_has_the_right_contents(self) -> None:
        data = self.make_pool('data', pg_num=8)
        self.make_namespace('both')
        self.assert_right(self.make_volume(data_pool=data, namespace='both'))

    def test_set_over_pools_and_namespaces_has_the_right_contents(self) -> None:
        pool = self.make_pool('second', pg_num=8)
        for where in ('one', 'two'):
            self.make_namespace(where, pool)
        self.assert_right(self.make_volume(pool=pool, namespace='one'),
                          self.make_volume(pool=pool, namespace='two'), self.make_volume())

    def make_clone(self) -> sp.VolumeRef:
        """Create a volume from a snapshot of another one, as from a Glance image."""
        parent = self.make_volume(objects=8)
        clone = sp.VolumeRef(self.pool, '', f'{parent.image}-clone')
        with self.open_pool() as io:
            with rbd.Image(io, parent.image) as image:
                image.create_snap('base')
                image.protect_snap('base')
            rbd.RBD().clone(io, parent.image, 'base', io, clone.image)
        self.addCleanup(self.remove_image, clone)
        return clone

    def test_clone_has_the_right_contents(self) -> None:
        clone = self.make_clone()
        with self.open_pool() as io, rbd.Image(io, clone.image) as image:
            image.write(b'\x31' * 4096, OBJECT + 8 * KIB)
            image.discard(3 * OBJECT, OBJECT)
        self.assert_right(clone)

    def test_copy_up_is_dirty(self) -> None:
        clone = self.make_clone()
        record = self.superpose(clone)
        self.assertEqual((False, 0), (self.protocol.check(record).dirty,
                                      self.protocol.check(record).objects))
        with self.open_pool() as io, rbd.Image(io, clone.image) as image:
            image.write(b'\x31' * 512, OBJECT)
        self.assertEqual('dirty', self.protocol.collapse(record).outcome)
