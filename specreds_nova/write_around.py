# SPDX-License-Identifier: Apache-2.0
"""librbd's write-around cache, whose flushes may succeed although their writes have failed.

librbd acknowledges a write before an OSD has it, and reports its error with a later flush. A flush
reports it only if another write is in flight (``flush`` in librbd's WriteAroundObjectDispatch.cc).
So, for some milliseconds, a client that is being fenced acknowledges flushes of writes that are
lost (seen with Ceph 18). The policy ``writeback`` reports the error with the next flush.
"""

from collections.abc import Iterable
import pathlib

OPTION = 'rbd_cache_policy'
_HARMFUL, SAFE = 'writearound', 'writeback'
# Modes of libvirt with which QEMU uses no cache of librbd; so does Nova without a mode.
_WITHOUT_CACHE = ('none', 'directsync')
_DISKS = 'network'


def refusal(cachemodes: Iterable[str], ceph_conf: str) -> str | None:
    """Return why a host must not be fenced while its guests write; None if it may be.

    :param cachemodes: Nova's ``[libvirt] disk_cachemodes`` of the host
    :param ceph_conf: path of its ``ceph.conf``, which librbd reads if it exists
    """
    modes = dict(mode.strip().partition('=')[::2] for mode in cachemodes)
    mode = modes.get(_DISKS)
    if mode in (None, *_WITHOUT_CACHE):
        return None
    # python3-rados is needed only where Ceph is.
    import rados
    known = pathlib.Path(ceph_conf).exists()
    try:
        client = rados.Rados(conffile=ceph_conf if known else None, rados_id='none')
        policy = client.conf_get(OPTION)
    except rados.Error as exc:
        return f'{ceph_conf} cannot be read: {exc}'
    if policy != _HARMFUL:
        return None
    return (f'with disk_cachemodes = {_DISKS}={mode}, a guest that is fenced may be told that '
            f'flushed writes are safe, which are lost: set {OPTION} = {SAFE} in section client of '
            f'{ceph_conf}, and start or migrate the servers anew')
