# SPDX-License-Identifier: Apache-2.0
"""The place of rounds: a cluster, and a scratch directory."""

from collections.abc import Callable, Sequence
from concurrent import futures
import contextlib
import dataclasses
import json
import os
import pathlib
import time
from typing import Any

import nbd
import numpy
import rados
import rbd

from cloud import ceph
from cloud import commands
from cloud import deadline
from specreds_cinder import superposition
from testing.race import blocks
from testing.race import hosts

_CHUNK = 4 << 20
_TIMEOUT = 30
# The administrator looks at images while OSDs die, and is not under test.
_PATIENCE = 240
_EVICTED_S = 120
_BUSY_S, _POLL_S = 40.0, 0.2
_PARENT = 'race-parent'
_HOSTS = 3
_PARENT_SIZE = 32 << 20

ProtocolFactory = Callable[[superposition.Cluster], superposition.Protocol]


@dataclasses.dataclass(frozen=True)
class Place:
    """What an image is made of.

    :param data_pool: pool of its data, if another one
    :param clone: it is a clone, so that a first write copies an object of its parent
    """

    pool: str
    namespace: str = ''
    data_pool: str | None = None
    clone: bool = False


class Site:
    """Connections to the cluster of the rounds.

    :param conf: ceph.conf of client.cinder, the user of everything under test
    :param admin_conf: ceph.conf of client.admin, for looking at images and cleaning up
    :param directory: for the rounds' files; with a short path, because of its sockets
    :param places: what the volumes of a round are made of, by turns
    :param make: makes the protocol under test
    :param kept: for the files of rounds that are lost; None to remove them
    :param network: for hosts of its own; None to race on this machine alone
    :ivar turn: place of a round's first volume
    :ivar hosts: hosts of a round's primary, of its backup, and of the primary that is started
        again; each may be None
    """

    def __init__(self, conf: pathlib.Path, admin_conf: pathlib.Path, directory: pathlib.Path,
                 places: Sequence[Place] = (Place(ceph.VOLUMES),),
                 make: ProtocolFactory = superposition.Protocol,
                 kept: pathlib.Path | None = None,
                 network: hosts.Network | None = None) -> None:
        self.conf = conf
        self.directory = directory
        self.kept = kept
        self.cluster = superposition.Cluster(str(conf), 'cinder', deadline.extended(_TIMEOUT))
        self.protocol = make(self.cluster)
        self._admin = rados.Rados(name='client.admin', conffile=str(admin_conf), conf={
            'rados_osd_op_timeout': str(_PATIENCE), 'rados_mon_op_timeout': str(_PATIENCE)})
        self._admin.connect()
        self.turn = 0
        self.hosts: list[hosts.Host | None] = [
            network.claim(directory) if network is not None else None for _ in range(_HOSTS)]
        self._places = tuple(places)
        self._ios: dict[tuple[str, str], rados.Ioctx] = {}
        for place in places:
            io = self._admin.open_ioctx(place.pool)
            if place.namespace:
                with contextlib.suppress(rbd.ImageExists):
                    rbd.RBD().namespace_create(io, place.namespace)
            io.set_namespace(place.namespace)
            self._ios[place.pool, place.namespace] = io
            if place.clone:
                _make_parent(io)

    def __enter__(self) -> 'Site':
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        for io in self._ios.values():
            io.close()
        self._admin.shutdown()
        self.cluster.close()
        for host in self.hosts:
            if host is not None:
                host.close()

    def create(self, name: str, index: int, size: int, order: int) -> superposition.VolumeRef:
        """Create an image.

        :param index: its place among the images of a round
        :param size: bytes
        :param order: its objects have two to the power of this many bytes
        """
        place = self._places[(self.turn + index) % len(self._places)]
        io = self._ios[place.pool, place.namespace]
        if place.clone:
            # Without the stripe unit, librbd takes the parent's, and refuses the order.
            rbd.RBD().clone(io, _PARENT, _PARENT, io, name, order=order, stripe_unit=1 << order,
                            stripe_count=1, data_pool=place.data_pool)
            with rbd.Image(io, name) as disk:
                disk.resize(size)
        else:
            rbd.RBD().create(io, name, size, order=order, old_format=False,
                             data_pool=place.data_pool)
        return superposition.VolumeRef(place.pool, place.namespace, name)

    def read(self, ref: superposition.VolumeRef, image: int) -> blocks.Values:
        """Return the contents of an image, without disturbing its clients."""
        with rbd.Image(self._ios[ref.pool, ref.namespace], ref.image, read_only=True) as disk:
            size = disk.size()
            return decoded(disk.read, size, image)

    def evict(self, refs: Sequence[superposition.VolumeRef]) -> None:
        """Blocklist all clients of images, as an administrator does after the death of a host.

        Ceph itself takes 30 s to notice that a killed client is gone.
        """
        users = sorted({address for ref in refs for address in self._watchers(ref)})
        if not users:
            return
        # The monitor commits about once a second, so all entries are added at once.
        with futures.ThreadPoolExecutor(len(users)) as executor:
            list(executor.map(self._blocklist, users))
        self._admin.wait_for_latest_osdmap()

    def command(self, prefix: str, **words: object) -> Any:
        """Send a command to a monitor as the administrator.

        :returns: its answer; None if it has none
        :raises CloudError: it failed
        """
        code, out, status = self._admin.mon_command(
            json.dumps({'prefix': prefix, 'format': 'json', **words}), b'')
        if code:
            raise commands.CloudError(f'{prefix}: {status or os.strerror(-code)}')
        return json.loads(out) if out.strip() else None

    def remove(self, refs: Sequence[superposition.VolumeRef]) -> None:
        """Remove images after blocklisting their clients."""
        self.evict(refs)
        for ref in refs:
            self._remove(ref)

    def _remove(self, ref: superposition.VolumeRef) -> None:
        limit = deadline.Deadline(_BUSY_S)
        while not limit.passed:
            try:
                rbd.RBD().remove(self._ios[ref.pool, ref.namespace], ref.image)
            except rbd.ImageNotFound:
                return
            except rbd.ImageBusy:
                time.sleep(_POLL_S)
            else:
                return
        # An OSD may list a client that is gone for ever: such an image stays.

    def _watchers(self, ref: superposition.VolumeRef) -> set[str]:
        try:
            with rbd.Image(self._ios[ref.pool, ref.namespace], ref.image, read_only=True) as disk:
                return {watcher['addr'] for watcher in disk.watchers_list()}
        except rbd.ImageNotFound:
            return set()

    def _blocklist(self, address: str) -> None:
        self.command('osd blocklist', blocklistop='add', addr=address, expire=float(_EVICTED_S))


def _make_parent(io: rados.Ioctx) -> None:
    """Make the parent of clones, with zeroes in all its objects."""
    with contextlib.suppress(rbd.ImageExists):
        rbd.RBD().create(io, _PARENT, _PARENT_SIZE, old_format=False)
        with rbd.Image(io, _PARENT) as disk:
            for offset in range(0, _PARENT_SIZE, _CHUNK):
                disk.write(bytes(_CHUNK), offset)
            disk.create_snap(_PARENT)
            disk.protect_snap(_PARENT)


def read_export(socket: str, export: str, image: int) -> blocks.Values:
    """Return the contents of an NBD export on a unix socket."""
    disk = nbd.NBD()
    disk.set_request_structured_replies(False)
    disk.set_export_name(export)
    disk.connect_unix(socket)
    try:
        return decoded(lambda offset, length: disk.pread(length, offset), disk.get_size(), image)
    finally:
        disk.shutdown()


def decoded(read: Callable[[int, int], bytes], size: int, image: int) -> blocks.Values:
    """Read a disk piece by piece, and return the values of its blocks."""
    return numpy.concatenate([
        blocks.decode(bytes(read(offset, min(_CHUNK, size - offset))), image,
                      offset // blocks.SIZE)
        for offset in range(0, size, _CHUNK)])
