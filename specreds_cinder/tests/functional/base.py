# SPDX-License-Identifier: Apache-2.0
"""Base of all tests on a real cluster."""

from collections.abc import Iterable, Mapping
import contextlib
import fcntl
import functools
import os
import pathlib
import threading
from typing import Any
import uuid

import fixtures
import rados
import rbd
import tenacity
import testtools

from cloud import ceph
from specreds_cinder.superposition.ceph import cluster
from specreds_cinder.superposition.truth import record

MIB = 2**20

_ENVIRONMENT = 'SPECREDS_TEST_DATA'
# Seconds that a call to Ceph may take, also on a busy machine.
TIMEOUT = 30
# librbd keeps every write in memory until it is acknowledged.
_IN_FLIGHT = 128
# A client that was killed is a watcher of its image for 30 s more.
_BUSY_SECONDS = 60


@functools.cache
def _own_cluster() -> str | None:
    """Return the data directory of a cluster that no other process of tests has.

    The process keeps it until its end: some tests kill daemons, or count what a cluster has. If
    all clusters are taken, this waits for the last one.
    """
    paths = list(filter(None, os.environ.get(_ENVIRONMENT, '').split(os.pathsep)))
    for path in paths:
        lock = os.open(pathlib.Path(path, 'tests.lock'), os.O_RDWR | os.O_CREAT, 0o644)
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | (0 if path == paths[-1] else fcntl.LOCK_NB))
            return path
        os.close(lock)
    return None


class FunctionalTestCase(testtools.TestCase):
    """A test on a cluster that `./run test` starts.

    `self.ceph` is that cluster, which no other test uses meanwhile, `self.cluster` the library's
    connection to it as client.cinder, `self.administrator` a plain connection as client.admin.
    What a test makes with the methods below is removed when it ends.
    """

    pool = ceph.VOLUMES

    def setUp(self) -> None:
        super().setUp()
        data = _own_cluster()
        if not data:
            self.skipTest(f'{_ENVIRONMENT} names no data directories of running clusters; '
                          './run test does that')
        self.ceph = ceph.Ceph(data)
        # No test fences it, so that it can clean up; connected first to be disconnected last.
        self.administrator = self.connect(self.ceph.admin_conf, 'client.admin')

    @functools.cached_property
    def cluster(self) -> cluster.Cluster:
        """Return the library's connection as client.cinder, made at its first use."""
        connection = cluster.Cluster(conffile=str(self.ceph.conf), user='cinder',
                                     timeout=TIMEOUT)
        self.addCleanup(connection.close)
        return connection

    @functools.cached_property
    def cinder(self) -> 'rados.Rados':
        """Return a client of its own as client.cinder, made at its first use."""
        return self.connect(self.ceph.conf, 'client.cinder')

    def connect(self, conf: pathlib.Path, name: str, **options: str) -> 'rados.Rados':
        """Connect to the cluster until the test ends.

        :param name: cephx user with its type, such as `client.cinder`
        :param options: further settings of the client
        """
        timeouts = {'rados_mon_op_timeout': str(TIMEOUT), 'rados_osd_op_timeout': str(TIMEOUT),
                    'client_mount_timeout': str(TIMEOUT)}
        client = rados.Rados(name=name, conffile=str(conf), conf=timeouts | options)
        client.connect()
        self.addCleanup(client.shutdown)
        return client

    def make_user(self, grants: Mapping[str, str], **options: str) -> 'rados.Rados':
        """Connect as a user made for this test.

        :param grants: its capabilities by daemon
        :param options: further settings of the client
        """
        name = f'client.test-{uuid.uuid4().hex[:8]}'
        keyring = pathlib.Path(self.useFixture(fixtures.TempDir()).path) / 'keyring'
        self.ceph.admin(['auth', 'get-or-create', name, '-o', str(keyring),
                         *(word for grant in grants.items() for word in grant)])
        self.addCleanup(self.ceph.admin, ['auth', 'rm', name])
        return self.connect(self.ceph.conf, name, keyring=str(keyring), **options)

    def make_pool(self, name: str, **options: Any) -> str:
        """Create a pool that is removed when the test ends.

        :param name: beginning of its name
        :param options: as for :meth:`cloud.ceph.Ceph.create_pool`
        :returns: its name
        """
        full = f'{name}-{uuid.uuid4().hex[:8]}'
        self.ceph.create_pool(full, **options)
        self.addCleanup(self.ceph.delete_pool, full)
        return full

    def make_image(self, name: str, size: int, objects: int | Iterable[int] = 0,
                   pool: str | None = None, namespace: str = '',
                   **features: Any) -> record.VolumeRef:
        """Create an image that is removed when the test ends.

        :param name: beginning of its name
        :param size: bytes
        :param objects: the objects to write to (4 KiB each), or the number of the first ones
        :param pool: None for `volumes`
        :param features: as for :meth:`rbd.RBD.create` (`features`, `data_pool`, `order`, …)
        """
        volume = record.VolumeRef(pool=pool or self.pool, namespace=namespace,
                                  image=f'{name}-{uuid.uuid4().hex[:8]}')
        with self.open_pool(volume.pool, namespace) as io:
            rbd.RBD().create(io, volume.image, size, old_format=False, **features)
            self.addCleanup(self.remove_image, volume)
            with rbd.Image(io, volume.image) as image:
                fill(image, range(objects) if isinstance(objects, int) else objects)
        return volume

    def open_pool(self, pool: str | None = None, namespace: str = '') -> 'rados.Ioctx':
        """Return a pool's namespace of `self.cinder`; close it, or use it in a `with`."""
        io = self.cinder.open_ioctx(pool or self.pool)
        io.set_namespace(namespace)
        return io

    def remove_image(self, volume: record.VolumeRef) -> None:
        """Remove an image with its snapshots if it is still there."""
        try:
            self._remove_image(volume)
        except rbd.ImageBusy:
            # A client that was killed while an OSD stored its watch is a watcher until the
            # placement group peers again. One that lives watches again then.
            with self.administrator.open_ioctx(volume.pool) as io:
                io.set_namespace(volume.namespace)
                with rbd.Image(io, volume.image, read_only=True) as image:
                    header = f'rbd_header.{image.id()}'
            group = self.ceph.admin_json(['osd', 'map', volume.pool, header, volume.namespace])
            self.ceph.admin(['pg', 'repeer', group['pgid']])
            self._remove_image(volume)

    @tenacity.retry(retry=tenacity.retry_if_exception_type(rbd.ImageBusy), reraise=True,
                    stop=tenacity.stop_after_delay(_BUSY_SECONDS), wait=tenacity.wait_fixed(1))
    def _remove_image(self, volume: record.VolumeRef) -> None:
        with self.administrator.open_ioctx(volume.pool) as io:
            io.set_namespace(volume.namespace)
            try:
                with rbd.Image(io, volume.image) as image:
                    for snapshot in list(image.list_snaps()):
                        if image.is_protected_snap(snapshot['name']):
                            image.unprotect_snap(snapshot['name'])
                        image.remove_snap(snapshot['name'])
                rbd.RBD().remove(io, volume.image)
            except rbd.ImageNotFound:
                return


def fill(image: 'rbd.Image', objects: Iterable[int], data: bytes = b'\xa5' * 4096) -> None:
    """Write to the beginning of objects, many at a time, and flush.

    :param objects: their numbers
    :param data: bytes to write
    :raises rbd.Error: a write failed
    """
    size = image.stat()['obj_size']
    free = threading.BoundedSemaphore(_IN_FLIGHT)
    results: list[int] = []

    def written(completion: 'rbd.Completion') -> None:
        results.append(completion.get_return_value())
        free.release()

    for number in objects:
        free.acquire()
        image.aio_write(data, number * size, written)
    for _ in range(_IN_FLIGHT):
        free.acquire()
    failed = [result for result in results if result < 0]
    if failed:
        raise rbd.OSError(f'{len(failed)} of {len(results)} writes failed', errno=-failed[0])
    image.flush()
