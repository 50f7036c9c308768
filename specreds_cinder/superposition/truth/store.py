# SPDX-License-Identifier: Apache-2.0
"""The store of records: RADOS objects beside the volumes, changed only by compare-and-swap.

Three kinds of objects, all in the pool and namespace of the image headers, beside the ledgers of
:mod:`specreds_cinder.superposition.exclusion.ledger`:

``specreds.super.<id>``
    the record. A change names the version that was read (``assert_version``), so that exactly one
    of two controllers that decide at once succeeds. This is the only commit point.
``specreds.claim.<image id>``
    names the superposition of a volume. It is created exclusively, so there is at most one. A
    record is written before its claims and removed after them: a claim without a record is *void*.
    Its creation was dropped by another controller before it made the claim, and cannot commit.
``specreds.index``
    an omap of the superpositions with volumes in this pool and namespace. An entry is written
    before the record and removed after it: a list may find an entry without a record, but misses
    no record.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import errno
import json
import time

import rados

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import omap
from specreds_cinder.superposition.ceph import writes
from specreds_cinder.superposition.truth import record as records

_INDEX = 'specreds.index'
_LARGEST = 64 << 20
# Stats that are under way at a time.
_DEPTH = 256
_CHANGED = (errno.ERANGE, errno.EOVERFLOW)


@dataclasses.dataclass(frozen=True)
class Claim:
    """The superposition of a volume, and the home of its record."""

    superposition: str
    home: records.Home
    version: int


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of the index: the home of a record, and seconds since the entry was written."""

    home: records.Home
    age_seconds: float


class Store:
    """The records of a cluster."""

    def __init__(self, cluster: ceph.Cluster) -> None:
        self._cluster = cluster

    def create(self, record: records.Record) -> records.Record:
        """Write a new record, after its entries in the index of every home.

        :raises Conflict: a record with that id exists
        :raises ClusterTimeout: Ceph did not answer; the record may or may not exist
        """
        for home in record.homes:
            self._enter(record, home)
        try:
            with self._ioctx(record.home, f'create record {record.id}') as io, \
                    trace.change('record.create', record.id), \
                    rados.WriteOpCtx() as op:
                op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
                op.write_full(record.dump())
                io.operate_write_op(op, object_name(record.id))
                return dataclasses.replace(record, version=io.get_last_version())
        except rados.ObjectExists:
            raise errors.Conflict(f'there is a superposition {record.id} already') from None

    def _enter(self, record: records.Record, home: records.Home) -> None:
        """Enter a record into the index of a home."""
        with self._ioctx(home, 'enter into the index') as io, \
                trace.change('index.add', f'{home}:{record.id}'), \
                rados.WriteOpCtx() as op:
            io.set_omap(op, (record.id,), (f'{record.home} {time.time():.6f}'.encode(),))
            io.operate_write_op(op, _INDEX)

    def enter_again(self, record: records.Record) -> None:
        """Enter a record into each index that has lost its entry.

        While a controller hangs before it writes the record, its entry looks like a remain.
        """
        for home in record.homes:
            with self._ioctx(home, f'look for {record.id} in the index') as io:
                listed = any(omap.pages(io, _INDEX, record.id))
            if not listed:
                self._enter(record, home)

    def read(self, superposition: str, home: records.Home) -> records.Record:
        """Return a record.

        :raises NotSuperposed: no record with that id is in this home
        :raises UnreadableObject: the object holds no record that this release knows
        """
        with self._ioctx(home, f'read record {superposition}') as io:
            try:
                raw = io.read(object_name(superposition), _LARGEST)
            except rados.ObjectNotFound:
                raise errors.NotSuperposed(
                    f'there is no superposition {superposition} in {home} (any more)') from None
            return records.Record.load(raw, io.get_last_version())

    def swap(self, old: records.Record, new: records.Record) -> records.Record:
        """Replace ``old`` by ``new``, unless the record has changed since it was read.

        :raises Conflict: ``new`` may not follow ``old``; nothing was written
        :raises RecordChanged: another controller has changed the record
        :raises NotSuperposed: another controller has removed the record
        :raises ClusterTimeout: Ceph did not answer; reading the record shows the result
        """
        old.check_successor(new)
        with self._ioctx(old.home, f'change record {old.id} to {new.state}') as io, \
                self._asserting(old.id), \
                trace.change(f'record.{new.state}', old.id), \
                rados.WriteOpCtx() as op:
            op.assert_version(old.version)
            op.write_full(new.dump())
            writes.operate(io, op, object_name(old.id))
            return dataclasses.replace(new, version=io.get_last_version())

    def delete(self, record: records.Record) -> None:
        """Remove a record, then its index entries. One that does not exist is no error.

        :raises RecordChanged: another controller has changed the record since it was read
        """
        try:
            with self._ioctx(record.home, f'delete record {record.id}') as io, \
                    contextlib.suppress(errors.NotSuperposed), \
                    self._asserting(record.id), \
                    trace.change('record.delete', record.id), \
                    rados.WriteOpCtx() as op:
                op.assert_version(record.version)
                op.remove()
                writes.operate(io, op, object_name(record.id))
        except errors.RecordChanged:
            # An object that does not exist has another version, too.
            if self._versions(record.home, [record.id])[0]:
                raise
        for home in record.homes:
            self.unlist(record.id, home)

    def unlist(self, superposition: str, home: records.Home) -> None:
        """Remove a superposition from the index of a home."""
        with self._ioctx(home, 'remove from the index') as io, \
                trace.change('index.remove', f'{home}:{superposition}'), \
                rados.WriteOpCtx() as op:
            io.remove_omap_keys(op, (superposition,))
            writes.operate(io, op, _INDEX)

    def index(self, home: records.Home, only: str = '') -> dict[str, Entry]:
        """Return the superpositions with volumes in a home, by id.

        :param only: those whose ids begin with this
        """
        index: dict[str, Entry] = {}
        with self._ioctx(home, f'list the superpositions of {home}') as io:
            for page in omap.pages(io, _INDEX, only):
                index.update({key: _entry(value) for key, value in page.items()})
        return index

    def missing(self, index: Mapping[str, Entry]) -> set[str]:
        """Return the superpositions of an index that have no record."""
        by_home: dict[records.Home, list[str]] = {}
        for superposition, entry in index.items():
            by_home.setdefault(entry.home, []).append(superposition)
        missing: set[str] = set()
        for home, superpositions in by_home.items():
            # The pool of a record may have another name, or not answer.
            with contextlib.suppress(errors.ClusterError):
                missing |= {superposition for superposition, version in zip(
                    superpositions, self._versions(home, superpositions), strict=True)
                    if not version}
        return missing

    def _versions(self, home: records.Home, superpositions: Sequence[str]) -> list[int]:
        """Return the version of each record in a home; 0 for one that does not exist."""
        with self._ioctx(home, f'look for the records of {home}') as io:
            pool_id = io.get_pool_id()
        # Thousands of them, of which the contents do not matter, at once.
        return self._cluster.aio.ioctx(pool_id, home.namespace).stat_versions(
            [object_name(superposition).encode() for superposition in superpositions], _DEPTH)

    def claim(self, volume: records.Volume, superposition: str, home: records.Home) -> None:
        """Claim a volume for a superposition. A second claim for the same one is no error.

        A void claim is replaced by compare-and-swap.

        :raises AlreadySuperposed: another superposition holds the volume
        """
        body = json.dumps({'superposition': superposition, 'home': str(home)}).encode()
        while not self._create_claim(volume, body):
            holder = self.claimed(volume.ref.home, volume.image_id)
            if holder is None:
                raise errors.AlreadySuperposed(str(volume.ref), 'that is just ending')
            if holder.superposition == superposition:
                return
            if self._exists(holder):
                raise errors.AlreadySuperposed(str(volume.ref), holder.superposition)
            # Each loser of the compare-and-swap makes way for a winner, so this ends.
            if self._swap_claim(volume.ref.home, volume.image_id, holder, 'replace',
                                lambda op: op.write_full(body)):
                return

    def _create_claim(self, volume: records.Volume, body: bytes) -> bool:
        """Create the claim on a volume; return whether there was none."""
        with self._ioctx(volume.ref.home, f'claim volume {volume.ref}') as io, \
                contextlib.suppress(rados.ObjectExists), \
                trace.change('claim.create', str(volume.ref)), rados.WriteOpCtx() as op:
            op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
            op.write_full(body)
            io.operate_write_op(op, _claim(volume.image_id))
            return True
        return False

    def holder(self, home: records.Home, image_id: str) -> Claim | None:
        """Return the claim on a volume; None if the volume is in no superposition.

        A void claim does not count.
        """
        claim, last = self.claimed(home, image_id), None
        # If the claim has changed since it was read, another superposition had it.
        while claim is not None and claim != last:
            if self._exists(claim):
                return claim
            claim, last = self.claimed(home, image_id), claim
        return None

    def _exists(self, claim: Claim) -> bool:
        """Return whether the superposition of a claim has a record."""
        return bool(self._versions(claim.home, [claim.superposition])[0])

    def claimed(self, home: records.Home, image_id: str) -> Claim | None:
        """Return the claim on a volume; None if it is in no superposition."""
        with self._ioctx(home, f'read the claim on image {image_id}') as io:
            try:
                body = json.loads(io.read(_claim(image_id), _LARGEST))
            except rados.ObjectNotFound:
                return None
            return Claim(body['superposition'], records.Home.parse(body['home']),
                         io.get_last_version())

    def release(self, volume: records.Volume, superposition: str) -> None:
        """Remove the claim of a superposition on a volume; another one's claim stays."""
        holder = self.claimed(volume.ref.home, volume.image_id)
        if holder is not None and holder.superposition == superposition:
            # Another controller may have released the volume, and a new superposition claimed it.
            self._swap_claim(volume.ref.home, volume.image_id, holder, 'remove',
                             lambda op: op.remove())

    def release_void(self, home: records.Home, image_id: str) -> None:
        """Remove the claim on a volume if it is void."""
        claim = self.claimed(home, image_id)
        if claim is not None and not self._exists(claim):
            self._swap_claim(home, image_id, claim, 'remove', lambda op: op.remove())

    def _swap_claim(self, home: records.Home, image_id: str, holder: Claim, change: str,
                    operate: Callable[[rados.WriteOp], object]) -> bool:
        """Change a claim, unless it has changed since it was read; return whether it was changed.

        :param change: what is done, for the trace
        :param operate: adds it to an operation on the claim's object
        """
        with self._ioctx(home, f'{change} the claim on image {image_id}') as io, \
                contextlib.suppress(errors.RecordChanged, errors.NotSuperposed), \
                self._asserting(holder.superposition), \
                trace.change(f'claim.{change}', image_id), rados.WriteOpCtx() as op:
            op.assert_version(holder.version)
            operate(op)
            writes.operate(io, op, _claim(image_id))
            return True
        return False

    @contextlib.contextmanager
    def _ioctx(self, home: records.Home, what: str) -> 'Iterator[rados.Ioctx]':
        with self._cluster.ioctx(home.pool, home.namespace) as io, ceph.answering(what):
            yield io

    @staticmethod
    @contextlib.contextmanager
    def _asserting(superposition: str) -> Iterator[None]:
        try:
            yield
        except rados.ObjectNotFound:
            raise errors.NotSuperposed(f'superposition {superposition} has ended') from None
        except rados.Error as exc:
            if abs(getattr(exc, 'errno', None) or 0) not in _CHANGED:
                raise
            raise errors.RecordChanged(
                f'superposition {superposition} was changed by another controller meanwhile; '
                f'look at it again') from exc


def object_name(superposition: str) -> str:
    """Return the name of the object that holds a record."""
    return f'specreds.super.{superposition}'


def _claim(image_id: str) -> str:
    return f'specreds.claim.{image_id}'


def _entry(value: bytes) -> Entry:
    home, _, made = value.decode().rpartition(' ')
    return Entry(records.Home.parse(home), time.time() - float(made))
