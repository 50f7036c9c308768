# SPDX-License-Identifier: Apache-2.0
"""The rebuild of an object map that is flagged as invalid, by the owner of its image's lock.

Nothing but a rebuild removes the flag. librbd's own call takes the lock if it can, and breaks the
lock of an owner that hangs. This sends what librbd sends to an owner instead (``NotifyMessage`` of
Ceph's ``src/librbd/WatchNotifyTypes.h``): an owner that lives rebuilds the map while its guest
writes on.
"""

import secrets
import struct
import time

import rbd

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import volume as volumes
from specreds_cinder.superposition.exclusion import handover
from specreds_cinder.superposition.truth import record as records

# An operation with the ids of a client and of its watch, and a number of the request: no other
# client has these.
_REBUILD = struct.Struct('<IQQQ')
# NOTIFY_OP_REBUILD_OBJECT_MAP.
_REBUILD_MAP = 10
# An owner that lives answers within milliseconds; one that hangs never does.
_PATIENCE_S = 2.0
_PAUSE_S = 0.1


def inspect(cluster: ceph.Cluster, ref: records.VolumeRef) -> volumes.Facts:
    """Return the properties of an image, after an invalid object map was rebuilt if it can be.

    Raises as :func:`volumes.inspect` does.

    :raises Rebuilding: the rebuild is under way
    """
    facts = volumes.inspect(cluster, ref)
    if not (facts.invalid_map and facts.features & rbd.RBD_FEATURE_OBJECT_MAP and facts.owners
            and _rebuild(cluster, facts.pool_id, ref, facts.image_id)):
        return facts
    deadline = time.monotonic() + cluster.timeout
    while (facts := volumes.inspect(cluster, ref)).invalid_map:
        if time.monotonic() > deadline:
            raise errors.Rebuilding(f'the object map of {ref} is flagged invalid, and its client '
                                    f'rebuilds it: try again')
        time.sleep(_PAUSE_S)
    return facts


def _rebuild(cluster: ceph.Cluster, pool_id: int, ref: records.VolumeRef, image_id: str) -> bool:
    """Return whether the owner of an image's lock rebuilds its object map."""
    answers = cluster.aio.ioctx(pool_id, ref.namespace).notify(
        f'rbd_header.{image_id}'.encode(), handover.message(_REBUILD.pack(
            _REBUILD_MAP, *(secrets.randbits(63) for _ in range(3)))), _PATIENCE_S)
    return handover.accepted(answers)
