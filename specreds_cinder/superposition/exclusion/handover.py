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

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.exclusion import latch as latches
from specreds_cinder.superposition.truth import record as records

# Version, compatible version and length of an encoded structure.
_ENVELOPE = struct.Struct('<BBI')
_RESULT = struct.Struct('<BBIi')
# An operation with the ids of a client and of its watch, and a flag: no other client has these.
_REQUEST = struct.Struct('<IQQB')
_OPERATION = struct.Struct('<I')
# NOTIFY_OP_REQUEST_LOCK and NOTIFY_OP_HEADER_UPDATE.
_REQUEST_LOCK, _HEADER_UPDATE = 2, 3
_VERSION = 6
# An owner that lives answers within milliseconds. The recovery of one that hangs waits for this.
_PATIENCE_S = 0.1
# Ceph gives all clients of an image a second, and returns the answers of those that have answered.
_ALL_S = 2.0
# The time for which an owner that has answered may end its writes.
_RELEASE_S = 1.0
_POLL_S = 0.005


def request(cluster: ceph.Cluster, latch: latches.Latch, volume: records.Volume,
            superposition: str = '', *, insist: bool = False,
            patience_s: float = 0.0) -> int | None:
    """Ask the owner of a volume's lock, if there is one, to let go of it.

    :param superposition: its latch is no owner
    :param insist: send the request, also if it waits for its turn
    :param patience_s: seconds that an answer may take; 0 for few
    :returns: the version of the header when the lock has no owner; 0 if an owner lives and keeps
        the lock; None if no owner answers
    :raises ClusterError: Ceph did not answer, or the request was not sent in time
    """
    if version := latch.unowned(volume, superposition):
        return version
    # The id of this client, and of a watch that no client has: whoever sent it answers nothing.
    wanted = message(_REQUEST.pack(_REQUEST_LOCK, cluster.rados.get_instance_id(),
                                   secrets.randbits(63), 0))
    answers, until = None, time.monotonic() + cluster.timeout
    while answers is None:
        answers = cluster.notify(volume.pool_id, volume.namespace,
                                 f'rbd_header.{volume.image_id}', wanted,
                                 patience_s or _PATIENCE_S)
        if not insist:
            break
        if answers is None and time.monotonic() > until:
            raise errors.ClusterTimeout(f'the owner of the lock of {volume.ref} was not asked')
    results = _results(answers or ())
    if not results:
        # One that answers is not heard if another client hangs.
        return latch.unowned(volume, superposition) or None
    deadline = time.monotonic() + _RELEASE_S
    while not (version := latch.unowned(volume, superposition)):
        if time.monotonic() > deadline or 0 not in results:
            return 0
        time.sleep(_POLL_S)
    return version


def lives(cluster: ceph.Cluster, volume: records.Volume) -> bool:
    """Return whether a volume's only client may live: it answers, or could not be asked.

    The message makes the client read the header again, and has no other effect.

    :raises ClusterError: Ceph did not answer
    """
    answers = cluster.notify(volume.pool_id, volume.namespace, f'rbd_header.{volume.image_id}',
                             message(_OPERATION.pack(_HEADER_UPDATE)), _ALL_S, ended=True)
    return answers is None or bool(answers)


def message(payload: bytes) -> bytes:
    """Return a message to the clients of an image."""
    return _ENVELOPE.pack(_VERSION, 1, len(payload)) + payload


def accepted(answers: Sequence[bytes]) -> bool:
    """Return whether one of the clients of an image carries out what it is asked for."""
    return 0 in _results(answers)


def _results(answers: Sequence[bytes]) -> list[int]:
    """Return the results in answers: only the owner of the lock answers with one."""
    return [_RESULT.unpack_from(answer)[3] for answer in answers if len(answer) >= _RESULT.size]
