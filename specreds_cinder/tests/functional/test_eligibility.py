# SPDX-License-Identifier: Apache-2.0
"""Volumes that cannot be superposed are refused with every reason, and leave nothing behind."""

import dataclasses
import struct
import subprocess
import threading
import uuid

import ddt
import rbd

from cloud import commands
from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.evidence import objectmap
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import protocol_base
from testing import luks

# RBD's default features.
_DEFAULTS = (rbd.RBD_FEATURE_LAYERING | rbd.RBD_FEATURE_EXCLUSIVE_LOCK
             | rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_FAST_DIFF
             | rbd.RBD_FEATURE_DEEP_FLATTEN)
_MAPS = rbd.RBD_FEATURE_OBJECT_MAP | rbd.RBD_FEATURE_FAST_DIFF
# Missing from python-rbd; value of src/include/rbd/features.h.
_DIRTY_CACHE = 1 << 11


@ddt.ddt
class EligibilityTest(protocol_base.ProtocolTestCase):

    def assert_refused(self, ref: sp.VolumeRef, *words: str) -> None:
        """Assert that a volume is refused for exactly these reasons, alone and in a set."""
        good = self.make_volume(objects=0)
        for refs in ([ref], [good, ref], [ref, good]):
            error = self.assertRaises(sp.NotEligible, self.protocol.super, refs)
            self.assertEqual(str(ref), error.volume)
            self.assertEqual(len(words), len(error.reasons), str(error))
            for word, reason in zip(words, error.reasons, strict=True):
                self.assertIn(word, reason)
                self.assertIn(word, str(error))
        for home in (ref.home, good.home):
            self.assertEqual([], self.protocol.list(home))
            self.assertEqual([], [name for name in self.objects(home.pool, home.namespace)
                                  if name.startswith(('specreds.super', 'specreds.claim'))])
            self.assertEqual([], [name for name in self.images(home).values()
                                  if '.super-' in name])

    @ddt.data(
        (_MAPS, 'no object-map'),
        (_MAPS | rbd.RBD_FEATURE_EXCLUSIVE_LOCK, 'no exclusive-lock', 'no object-map'),
    )
    def test_missing_features_are_refused(self, case: tuple[int, str]) -> None:
        missing, *words = case
        self.assert_refused(self.make_volume(features=_DEFAULTS & ~missing), *words)

    def test_multi_attach_volume_is_refused(self) -> None:
        # As Cinder's RBD driver makes a volume of a type that allows it.
        error = self.assertRaises(sp.NotEligible, self.protocol.super,
                                  [self.make_volume(features=rbd.RBD_FEATURE_LAYERING)])
        self.assertIn('multi-attach', str(error))

    def test_journaled_image_is_refused(self) -> None:
        self.assert_refused(self.make_volume(features=_DEFAULTS | rbd.RBD_FEATURE_JOURNALING),
                            'journaled')

    def test_mirrored_image_is_refused(self) -> None:
        volume = self.make_volume()
        with self.administrator.open_ioctx(self.pool) as io:
            rbd.RBD().mirror_mode_set(io, rbd.RBD_MIRROR_MODE_IMAGE)
            self.addCleanup(self.unmirror, volume)
            with rbd.Image(io, volume.image) as image:
                image.mirror_image_enable(rbd.RBD_MIRROR_IMAGE_MODE_SNAPSHOT)
        self.assert_refused(volume, 'mirrored')

    def unmirror(self, volume: sp.VolumeRef) -> None:
        """Stop the mirroring of an image, so that it can be removed."""
        with self.administrator.open_ioctx(volume.pool) as io:
            with rbd.Image(io, volume.image) as image:
                image.mirror_image_disable(True)
            rbd.RBD().mirror_mode_set(io, rbd.RBD_MIRROR_MODE_DISABLED)

    def test_migrating_image_is_refused(self) -> None:
        volume = self.make_volume()
        target = sp.VolumeRef(self.pool, '', f'{volume.image}-new')
        with self.open_pool() as io:
            rbd.RBD().migration_prepare(io, volume.image, io, target.image)
            self.addCleanup(self.abort_migration, volume)
            self.assert_refused(target, 'being migrated')

    def abort_migration(self, volume: sp.VolumeRef) -> None:
        """Abort a migration."""
        with self.open_pool() as io:
            rbd.RBD().migration_abort(io, volume.image)

    def test_invalid_object_map_is_refused(self) -> None:
        volume = self.make_volume(objects=4)
        with self.open_pool() as io, rbd.Image(io, volume.image) as image:
            # Too short for the image: librbd notices when it takes the lock.
            io.write_full(objectmap.name(image.id()), b'')
            image.write(b'x', 0)
            self.assertTrue(image.flags() & rbd.RBD_FLAG_OBJECT_MAP_INVALID)
        self.assert_refused(volume, 'flagged invalid')

    def test_persistent_cache_is_refused(self) -> None:
        volume = self.make_volume()
        with self.open_pool() as io, rbd.Image(io, volume.image) as image:
            header = f'rbd_header.{image.id()}'
            io.execute(header, 'rbd', 'set_features', struct.pack('<QQ', _DIRTY_CACHE,
                                                                  _DIRTY_CACHE))
            self.addCleanup(self.administrate, header, 'set_features',
                            struct.pack('<QQ', 0, _DIRTY_CACHE))
        self.assert_refused(volume, 'persistent write-back cache')

    def administrate(self, oid: str, method: str, data: bytes) -> None:
        """Call a method of an RBD object."""
        with self.administrator.open_ioctx(self.pool) as io:
            io.execute(oid, 'rbd', method, data)

    def test_image_with_an_unexpected_luks_header_is_refused(self) -> None:
        volume = self.make_volume()
        with self.open_pool() as io, rbd.Image(io, volume.image) as image:
            image.write(luks.header('passphrase'), 0)
        self.assert_refused(volume, 'not known to be encrypted')

    def test_size_that_is_no_multiple_of_512_is_refused(self) -> None:
        self.assert_refused(self.make_volume(size=protocol_base.SIZE + 100), 'multiple of 512')

    def test_cache_tier_is_refused(self) -> None:
        tier = self.make_pool('tier', pg_num=8)
        volume, data = self.make_volume(), self.make_volume(data_pool=tier)
        self.ceph.admin(['osd', 'tier', 'add', self.pool, tier, '--force-nonempty'])
        self.addCleanup(self.ceph.admin, ['osd', 'tier', 'remove', self.pool, tier])
        for ref, words in ((volume, [self.pool]), (data, sorted([self.pool, tier]))):
            error = self.assertRaises(sp.NotEligible, self.protocol.super, [ref])
            self.assertEqual({f'pool {word} has a cache tier' for word in words},
                             set(error.reasons))

    def test_option_that_an_image_sets_for_all_clients_is_refused(self) -> None:
        volume = self.make_volume()
        with self.open_pool() as io, rbd.Image(io, volume.image) as image:
            image.config_set('rbd_clone_copy_on_read', 'false')
        self.assertEqual([], volumes.inspect(self.cluster, volume).reasons(self.cluster.pools()))
        for option, value in (('rbd_blocklist_on_break_lock', 'false'),
                              ('rbd_blocklist_on_break_lock', 'true'),
                              ('rbd_clone_copy_on_read', 'true')):
            with self.open_pool() as io, rbd.Image(io, volume.image) as image:
                image.config_set(option, value)
            self.assert_refused(volume, f'rbd config image rm {volume} {option}')
            with self.open_pool() as io, rbd.Image(io, volume.image) as image:
                image.config_remove(option)

    def test_option_that_a_pool_sets_for_all_clients_is_refused(self) -> None:
        pool = self.make_pool('options', pg_num=8)
        volume = self.make_volume(pool=pool)
        with self.open_pool(pool) as io:
            rbd.RBD().config_set(io, 'rbd_blocklist_on_break_lock', 'false')
        self.assert_refused(volume, f'rbd config pool rm {pool} rbd_blocklist_on_break_lock')

    def test_option_of_an_image_takes_precedence_over_that_of_a_client(self) -> None:
        parent = self.make_volume(objects=1)
        with self.open_pool() as io, rbd.Image(io, parent.image) as image:
            image.create_snap('s')
            image.protect_snap('s')
        client = self.connect(self.ceph.conf, 'client.cinder', rbd_clone_copy_on_read='false')
        for copied in (False, True):
            clone = f'clone-{uuid.uuid4().hex[:8]}'
            with client.open_ioctx(self.pool) as io:
                rbd.RBD().clone(io, parent.image, 's', io, clone)
                self.addCleanup(self.remove_clone, parent, clone)
                with rbd.Image(io, clone) as image:
                    if copied:
                        image.config_set('rbd_clone_copy_on_read', 'true')
                    prefix = image.block_name_prefix()
                with rbd.Image(io, clone) as image:
                    self.assertEqual(b'\xa5' * 4096, image.read(0, 4096))
            self.assertEqual(copied, f'{prefix}.{0:016x}' in self.objects(self.pool))

    def remove_clone(self, parent: sp.VolumeRef, clone: str) -> None:
        """Remove a clone before its parent."""
        self.remove_image(dataclasses.replace(parent, image=clone))

    def test_image_of_format_1_is_refused(self) -> None:
        name = 'old-format'
        environment = {**commands.environment(), 'RBD_FORCE_ALLOW_V1': '1'}
        subprocess.run(['rbd', '--conf', str(self.ceph.conf), '--id', 'cinder', 'create',
                        '--image-format', '1', '--size', '8M', f'{self.pool}/{name}'],
                       check=True, capture_output=True, timeout=60, env=environment)
        volume = sp.VolumeRef(self.pool, '', name)
        self.addCleanup(self.remove_image, volume)
        self.assert_refused(volume, 'format 1')

    def test_all_reasons_are_named(self) -> None:
        volume = self.make_volume(features=rbd.RBD_FEATURE_LAYERING,
                                  size=protocol_base.SIZE + 1)
        self.assert_refused(volume, 'exclusive-lock', 'object-map', 'multiple of 512')

    def test_missing_image_or_pool_is_an_error(self) -> None:
        volume = self.make_volume()
        for ref in (sp.VolumeRef(self.pool, '', 'missing'),
                    sp.VolumeRef(self.pool, 'nowhere', volume.image)):
            error = self.assertRaises(sp.VolumeGone, self.protocol.super, [volume, ref])
            self.assertIn(str(ref), str(error))
        refused = self.assertRaises(sp.ClusterError, self.protocol.super,
                                    [sp.VolumeRef('nopool', '', 'image')])
        self.assertIn('nopool', str(refused))

    def test_empty_or_repeated_set_is_invalid(self) -> None:
        volume = self.make_volume()
        self.assertRaises(sp.InvalidInput, self.protocol.super, [])
        self.assertRaises(sp.InvalidInput, self.protocol.super, [volume, volume])

    def test_superposed_volume_is_refused(self) -> None:
        volumes = [self.make_volume(objects=1) for _ in range(3)]
        record = self.superpose(volumes[1])
        for refs in ([volumes[1]], volumes):
            error = self.assertRaises(sp.AlreadySuperposed, self.protocol.super, refs)
            self.assertEqual((str(volumes[1]), record.id), (error.volume, error.superposition))
        # Refused sets leave nothing, and the existing superposition is unchanged.
        self.assertEqual([record], self.protocol.list(sp.Home(self.pool)))
        self.assertFalse(self.protocol.check(record).dirty)
        self.superpose(volumes[0], volumes[2])

    def test_image_deleted_during_the_creation_leaves_nothing(self) -> None:
        for name in ('record.create', 'claim.create', 'overlay.write'):
            volume, other = self.make_volume(), self.make_volume()
            # The volumes are claimed in parallel: the first claim removes the image.
            first = threading.Lock()

            def remove(event: sp.trace.Event, name: str = name, volume: sp.VolumeRef = volume,
                       first: threading.Lock = first) -> None:
                if (event.name, event.phase) == (name, 'after') and first.acquire(blocking=False):
                    self.remove_image(volume)

            with sp.trace.observe(remove):
                self.assertRaises(sp.VolumeGone, self.protocol.super, [volume, other])
            self.assertEqual([], self.protocol.list(volume.home))
            self.assertEqual([], list(self.protocol.store.index(volume.home)))
            self.drop(self.superpose(other))

    def test_volume_can_be_superposed_again(self) -> None:
        volume = self.make_volume()
        record = self.superpose(volume)
        self.assertEqual(states.PROMOTED, self.protocol.collapse(record).outcome)
        self.drop(record)
        self.protocol.abort(self.superpose(volume))
