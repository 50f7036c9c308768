# SPDX-License-Identifier: Apache-2.0
"""Disks that Nova keeps in RBD, superposed by the worker of another pool, on a real cluster."""

import contextlib
from typing import Any
import uuid

import rbd

from specreds_cinder import exception
from specreds_cinder import server_disks
from specreds_cinder import superposition as sp
from specreds_cinder.service.worker import client
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base
from specreds_cinder.tests.functional import protocol_base
from specreds_cinder.tests.functional import worker_base

OBJECT = 4 * base.MIB
# Those of Glance's images: layering, exclusive-lock, object-map, fast-diff, deep-flatten.
_FEATURES = 0x3d


class ServerDisksTest(worker_base.WorkerTestCase):
    """A server with a root disk, cloned from an image in another pool, beside a volume."""

    def setUp(self) -> None:
        super().setUp()
        self.server = str(uuid.uuid4())
        self.root = self.make_root()

    def make_worker(self, **cluster: Any) -> client.Worker:
        """Return a worker that has a second pool."""
        # First, because only later connections may use the pool.
        self.vms = self.make_pool('vms', pg_num=1)
        made = client.Worker(
            {'conffile': str(self.ceph.conf), 'user': 'cinder', 'timeout': 30, **cluster},
            self.pool, {}, watch=False, others=[self.vms])
        self.addCleanup(made.stop)
        return made

    def disk(self, name: str) -> sp.VolumeRef:
        """Return the image of a disk of the server."""
        return sp.VolumeRef(self.vms, '', server_disks.ServerDisk(self.server, name).id)

    def make_root(self) -> sp.VolumeRef:
        """Create the root disk as Nova does: a clone of a snapshot of Glance's image."""
        image = self.make_image('image', protocol_base.SIZE, 4)
        root = self.disk('disk')
        with self.open_pool() as images, self.open_pool(self.vms) as vms:
            with rbd.Image(images, image.image) as opened:
                opened.create_snap('snap')
                opened.protect_snap('snap')
            rbd.RBD().clone(images, image.image, 'snap', vms, root.image,
                            features=_FEATURES)
        self.addCleanup(self.remove_image, root)
        return root

    def make_disk(self, name: str) -> sp.VolumeRef:
        """Create another disk of the server."""
        disk = self.disk(name)
        with self.open_pool(self.vms) as vms:
            rbd.RBD().create(vms, disk.image, protocol_base.SIZE, old_format=False)
        self.addCleanup(self.remove_image, disk)
        return disk

    def cleaned_by_nova(self) -> list[str]:
        """Return the images that Nova removes when it deletes the server."""
        with self.open_pool(self.vms) as vms:
            return [name for name in rbd.RBD().list(vms) if name.startswith(self.server)]

    def listed(self) -> list[str]:
        """Return the ids of all superpositions, also of those of other tests."""
        return [each['id'] for each in self.ask('list')]

    def test_disk_and_volume_are_promoted_and_merged_as_one(self) -> None:
        volume = self.make_volume()
        self.make_primary(volume, self.root)
        self.assertEqual([[], []], self.ask(
            'eligibility', images=[volume.image, str(self.root)]))
        superposition = self.super(volume.image, str(self.root))
        view = self.ask('show', superposition=superposition)
        self.assertEqual([volume.image, str(self.root)],
                         [each['image'] for each in view['volumes']])
        self.assertIn(superposition, self.listed())
        for image in (volume.image, str(self.root)):
            self.assertEqual(superposition, self.ask('find', image=image)['id'])
        record = self.protocol.show(superposition, volume.home)
        for each, number in zip(record.volumes, (5, 6), strict=True):
            actors.child_io(self.cluster, each, f'write -P {number} {OBJECT} 4k')
        report = self.ask('collapse', superposition=superposition, durable=True)
        self.assertEqual('promoted', report['outcome'])
        self.ask('merge', superposition=superposition)
        for ref, byte in ((volume, b'\5'), (self.root, b'\6')):
            self.assertEqual(byte * 4096, self.contents(ref)[OBJECT:OBJECT + 4096])
        # The rest is that of the image.
        self.assertEqual(b'\xa5' * 4096, self.contents(self.root)[2 * OBJECT:2 * OBJECT + 4096])
        self.assert_nothing_left(record)

    def test_write_to_the_disk_makes_the_whole_set_dirty(self) -> None:
        volume = self.make_volume()
        primary = self.make_primary(volume, self.root)
        superposition = self.super(volume.image, str(self.root))
        self.assertEqual(0, primary.write(OBJECT, disk=1))
        report = self.ask('collapse', superposition=superposition, durable=False)
        self.assertEqual('dirty', report['outcome'])
        self.assertEqual(0, primary.write(2 * OBJECT, disk=0))
        self.assertNotIn(superposition, self.listed())

    def test_disks_without_a_volume_have_their_record_in_their_pool(self) -> None:
        swap = self.make_disk('disk.swap')
        superposition = self.super(str(self.root), str(swap))
        self.assertEqual(superposition, self.protocol.show(superposition, self.root.home).id)
        self.assertEqual(1, self.listed().count(superposition))
        # Nova removes the disks of a deleted server, and not their overlays.
        (record,) = self.protocol.list(self.root.home)
        self.assertEqual({self.root.image, swap.image}, set(self.cleaned_by_nova()))
        overlays = {volume.overlay for volume in record.volumes}
        self.assertTrue(overlays <= set(self.images(self.root.home).values()))
        self.ask('drop', superposition=superposition)
        self.assertRaises(exception.SuperpositionNotFound, self.ask, 'show',
                          superposition=superposition)
        self.assert_nothing_left(record)

    def test_superposition_of_a_deleted_server_ends(self) -> None:
        for end in ('promoted', 'unproven'):
            volume, other = self.make_volume(), self.make_disk(f'disk.eph{len(end)}')
            superposition = self.super(str(other), volume.image)
            record = self.protocol.show(superposition, other.home)
            if end == 'unproven':
                self.remove_image(other)
            report = self.ask('collapse', superposition=superposition, durable=False)
            self.assertEqual(end, report['outcome'])
            if end == 'promoted':
                # As a merge that is cut off after it has opened the latch.
                self.protocol.latch.open(record.volumes[0], superposition)
                self.remove_image(other)
                self.ask('merge', superposition=superposition)
            with contextlib.suppress(exception.SuperpositionNotFound):
                self.fail(self.ask('show', superposition=superposition))
            self.assert_nothing_left(record)

    def test_host_is_fenced_from_all_disks_of_a_server(self) -> None:
        swap, fence_id = self.make_disk('disk.swap'), str(uuid.uuid4())
        primary = self.make_primary(self.root, swap)
        images = self.ask('images', prefix=str(self.root))
        self.assertEqual([str(self.root), str(swap)], images)
        self.assertEqual([[], []], self.ask('noted', images=images, fence_id=fence_id))
        self.ask('note', images=images, fence_id=fence_id)
        noted = self.ask('noted', images=images, fence_id=fence_id)
        self.assertEqual({*primary.clients}, {client for some in noted for client in some})
        hosts = sorted({client.rpartition(':')[0] for client in primary.clients})
        self.assertEqual([1, 1], self.ask('shut_out', fence_id=fence_id, targets=[
            {'image': image, 'addresses': hosts, 'clients': 0} for image in images]))
        for disk in (0, 1):
            self.assertNotEqual(0, primary.write(OBJECT, disk=disk))

    def test_disk_that_is_only_read_is_never_dirty_and_a_missing_one_is_named(self) -> None:
        drive, missing = self.make_disk('disk.config'), str(self.disk('disk.swap'))
        error = self.assertRaises(exception.SuperpositionConflict, self.super,
                                  str(self.root), missing)
        self.assertIn(missing, error.msg)
        self.assertIsNone(self.ask('find', image=str(self.root)))
        superposition = self.super(str(self.root), str(drive))
        with self.open_pool(self.vms) as vms, \
                rbd.Image(vms, drive.image, read_only=True) as image:
            image.read(0, OBJECT)
            self.assertFalse(self.ask('check', superposition=superposition)['dirty'])
