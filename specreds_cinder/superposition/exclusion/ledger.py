# SPDX-License-Identifier: Apache-2.0
"""The fencing ledger of an image: the clients whose writes may still reach it or its overlay.

Invariant: a client that was seen to have the image or its overlay open stays in the ledger until
Ceph refuses its writes for good (it is blocklisted, and no controller removes the entry) or it has
closed both in good order.

That a client is not visible proves nothing: the watch of a client that hangs expires after
half a minute, and its writes arrive when it wakes. The ledger is one RADOS object for each image,
``specreds.clients.<image id>``, beside the image's header, and changed only by compare-and-swap.
It is there as long as it has entries.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
import contextlib
import dataclasses
import errno
import json

import jsonschema
import rados
import tenacity

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import writes
from specreds_cinder.superposition.truth import record as records

FORMAT = 1

PRIMARY = 'primary'
BACKUP = 'backup'
MERGER = 'merger'

_LARGEST = 16 << 20
_CHANGED = (errno.ERANGE, errno.EOVERFLOW)
_VALIDATOR = jsonschema.Draft202012Validator({
    'type': 'object', 'required': ['format', 'clients'], 'additionalProperties': False,
    'properties': {
        'format': {'const': FORMAT},
        'clients': {'type': 'object', 'additionalProperties': {
            'type': 'object', 'required': ['role', 'superposition'],
            'additionalProperties': False,
            'properties': {'role': {'enum': [PRIMARY, BACKUP, MERGER]},
                           'superposition': {'type': 'string'}}}}}})


@dataclasses.dataclass(frozen=True)
class Entry:
    """What a client was when it was entered.

    :param role: primary, backup or merger
    :param superposition: the id of the superposition during which it was entered
    """

    role: str
    superposition: str


Entries = Mapping[str, Entry]


class Ledger:
    """The ledgers of a cluster's images. Safe to share between threads."""

    def __init__(self, cluster: ceph.Cluster) -> None:
        self._cluster = cluster

    def read(self, volume: records.Volume) -> Entries:
        """Return the entries of a volume by client address.

        :raises ClusterError: the ledger is unreadable, or one of a newer format
        """
        return self._read(volume.ref.home, volume.image_id)[0]

    def enter(self, volume: records.Volume, clients: Collection[str], entry: Entry, *,
              replace: bool = False) -> None:
        """Enter clients into the ledger of a volume.

        :param replace: also replace the entries of clients that are in the ledger already
        :raises InvalidInput: an address does not name one client, so that it could not be fenced
        """
        entered = {address.check(client): entry for client in clients}

        def add(entries: Entries) -> Entries:
            return {**entries, **entered} if replace else {**entered, **entries}
        self._change(volume, 'enter', add)

    def exchange(self, volume: records.Volume, old: Entry, new: Entry) -> None:
        """Replace every entry that equals another one."""
        self._change(volume, 'exchange', lambda entries: {
            client: new if entry == old else entry for client, entry in entries.items()})

    def leave(self, volume: records.Volume, clients: Iterable[str]) -> None:
        """Remove clients, of each of which the caller has proof that it cannot write any more."""
        gone = frozenset(clients)
        self._change(volume, 'leave', lambda entries: {
            client: entry for client, entry in entries.items() if client not in gone})

    def remove(self, home: records.Home, image_id: str) -> None:
        """Remove the ledger of an image that is removed. One that does not exist is no error."""
        with self._cluster.ioctx(home.pool, home.namespace) as io, \
                ceph.answering(f'remove the ledger of image {image_id}'), \
                trace.change('ledger.remove', image_id), \
                contextlib.suppress(rados.ObjectNotFound):
            writes.remove(io, _object(image_id))

    # Each loser of a compare-and-swap makes way for a winner, so this ends.
    @tenacity.retry(retry=tenacity.retry_if_exception_type(errors.RecordChanged),
                    wait=tenacity.wait_random(0, 0.1), stop=tenacity.stop_after_attempt(20),
                    reraise=True)
    def _change(self, volume: records.Volume, verb: str,
                change: Callable[[Entries], Entries]) -> None:
        home, image_id = volume.ref.home, volume.image_id
        entries, version = self._read(home, image_id)
        changed = change(entries)
        if changed == entries:
            return
        with self._cluster.ioctx(home.pool, home.namespace) as io, \
                ceph.answering(f'change the ledger of {volume.ref}'), \
                trace.change(f'ledger.{verb}', str(volume.ref)), \
                rados.WriteOpCtx() as op:
            if version is None:
                op.new(rados.LIBRADOS_CREATE_EXCLUSIVE)
            else:
                op.assert_version(version)
            if changed:
                op.write_full(_dump(changed))
            else:
                op.remove()
            try:
                writes.operate(io, op, _object(image_id))
            except (rados.ObjectExists, rados.ObjectNotFound) as exc:
                raise _lost(volume) from exc
            except rados.Error as exc:
                if abs(getattr(exc, 'errno', None) or 0) not in _CHANGED:
                    raise
                raise _lost(volume) from exc

    def _read(self, home: records.Home, image_id: str) -> tuple[Entries, int | None]:
        with self._cluster.ioctx(home.pool, home.namespace) as io, \
                ceph.answering(f'read the ledger of image {image_id}'):
            try:
                raw = io.read(_object(image_id), _LARGEST)
            except rados.ObjectNotFound:
                return {}, None
            return _load(raw), io.get_last_version()


def _object(image_id: str) -> str:
    return f'specreds.clients.{image_id}'


def _lost(volume: records.Volume) -> errors.RecordChanged:
    return errors.RecordChanged(
        f'the ledger of {volume.ref} was changed by another controller meanwhile; try again')


def _dump(entries: Entries) -> bytes:
    return json.dumps({'format': FORMAT, 'clients': {
        client: dataclasses.asdict(entry) for client, entry in entries.items()}},
        separators=(',', ':')).encode()


def _load(raw: bytes) -> Entries:
    body = records.parse(raw, _VALIDATOR, 'ledger of clients')
    return {client: Entry(**entry) for client, entry in body['clients'].items()}
