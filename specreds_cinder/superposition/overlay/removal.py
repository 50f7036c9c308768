# SPDX-License-Identifier: Apache-2.0
"""The removal of an overlay, which may be interrupted anywhere, and is then repeated.

librbd is not used, because it refuses some removals for ever:

- an image that has a watcher. If a client dies while an OSD stores its watch, the watch
  stays until the placement group peers again, although it has timed out and the client is on the
  blocklist.
- an image whose move to the trash, or restoration from there, was interrupted
  (``librbd::api::Trash``).

An overlay has no snapshot, object map, journal, mirror, group or child: only its data, its header
and its names have to be removed. The removal does not watch the overlay. The header is removed
before the data: a controller that still creates the overlay writes the data first, so it either
finds no header and removes its data itself, or all of its data is there to be removed. The entry
in the directory of images, by which an interrupted removal finds the overlay again, is removed
last.
"""

from collections.abc import Callable, Collection
import contextlib
import dataclasses
import logging
import struct

import rados

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import omap
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.ceph import writes
from specreds_cinder.superposition.exclusion import fence
from specreds_cinder.superposition.overlay import overlay
from specreds_cinder.superposition.overlay import removed as removals
from specreds_cinder.superposition.truth import record as records

LOG = logging.getLogger(__name__)

# Objects of librbd, and keys of the trash.
_DIRECTORY = 'rbd_directory'
_TRASH = 'rbd_trash'
_TRASHED = 'id_'
# The name of an entry of the trash follows an envelope and the source (TrashImageSpec).
_NAME_OFFSET = 7
_LENGTH = struct.Struct('<I')


def remove(cluster: ceph.Cluster, volume: records.Volume, fencing: fence.Fence,
           progress: trace.Progress | None = None, *, evict: bool) -> None:
    """Remove a volume's overlay; one that does not exist is no error.

    :param progress: called with the number of objects examined so far, and of all that may exist
    :param evict: fence the clients that have the overlay open, and the owner of its lock
    :raises OverlayBusy: a client that is not fenced has it open, and ``evict`` is false
    """
    def entry(image_id: str) -> removals.Overlay:
        objects = overlay.Objects.of_removed(cluster, volume, image_id)
        return removals.Overlay(
            name=volume.overlay, id=image_id, image_id=volume.image_id,
            data_pool_id=volume.data_pool_id, prefix=objects.prefix.decode(),
            objects=objects.count, removed_at=records.now())
    _remove(cluster, volume.overlay_ref, fencing, entry, progress, evict=evict)


def remove_orphan(cluster: ceph.Cluster, ref: records.VolumeRef, fencing: fence.Fence) -> bool:
    """Remove an overlay of no superposition.

    :returns: False if the image only has the name of an overlay, and was left alone
    :raises OverlayBusy: a client that is not fenced has it open
    """
    with cluster.ioctx(ref.pool, ref.namespace) as io, ceph.answering(f'look for overlay {ref}'):
        image_id, pool_id = _image_id(io, ref.image), io.get_pool_id()
    entry = removals.Overlay(ref.image, image_id or '', '', pool_id, '', 0, records.now())
    # One whose creation or removal was interrupted may have no header, and has no data then.
    with contextlib.suppress(errors.VolumeGone), \
            volumes.opened(cluster, ref, image_id=image_id) as image:
        if not overlay.is_striped(image):
            return False
        data_pool_id = image.data_pool_id()
        entry = dataclasses.replace(
            entry, data_pool_id=data_pool_id if data_pool_id >= 0 else pool_id,
            prefix=image.block_name_prefix(), objects=image.stat()['num_objs'])
    if image_id is not None:
        _shut_out(ref, _users(cluster, ref, image_id, evict=False), fencing, evict=False)
        _remove(cluster, ref, fencing, lambda _image_id: entry, evict=True)
    return True


def _remove(cluster: ceph.Cluster, ref: records.VolumeRef, fencing: fence.Fence,
            describe: Callable[[str], removals.Overlay], progress: trace.Progress | None = None, *,
            evict: bool) -> None:
    """Remove an overlay.

    :param describe: returns its entry in the list of removed overlays, by the id of its image
    """
    with cluster.ioctx(ref.pool, ref.namespace) as io, ceph.answering(f'remove overlay {ref}'):
        image_id = _image_id(io, ref.image)
        if image_id is None:
            return
        users = _users(cluster, ref, image_id, evict=evict)
        _shut_out(ref, users, fencing, evict=evict)
        with trace.change('overlay.hide', str(ref)), contextlib.suppress(rados.ObjectNotFound):
            # Without its name, no further client opens it.
            writes.remove(io, f'rbd_id.{ref.image}')
        _shut_out(ref, _users(cluster, ref, image_id, evict=evict) - users, fencing, evict=evict)
        entry = describe(image_id)
        removals.Removed(cluster).enter(ref.home, entry)
        _erase(cluster, io, ref.home, entry, progress)


def again(cluster: ceph.Cluster, home: records.Home, older_s: float = 0,
          names: Collection[str] | None = None) -> list[removals.Overlay]:
    """Remove the objects of removed overlays that were written since.

    :param older_s: seconds since the removal up to which overlays stay in the list
    :param names: only overlays with these names; by default all
    :returns: the overlays that have left the list
    """
    removed = removals.Removed(cluster)
    due = [entry for entry in removed.read(home) if entry.age_seconds >= older_s
           and (names is None or entry.name in names)]
    pools = cluster.pools() if due else {}
    gone = []
    with cluster.ioctx(home.pool, home.namespace) as io, \
            ceph.answering(f'remove the remains of overlays in {home}'):
        for entry in due:
            try:
                # Nothing is left to do for data whose pool was removed.
                if entry.data_pool_id in pools:
                    _erase(cluster, io, home, entry)
                removed.leave(home, entry)
                gone.append(entry)
            except errors.ClusterError as exc:
                LOG.warning('cannot look for the remains of overlay %s, trying again: %s',
                            entry.name, exc)
    return gone


def _erase(cluster: ceph.Cluster, io: 'rados.Ioctx', home: records.Home, entry: removals.Overlay,
           progress: trace.Progress | None = None) -> None:
    """Remove header, data and names of an overlay, which nobody can open."""
    with trace.change('overlay.empty', entry.name):
        with contextlib.suppress(rados.ObjectNotFound):
            writes.remove(io, f'rbd_header.{entry.id}')
        _empty(cluster, home, entry, progress)
    with trace.change('overlay.remove', entry.name):
        with contextlib.suppress(rados.ObjectNotFound):
            writes.execute(io, _TRASH, 'trash_remove', _encoded(entry.id))
        with contextlib.suppress(rados.ObjectNotFound):
            writes.execute(io, _DIRECTORY, 'dir_remove_image',
                           _encoded(entry.name) + _encoded(entry.id))


def _image_id(io: 'rados.Ioctx', name: str) -> str | None:
    """Return the id of an overlay by any of the three places of its name; None without one."""
    with contextlib.suppress(rados.ObjectNotFound):
        return _decoded(io.read(f'rbd_id.{name}'))
    with contextlib.suppress(rados.ObjectNotFound):
        return _decoded(io.execute(_DIRECTORY, 'rbd', 'dir_get_id', _encoded(name))[1])
    return next((key.removeprefix(_TRASHED)
                 for page in omap.pages(io, _TRASH, _TRASHED) for key, value in page.items()
                 if _decoded(value, _NAME_OFFSET) == name), None)


def _users(cluster: ceph.Cluster, ref: records.VolumeRef, image_id: str, *,
           evict: bool) -> frozenset[str]:
    """Return the clients that have an overlay open.

    :param evict: also the owner of the overlay's lock: the watch of one that hangs has expired.
        One that was killed is an owner, too, and is in nobody's way.
    """
    # An image whose creation or removal was interrupted may have no header.
    with contextlib.suppress(errors.VolumeGone):
        return (volumes.clients if evict else volumes.watchers)(cluster, ref, image_id)
    return frozenset()


def _shut_out(ref: records.VolumeRef, users: frozenset[str], fencing: fence.Fence, *,
              evict: bool) -> None:
    """Make sure that clients that have an overlay open are fenced.

    :raises OverlayBusy: one is not fenced, and ``evict`` is false
    """
    if evict and users:
        fencing.evict(users)
    elif users := fencing.outside(users):
        raise errors.OverlayBusy(f'overlay {ref} is open', users, 'stop the backup first')


def _empty(cluster: ceph.Cluster, home: records.Home, entry: removals.Overlay,
           progress: trace.Progress | None) -> None:
    """Remove the data of an overlay.

    Each removal costs the OSDs a log entry even if the object does not exist: 18 s for 2 TiB.
    Removing only the existing objects takes a tenth of that.
    """
    data = cluster.aio.ioctx(entry.data_pool_id, home.namespace)
    objects = overlay.Objects(f'rbd_header.{entry.id}', entry.prefix.encode(), entry.objects)
    done = 0
    for names in objects.batches():
        versions = data.stat_versions(names, overlay.DEPTH)
        data.remove([name for name, version in zip(names, versions, strict=True) if version],
                    overlay.DEPTH)
        done += len(names)
        if progress is not None:
            progress(done, objects.count)


def _encoded(text: str) -> bytes:
    """Return a string as Ceph encodes it."""
    data = text.encode()
    return _LENGTH.pack(len(data)) + data


def _decoded(data: bytes, offset: int = 0) -> str:
    """Return a string that Ceph has encoded."""
    [length] = _LENGTH.unpack_from(data, offset)
    start = offset + _LENGTH.size
    return data[start:start + length].decode()
