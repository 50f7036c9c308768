# SPDX-License-Identifier: Apache-2.0
"""The rebuild of an object map that is flagged as invalid, by the owner of its image's lock.

A client that hangs for half a minute may lose its lock, and not know. If it wakes and writes, its
update of the object map fails, and librbd flags the map as invalid. Nothing but a rebuild removes
the flag. librbd's own call takes the lock if it can, and breaks that of an owner that hangs. This
sends what librbd sends to an owner instead (``NotifyMessage`` of Ceph's
``src/librbd/WatchNotifyTypes.h``): an owner that lives rebuilds the map while its guest writes on.

A client that has lost its lock takes itself for the owner as long as nobody asks for the lock
(seen on Ceph 16), and cannot rebuild the map. If the lock has no owner, the lock is therefore
asked for: such a client lets go, and takes the lock with its next write. Without a client, nothing
happens.
"""

from collections.abc import Callable
import secrets
import struct
import time

import rados
import rbd

from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import volume as volumes

# Version, compatible version and length of an encoded structure.
_ENVELOPE = struct.Struct('<BBI')
_RESULT = struct.Struct('<BBIi')
# An operation with the id of a client, that of its watch, and a number of the request or a flag:
# no other client has these.
_LET_GO, _REBUILD = struct.Struct('<IQQB'), struct.Struct('<IQQQ')
# NOTIFY_OP_REQUEST_LOCK, NOTIFY_OP_REBUILD_OBJECT_MAP.
_REQUEST_LOCK, _REBUILD_MAP = 2, 10
_VERSION = 6
# CEPH_NOSNAP: the image itself.
_HEAD = struct.pack('<Q', 2**64 - 2)
# An owner that lives answers within milliseconds; one that hangs never does.
_PATIENCE_S = 2.0
_PAUSE_S = 0.1


def inspect(cluster: ceph.Cluster, ref: records.VolumeRef) -> volumes.Facts:
    """Return the properties of an image, after an invalid object map was rebuilt if it can be.

    Raises as :func:`volumes.inspect` does.

    :raises Rebuilding: the rebuild is under way
    """
    facts = volumes.inspect(cluster, ref)
    if not (facts.invalid_map and facts.features & rbd.RBD_FEATURE_OBJECT_MAP and facts.clients):
        return facts
    if not facts.owners and _let_go(cluster, facts.pool_id, ref, facts.image_id):
        facts = _until(cluster, ref, lambda facts: bool(facts.owners), _PATIENCE_S)
    if not facts.owners or not _rebuild(cluster, facts.pool_id, ref, facts.image_id):
        return facts
    facts = _until(cluster, ref, lambda facts: not facts.invalid_map, cluster.timeout)
    if facts.invalid_map:
        raise errors.Rebuilding(f'the object map of {ref} is flagged invalid, and its client '
                                f'rebuilds it: try again')
    return facts


def begin(cluster: ceph.Cluster, volume: records.Volume) -> bool:
    """Have an invalid object map rebuilt, and return whether its client does so.

    :raises ClusterError: Ceph did not answer
    """
    with cluster.ioctx(volume.pool, volume.namespace) as io, \
            ceph.answering(f'read the flags of {volume.ref}'):
        try:
            _code, raw = io.execute(f'rbd_header.{volume.image_id}', 'rbd', 'get_flags', _HEAD)
        except rados.ObjectNotFound:
            return False
    if not int.from_bytes(raw[:8], 'little') & rbd.RBD_FLAG_OBJECT_MAP_INVALID:
        return False
    try:
        watchers, owners = volumes.watchers_and_owners(cluster, volume.ref, volume.image_id)
    except errors.VolumeGone:
        return False
    if owners:
        return _rebuild(cluster, volume.pool_id, volume.ref, volume.image_id)
    if watchers:
        _let_go(cluster, volume.pool_id, volume.ref, volume.image_id)
    return False


def _let_go(cluster: ceph.Cluster, pool_id: int, ref: records.VolumeRef, image_id: str) -> bool:
    """Return whether a client has taken itself for the owner of a lock, which it lets go."""
    return _accepted(cluster, pool_id, ref, image_id, _LET_GO.pack(
        _REQUEST_LOCK, secrets.randbits(63), secrets.randbits(63), 0))


def _rebuild(cluster: ceph.Cluster, pool_id: int, ref: records.VolumeRef, image_id: str) -> bool:
    """Return whether the owner of an image's lock rebuilds its object map."""
    return _accepted(cluster, pool_id, ref, image_id, _REBUILD.pack(
        _REBUILD_MAP, *(secrets.randbits(63) for _ in range(3))))


def _accepted(cluster: ceph.Cluster, pool_id: int, ref: records.VolumeRef, image_id: str,
              request: bytes) -> bool:
    """Send a request to the clients of an image; return whether one of them carries it out."""
    answers = cluster.aio.ioctx(pool_id, ref.namespace).notify(
        f'rbd_header.{image_id}'.encode(), _ENVELOPE.pack(_VERSION, 1, len(request)) + request,
        _PATIENCE_S)
    # Only the owner answers with a result.
    return any(len(answer) >= _RESULT.size and _RESULT.unpack_from(answer)[3] == 0
               for answer in answers)


def _until(cluster: ceph.Cluster, ref: records.VolumeRef, done: Callable[[volumes.Facts], bool],
           seconds: float) -> volumes.Facts:
    """Return the properties of an image, once they are as wanted or the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        facts = volumes.inspect(cluster, ref)
        if done(facts) or time.monotonic() > deadline:
            return facts
        time.sleep(_PAUSE_S)
