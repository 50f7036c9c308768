# SPDX-License-Identifier: Apache-2.0
"""Base of the tests of the protocol: volumes, actors, and a check that nothing is left."""

from collections.abc import Callable
import contextlib
import errno
import functools
import logging
import threading
from typing import Any

import fixtures
import rados
import rbd
import tenacity

from specreds_cinder import superposition as sp
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import handover
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import states
from specreds_cinder.tests.functional import actors
from specreds_cinder.tests.functional import base

SIZE = 32 * base.MIB
# The answer to a write of a client that is fenced.
DEAD = -errno.ESHUTDOWN
_LISTED_SECONDS = 10
_SECONDS = 60


class Cut(Exception):
    """The end of a controller that cannot clean up."""


def cut() -> None:
    """End the controller here."""
    raise Cut


class ProtocolTestCase(base.FunctionalTestCase):
    """A test of the protocol. Its superpositions are ended after it.

    :ivar hands_over: primaries hand over their locks; otherwise each volume is swept
    """

    hands_over = False
    settings = sp.Settings()

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger(level=logging.INFO))
        # On a busy machine, too, a primary that lives answers in time.
        self.patch(handover, '_PATIENCE_S', _SECONDS)
        request = handover.request
        self.patch(handover, 'request', lambda *arguments, **options: (
            request(*arguments, **options) if self.hands_over else None))

    @functools.cached_property
    def protocol(self) -> sp.Protocol:
        """Return the library, in this process."""
        return sp.Protocol(self.cluster, self.settings)

    def make_volume(self, objects: int = 4, size: int = SIZE, **options: Any) -> sp.VolumeRef:
        """Create a volume; see :meth:`make_image`."""
        return self.make_image('vol', size, objects, **options)

    def make_primary(self, *refs: sp.VolumeRef, policy: str = '') -> actors.Primary:
        """Start a primary that has written, and thus owns the images' locks.

        :param policy: of librbd's cache; empty for no cache
        """
        primary = actors.Primary(self.cluster, *refs, policy=policy)
        self.addCleanup(primary.end)
        for index in range(len(refs)):
            self.assertEqual(0, primary.write(0, 0x50, disk=index))
        return primary

    def make_backup(self, record: sp.Record, **options: Any) -> actors.Backup:
        """Start a backup on the child versions."""
        backup = actors.Backup(self.cluster, record, **options)
        self.addCleanup(backup.end)
        return backup

    def superpose(self, *refs: sp.VolumeRef) -> sp.Record:
        """Put volumes into a superposition that ends with the test."""
        record = self.protocol.super(list(refs))
        self.addCleanup(self.drop, record)
        return record

    def drop(self, record: sp.Record) -> None:
        """End a superposition in whatever state it is."""
        with contextlib.suppress(sp.NotSuperposed):
            if self.protocol.reload(record).state in states.DECIDED:
                self.protocol.merge(record)
            else:
                self.protocol.abort(record)

    def child_io(self, record: sp.Record, *commands: str) -> None:
        """Run qemu-io's commands on each child version, and make it durable."""
        for volume in record.volumes:
            actors.child_io(self.cluster, volume, *commands)
        self.harden(record)

    def harden(self, record: sp.Record) -> None:
        """Note that what was written to the child versions is durable."""
        self.protocol.label(record, **{records.DURABLE: True})

    def bury(self, record: sp.Record) -> None:
        """Fence a backup that was killed: Ceph would wait half a minute for it."""
        for volume in record.volumes:
            for ref in (volume.overlay_ref, volume.ref):
                with contextlib.suppress(sp.VolumeGone):
                    self.protocol.fence.close(
                        volumes.clients(self.cluster, ref) - record.clients)

    def contents(self, ref: sp.VolumeRef, size: int = SIZE) -> bytes:
        """Return the contents of a volume's own image."""
        with self.open_pool(ref.pool, ref.namespace) as io, \
                rbd.Image(io, ref.image, read_only=True) as image:
            data: bytes = image.read(0, size)
        return data

    def make_namespace(self, namespace: str, pool: str | None = None) -> None:
        """Create an RBD namespace that is removed when the test ends."""
        with self.open_pool(pool) as io:
            rbd.RBD().namespace_create(io, namespace)
        self.addCleanup(self.remove_namespace, namespace, pool)

    def remove_namespace(self, namespace: str, pool: str | None = None) -> None:
        """Remove an empty RBD namespace."""
        with self.administrator.open_ioctx(pool or self.pool) as io:
            rbd.RBD().namespace_remove(io, namespace)

    def fenced(self) -> set[str]:
        """Return the blocklist."""
        return set(self.protocol.fence.remaining())

    @staticmethod
    def at(name: str, phase: str, work: Callable[[], object]
           ) -> Callable[[sp.trace.Event], None]:
        """Return an observer that runs a function at the first occurrence of an event."""
        once = threading.Lock()

        def observer(event: sp.trace.Event) -> None:
            if (event.name, event.phase) == (name, phase) and once.acquire(blocking=False):
                work()
        return observer

    def objects(self, pool: str, namespace: str = '') -> set[str]:
        """Return the names of all objects of a pool's namespace."""
        with self.open_pool(pool, namespace) as io:
            return {item.key for item in io.list_objects()}

    def images(self, home: sp.Home) -> dict[str, str]:
        """Return the names of the images of a pool's namespace, by id."""
        with self.open_pool(home.pool, home.namespace) as io:
            return {image['id']: image['name'] for image in rbd.RBD().list2(io)}

    def assert_nothing_left(self, record: sp.Record) -> None:
        """Assert that an ended superposition left only markers and the index."""
        for home in record.homes:
            self.assertNotIn(record.id, self.protocol.store.index(home))
        for volume in record.volumes:
            self.assert_unlatched(volume.ref.home, volume.image_id)
            self.assertNotIn(volume.overlay, self.images(volume.ref.home).values())
            ours = {f'specreds.super.{record.id}', f'specreds.claim.{volume.image_id}'}
            for pool in {volume.pool, volume.data_pool}:
                self.assert_only_images(pool, volume.ref.home, ours)

    def unlock(self, ref: sp.VolumeRef) -> None:
        """Free the lock of a volume, so that it can be removed whatever a test has found."""
        with self.open_pool(ref.pool, ref.namespace) as io, \
                contextlib.suppress(sp.VolumeGone, rados.NoData):
            with volumes.opened(self.cluster, ref) as image:
                header = f'rbd_header.{image.id()}'
            io.rm_xattr(header, 'lock.rbd_lock')

    def assert_unlatched(self, home: sp.Home, image_id: str) -> None:
        """Assert that the latch of an image is open, and cannot be closed."""
        with self.open_pool(home.pool, home.namespace) as io:
            try:
                attributes = dict(io.get_xattrs(f'rbd_header.{image_id}'))
            except rados.ObjectNotFound:
                return
        self.assertNotIn('specreds.latch', attributes)
        self.assertNotIn(b'specreds', attributes.get('lock.rbd_lock', b''))

    @tenacity.retry(retry=tenacity.retry_if_exception_type(AssertionError), reraise=True,
                    stop=tenacity.stop_after_delay(_LISTED_SECONDS), wait=tenacity.wait_fixed(0.5))
    def assert_only_images(self, pool: str, home: sp.Home, ours: set[str]) -> None:
        """Assert that a pool has no object of a missing image.

        A listing may still show objects that were removed, so each object found is looked up.
        The images are listed after the objects, so that a new image does not count as missing.
        """
        listed = self.objects(pool, home.namespace)
        images = self.images(home)
        with self.open_pool(pool, home.namespace) as io:
            self.assertEqual([], sorted(
                name for name in listed
                if (name in ours or _of_no_image(name, images)) and _exists(io, name)))


def _exists(io: 'rados.Ioctx', name: str) -> bool:
    """Return whether an object exists."""
    try:
        io.stat(name)
    except rados.ObjectNotFound:
        return False
    return True


def _of_no_image(name: str, images: dict[str, str]) -> bool:
    """Return whether an object belongs to a missing image."""
    kind, *parts = name.split('.')
    if kind == 'rbd_id':
        return '.'.join(parts) not in images.values()
    return kind in ('rbd_header', 'rbd_data', 'rbd_object_map') and not any(
        part in images for part in parts)
