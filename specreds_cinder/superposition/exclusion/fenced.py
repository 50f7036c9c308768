# SPDX-License-Identifier: Apache-2.0
"""The list of the clients that superpositions have fenced for good.

Their blocklist entries last for years and are part of every osdmap, so they have to be removed
once their clients have ended for sure. The list says which entries those are: it is an omap,
``specreds.fenced``, in the pool and namespace of the record, with one key for each client.
A fence enters its clients before it blocklists them, so that none is blocklisted and not listed.
"""

from collections.abc import Collection, Mapping
import dataclasses
import errno
import json

import jsonschema
import rados

from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import omap
from specreds_cinder.superposition.ceph import writes
from specreds_cinder.superposition.truth import record as records

_OBJECT = 'specreds.fenced'
_CHANGED = (errno.ERANGE, errno.EOVERFLOW)
_TEXT = {'type': 'string'}
_VALIDATOR = jsonschema.Draft202012Validator({
    'type': 'object', 'required': ['superposition', 'server_id', 'fenced_at'],
    'properties': {'superposition': _TEXT, 'server_id': {'type': ['string', 'null']},
                   'fenced_at': _TEXT}})


@dataclasses.dataclass(frozen=True)
class Entry:
    """A client that stays fenced.

    :param superposition: id of the superposition that has fenced it
    :param server_id: id of the server that it belonged to
    :param fenced_at: a time at which it was fenced already, in the form of records
    """

    superposition: str
    server_id: str | None
    fenced_at: str


@dataclasses.dataclass(frozen=True)
class Listing:
    """The list of a home as it was read.

    :param entries: its entries, by client
    :param version: version of the list; 0 if it does not exist
    """

    entries: Mapping[str, Entry]
    version: int


class FencedClients:
    """The lists of a cluster. Safe to share between threads."""

    def __init__(self, cluster: ceph.Cluster) -> None:
        self._cluster = cluster

    def enter(self, home: records.Home, clients: Collection[str], entry: Entry) -> None:
        """Enter clients into the list of a home. Later entries replace earlier ones."""
        if not clients:
            return
        value = json.dumps(dataclasses.asdict(entry), separators=(',', ':')).encode()
        with self._cluster.ioctx(home.pool, home.namespace) as io, \
                ceph.answering(f'enter fenced clients in {home}'), \
                trace.change('fenced.enter', entry.superposition), rados.WriteOpCtx() as op:
            io.set_omap(op, tuple(clients), (value,) * len(clients))
            writes.operate(io, op, _OBJECT)

    def read(self, home: records.Home) -> Listing:
        """Return the list of a home.

        :raises ClusterError: it is unreadable, or of a newer format
        """
        entries: dict[str, Entry] = {}
        version = 0
        with self._cluster.ioctx(home.pool, home.namespace) as io, \
                ceph.answering(f'read the fenced clients of {home}'):
            for page in omap.pages(io, _OBJECT):
                # That of the first page: a change after it counts as one.
                version = version or io.get_last_version()
                entries.update({
                    client: Entry(**records.parse(value, _VALIDATOR, 'fenced client'))
                    for client, value in page.items()})
        return Listing(entries, version)

    def remove(self, home: records.Home, clients: Collection[str], listing: Listing) -> bool:
        """Remove clients from the list of a home, unless the list has changed since it was read.

        A fence may have entered one of them anew since, and be about to blocklist it.

        :returns: whether none of them is in the list
        """
        if not clients:
            return True
        with self._cluster.ioctx(home.pool, home.namespace) as io, \
                ceph.answering(f'remove fenced clients from {home}'), \
                trace.change('fenced.remove', str(home)), rados.WriteOpCtx() as op:
            op.assert_version(listing.version)
            io.remove_omap_keys(op, tuple(clients))
            try:
                writes.operate(io, op, _OBJECT)
            except rados.Error as exc:
                if abs(getattr(exc, 'errno', None) or 0) not in _CHANGED:
                    raise
                return False
        return True
