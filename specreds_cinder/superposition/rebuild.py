# SPDX-License-Identifier: Apache-2.0
"""The rebuild of an object map that is flagged as invalid, by the owner of its image's lock.

Nothing but a rebuild removes the flag. librbd's own call takes the lock if it can, and breaks the
lock of an owner that hangs. This sends what librbd sends to an owner instead (``NotifyMessage`` of
Ceph's ``src/librbd/WatchNotifyTypes.h``): an owner that lives rebuilds the map while its guest
writes on.
"""

from collections.abc import Callable
import secrets
import struct
import time

import rbd

from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import volume as volumes

# Version, compatible version and length of an encoded structure.
_ENVELOPE = struct.Struct('<BBI')
_RESULT = struct.Struct('<BBIi')
# An operation with the id of a client, that of its watch, and a number of the request: no other
# client has these.
_REBUILD = struct.Struct('<IQQQ')
# NOTIFY_OP_REBUILD_OBJECT_MAP.
_REBUILD_MAP = 10
_VERSION = 6
# An owner that lives answers within milliseconds; one that hangs never does.
_PATIENCE_S = 2.0
_PAUSE_S = 0.1


def inspect(cluster: ceph.Cluster, ref: records.VolumeRef) -> volumes.Facts:
    """Return the properties of an image, after an invalid object map was rebuilt if it can be.

    Raises as :func:`volumes.inspect` does.

    :raises Rebuilding: the rebuild is under way
    """
    facts = volumes.inspect(cluster, ref)
    if not (facts.invalid_map and facts.features & rbd.RBD_FEATURE_OBJECT_MAP and facts.owners):
        return facts
    if not _rebuild(cluster, facts.pool_id, ref, facts.image_id):
        return facts
    facts = _until(cluster, ref, lambda facts: not facts.invalid_map, cluster.timeout)
    if facts.invalid_map:
        raise errors.Rebuilding(f'the object map of {ref} is flagged invalid, and its client '
                                f'rebuilds it: try again')
    return facts


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
