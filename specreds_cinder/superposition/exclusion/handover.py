# SPDX-License-Identifier: Apache-2.0
"""The hand-over: the primary lets go of a volume's exclusive lock, because it is asked to.

This sends what a client of librbd sends to the owner of the lock (``NotifyMessage`` of Ceph's
``src/librbd/WatchNotifyTypes.h``). An owner that lives ends its writes, closes its object map, and
lets go. Its next write takes the lock again, which changes the header. As long as the header has
the version that it had without an owner, nobody has written to the volume. librbd's own call would
take the lock: it breaks the lock of an owner that hangs, and a write of one that lives fails.
"""

from collections.abc import Sequence
import secrets
import struct
import time

from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.exclusion import latch as latches
from specreds_cinder.superposition.truth import record as records

# Version, compatible version and length of an encoded structure.
_ENVELOPE = struct.Struct('<BBI')
_RESULT = struct.Struct('<BBIi')
# An operation with the ids of a client and of its watch, and a flag: no other client has these.
_REQUEST = struct.Struct('<IQQB')
# NOTIFY_OP_REQUEST_LOCK.
_REQUEST_LOCK = 2
_VERSION = 6
# An owner that lives answers within milliseconds. The recovery of one that hangs waits for this.
_PATIENCE_S = 0.1
# The time for which an owner that has answered may end its writes.
_RELEASE_S = 1.0
_POLL_S = 0.005


def request(cluster: ceph.Cluster, latch: latches.Latch, volume: records.Volume) -> bool:
    """Ask the owner of a volume's lock to let go of it; return whether it has.

    :raises ClusterError: Ceph did not answer
    """
    answers = cluster.notify(volume.pool_id, volume.namespace, f'rbd_header.{volume.image_id}',
                             message(_REQUEST.pack(_REQUEST_LOCK, secrets.randbits(63),
                                                   secrets.randbits(63), 0)), _PATIENCE_S)
    if not accepted(answers):
        return False
    deadline = time.monotonic() + _RELEASE_S
    while not latch.unowned(volume):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def message(payload: bytes) -> bytes:
    """Return a message to the clients of an image."""
    return _ENVELOPE.pack(_VERSION, 1, len(payload)) + payload


def accepted(answers: Sequence[bytes]) -> bool:
    """Return whether one of the clients of an image carries out what it is asked for."""
    # Only the owner of the lock answers with a result.
    return any(len(answer) >= _RESULT.size and _RESULT.unpack_from(answer)[3] == 0
               for answer in answers)
