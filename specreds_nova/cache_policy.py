# SPDX-License-Identifier: Apache-2.0
"""The policies of librbd's cache, of which two may lose what a guest has flushed.

``writearound``, the default: librbd acknowledges a write before an OSD has it, and reports its
error with a later flush, but only if another write is in flight then (``flush`` in librbd's
WriteAroundObjectDispatch.cc). So, for some milliseconds, a client that is being fenced may
acknowledge flushes of writes that are lost (seen with Ceph 18). A decision fences no client that
answers before the client has written its cache, and handed over its lock
(:mod:`specreds_cinder.superposition.exclusion.handover`). What is left is a client that hangs, and
wakes while it is fenced.

``writeback``: two writes to one place may be in flight at a time, both acknowledged to the guest.
Both wait for the object map if it has to be updated first. Then the second one is sent by another
thread, and may overtake the first one (``handle_detained_aio_update`` in librbd's ObjectMap.cc).
So a guest may lose what it has flushed whenever Ceph stands still for longer than
``rbd_cache_max_dirty_age``, without any fence (seen with Ceph 16, 18 and 20; ``./run bench
overwrites`` shows it).

``writethrough`` acknowledges a write once the OSDs have it, as librbd does without a cache. A
pool's own setting takes precedence over each ``ceph.conf``, and an image's over its pool's.
"""

from collections.abc import Iterable
import pathlib

OPTION = 'rbd_cache_policy'
SAFE = 'writethrough'
DEFAULT = 'writearound'
# When librbd loses what a guest has flushed, by policy.
_LOSES = {DEFAULT: 'if its host hangs, and wakes while it is fenced',
          'writeback': 'while Ceph stands still, also without a recovery'}
# Modes of libvirt with which QEMU uses no cache of librbd; so does Nova without a mode.
WITHOUT_CACHE = ('none', 'directsync')
_DISKS = 'network'


class Unreadable(Exception):
    """A host's ``ceph.conf`` cannot be read."""


def warning(cachemodes: Iterable[str], ceph_conf: str) -> str | None:
    """Return why guests of a host may lose what they have flushed; None if they do not.

    :param cachemodes: Nova's ``[libvirt] disk_cachemodes`` of the host
    :param ceph_conf: path of its ``ceph.conf``, which librbd reads if it exists
    """
    mode = _mode(cachemodes)
    if mode is None:
        return None
    try:
        policy = _policy(ceph_conf)
    except Unreadable as exc:
        return str(exc)
    if policy == SAFE:
        return None
    return (f'with disk_cachemodes = {_DISKS}={mode} and {OPTION} = {policy}, librbd may lose '
            f'what a guest has written and flushed {_LOSES[policy]}: unless the pools of the '
            f'volumes have it already, run "{setting("POOL")}" for each of them, and start or '
            f'migrate the servers anew')


def setting(pool: str) -> str:
    """Return the command with which librbd writes through its cache on all hosts."""
    return f'rbd config pool set {pool} {OPTION} {SAFE}'


def _mode(cachemodes: Iterable[str]) -> str | None:
    """Return the mode with which the disks use librbd's cache; None if they do not."""
    mode = dict(mode.strip().partition('=')[::2] for mode in cachemodes).get(_DISKS)
    return None if mode in WITHOUT_CACHE else mode


def _policy(ceph_conf: str) -> str:
    """:raises Unreadable: there is no telling"""
    # python3-rados is needed only where Ceph is.
    import rados
    known = pathlib.Path(ceph_conf).exists()
    try:
        client = rados.Rados(conffile=ceph_conf if known else None, rados_id='none')
        return str(client.conf_get(OPTION))
    except rados.Error as exc:
        raise Unreadable(f'{ceph_conf} cannot be read: {exc}') from exc

