# SPDX-License-Identifier: Apache-2.0
"""The latch of a volume: while it is closed, no client of librbd can take the exclusive lock.

librbd and the OSD refuse a client the lock of an image's header (``EBUSY``) as long as the lock
has an owner and a tag other than librbd's own (``managed_lock::GetLockerRequest``, ``cls_lock``).
A closed latch is that lock with a tag of the superposition, and with an owner beside those that it
has. They stay in the lock, so that an opened latch leaves the lock as librbd left it.

The latch does not stop a client that has the lock already: that one has to be fenced. It stops
every other one, also a client that nobody knows, or whose blocklist entry has expired.

A latch is *armed* while its superposition is created: the header names the superposition. Only an
armed latch can be closed, and to open it disarms it, each by one atomic operation on the header.
So a controller that is overtaken cannot close a latch that another one has opened, and no latch
outlives its superposition.
"""

from collections.abc import Callable
import contextlib
import dataclasses
import errno
import struct

import rados
import tenacity

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import writes
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import store as stores

# Names the owner that a latch adds to the lock; librbd's own begin with "auto".
COOKIE = 'specreds latch'

_ARMED = 'specreds.latch'
_LOCK = 'lock.rbd_lock'
_TAG = 'specreds '
_LIBRBD = 'internal'
_EXCLUSIVE = 1
_CHANGED = (errno.ERANGE, errno.EOVERFLOW)
# Version, oldest version that can decode, and length: Ceph writes them before each structure.
_ENVELOPE = struct.Struct('<BBI')
_CLIENT = 8


@dataclasses.dataclass(frozen=True)
class Lock:
    """An exclusive lock as ``cls_lock`` stores it.

    :param owners: the encoded owners
    :param kind: 1 if exclusive, 2 if shared, 0 if it was never taken
    """

    owners: tuple[bytes, ...] = ()
    kind: int = 0
    tag: str = ''

    @property
    def superposition(self) -> str | None:
        """Return the id of the superposition that has closed the latch; None if it is open."""
        return self.tag.removeprefix(_TAG) if self.tag.startswith(_TAG) and self.owners else None

    def closed(self, superposition: str) -> 'Lock':
        """Return the lock with the latch of a superposition closed."""
        return Lock((*self._others, _owner(superposition)), _EXCLUSIVE, _TAG + superposition)

    def opened(self) -> 'Lock':
        """Return the lock without a latch."""
        return Lock(self._others, _EXCLUSIVE, _LIBRBD)

    @property
    def _others(self) -> tuple[bytes, ...]:
        return tuple(owner for owner in self.owners if COOKIE.encode() not in owner)

    def dump(self) -> bytes:
        """Return the stored form of the lock."""
        return _enveloped(struct.pack('<I', len(self.owners)) + b''.join(self.owners)
                          + bytes([self.kind]) + _text(self.tag))

    @classmethod
    def load(cls, raw: bytes) -> 'Lock':
        """Return the lock that an attribute holds.

        :raises ClusterError: the attribute is no lock, or one of a newer format
        """
        try:
            version, _oldest, length = _ENVELOPE.unpack_from(raw)
            if version != 1 or length != len(raw) - _ENVELOPE.size:
                raise ValueError(f'version {version}, {len(raw)} bytes')
            count, = struct.unpack_from('<I', raw, _ENVELOPE.size)
            at, owners = _ENVELOPE.size + 4, []
            for _ in range(count):
                # An owner is two structures: its name and cookie, and its address.
                end = _behind(raw, _behind(raw, at))
                owners.append(raw[at:end])
                at = end
            size, = struct.unpack_from('<I', raw, at + 1)
            if at + 5 + size != len(raw):
                raise ValueError(f'{len(raw)} bytes')
            return cls(tuple(owners), raw[at], raw[at + 5:].decode())
        except (ValueError, struct.error) as exc:
            raise errors.ClusterError(
                f'unreadable exclusive lock (written by a newer release of Ceph?): {exc}') from exc


@dataclasses.dataclass(frozen=True)
class _Header:
    """What a header says of its lock and latch, at a version of the header."""

    lock: Lock
    armed: str | None
    version: int

    def closed(self, superposition: str) -> '_Header':
        """Return the header with the latch of a superposition closed.

        :raises RecordChanged: another controller has opened it for good
        """
        if self.armed != superposition:
            raise errors.RecordChanged(
                f'superposition {superposition} was decided by another controller meanwhile; '
                f'look at it again')
        if self.lock.superposition == superposition:
            return self
        return dataclasses.replace(self, lock=self.lock.closed(superposition))


class _Overtaken(errors.RecordChanged):
    """The header was changed by another client meanwhile."""


class Latch:
    """The latches of a cluster's volumes. Safe to share between threads."""

    def __init__(self, cluster: ceph.Cluster, store: stores.Store) -> None:
        self._cluster = cluster
        self._store = store

    def superposition(self, volume: records.Volume) -> str | None:
        """Return the id of the superposition that has closed a latch; None if it is open."""
        header = self._header(volume)
        return None if header is None else header.lock.superposition

    def _header(self, volume: records.Volume) -> _Header | None:
        """Return what a header says of its lock and latch; None if it is gone."""
        with self._cluster.ioctx(volume.pool, volume.namespace) as io, \
                ceph.answering(f'read the latch of {volume.ref}'):
            try:
                return _read(io, volume.image_id)
            except rados.ObjectNotFound:
                return None

    def unowned(self, volume: records.Volume, superposition: str = '') -> int:
        """Return the version of a header whose lock has no owner; 0 if it has one, or is gone.

        :param superposition: its latch is no owner
        """
        header = self._header(volume)
        owned = header is None or set(header.lock.owners) - {_owner(superposition)}
        return 0 if header is None or owned else header.version

    def version(self, volume: records.Volume, superposition: str) -> int:
        """Return the version of a header whose latch is closed; 0 if it is not, or is gone."""
        header = self._header(volume)
        return (header.version if header is not None
                and header.lock.superposition == superposition else 0)

    def arm(self, volume: records.Volume, superposition: str) -> None:
        """Let the latch of a volume be closed for a superposition, which has claimed the volume.

        What an earlier superposition has left is removed.

        :raises NotSuperposed: the superposition has lost its claim
        :raises VolumeGone: the image is gone
        """
        def armed(header: _Header) -> _Header:
            foreign = {header.armed, header.lock.superposition} - {None, superposition}
            # The header was read before: a later owner of the claim arms it after this.
            if foreign and not self._claims(volume, superposition):
                raise errors.NotSuperposed(
                    f'superposition {superposition} has lost its claim on {volume.ref}')
            return dataclasses.replace(header, armed=superposition, lock=(
                header.lock.opened() if foreign and header.lock.superposition else header.lock))
        self._change(volume, 'arm', armed)

    def close(self, volume: records.Volume, superposition: str) -> None:
        """Keep every client that does not have the exclusive lock from taking it.

        :raises RecordChanged: another controller has opened it for good
        :raises VolumeGone: the image is gone
        """
        self._change(volume, 'close', lambda header: header.closed(superposition))

    def seal(self, volume: records.Volume, superposition: str, version: int) -> bool:
        """Close the latch, unless it is, or the header has changed.

        :param version: of the header, when the lock had no owner
        :returns: whether nobody has taken the lock since then, and nobody can
        :raises RecordChanged: another controller has opened it for good
        :raises VolumeGone: the image is gone
        """
        before = self._change(volume, 'seal', lambda header: (
            header.closed(superposition) if header.version == version else header))
        return before.version == version

    def open(self, volume: records.Volume, superposition: str) -> None:
        """Let librbd lock a volume again, for good. An image that is gone is no error."""
        def opened(header: _Header) -> _Header:
            mine = header.lock.superposition == superposition
            return dataclasses.replace(
                header, armed=None if header.armed == superposition else header.armed,
                lock=header.lock.opened() if mine else header.lock)
        with contextlib.suppress(errors.VolumeGone):
            self._change(volume, 'open', opened)

    def _claims(self, volume: records.Volume, superposition: str) -> bool:
        claim = self._store.claimed(volume.ref.home, volume.image_id)
        return claim is not None and claim.superposition == superposition

    # Each loser of a compare-and-swap makes way for a winner, so this ends.
    @tenacity.retry(retry=tenacity.retry_if_exception_type(_Overtaken),
                    wait=tenacity.wait_random(0, 0.05), stop=tenacity.stop_after_attempt(40),
                    reraise=True)
    def _change(self, volume: records.Volume, verb: str,
                change: Callable[[_Header], _Header]) -> _Header:
        """Change a header by compare-and-swap, and return it as it was before."""
        with self._cluster.ioctx(volume.pool, volume.namespace) as io, \
                ceph.answering(f'{verb} the latch of {volume.ref}'):
            try:
                header = _read(io, volume.image_id)
            except rados.ObjectNotFound:
                raise errors.VolumeGone(f'there is no RBD image {volume.ref} (any more)') from None
            changed = change(header)
            if changed == header:
                return header
            with trace.change(f'latch.{verb}', str(volume.ref)), rados.WriteOpCtx() as op:
                op.assert_version(header.version)
                if changed.armed is None:
                    op.rm_xattr(_ARMED)
                else:
                    op.set_xattr(_ARMED, changed.armed.encode())
                if changed.lock != header.lock:
                    op.set_xattr(_LOCK, changed.lock.dump())
                try:
                    writes.operate(io, op, _name(volume.image_id))
                except rados.Error as exc:
                    if abs(getattr(exc, 'errno', None) or 0) not in _CHANGED:
                        raise
                    raise _Overtaken(
                        f'the header of {volume.ref} keeps changing; try again') from exc
        return header


def _read(io: 'rados.Ioctx', image_id: str) -> _Header:
    attributes = dict(io.get_xattrs(_name(image_id)))
    armed, lock = attributes.get(_ARMED), attributes.get(_LOCK)
    return _Header(lock=Lock() if lock is None else Lock.load(lock),
                   armed=None if armed is None else armed.decode(), version=io.get_last_version())


def _name(image_id: str) -> str:
    return f'rbd_header.{image_id}'


def _owner(superposition: str) -> bytes:
    """Return the encoded owner that a latch adds: no client of Ceph, with no address."""
    name = struct.pack('<Bq', _CLIENT, 0) + _text(COOKIE)
    # It never expires; the address has the type "none".
    address = b'\x01' + _enveloped(struct.pack('<III', 0, 0, 0))
    return _enveloped(name) + _enveloped(
        struct.pack('<II', 0, 0) + address + _text(f'superposition {superposition}'))


def _enveloped(body: bytes) -> bytes:
    return _ENVELOPE.pack(1, 1, len(body)) + body


def _text(text: str) -> bytes:
    return struct.pack('<I', len(text.encode())) + text.encode()


def _behind(raw: bytes, at: int) -> int:
    """Return the offset behind a structure."""
    end = at + _ENVELOPE.size + int(_ENVELOPE.unpack_from(raw, at)[2])
    if end > len(raw):
        raise ValueError(f'structure at {at} ends at {end} of {len(raw)} bytes')
    return end
