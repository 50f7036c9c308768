# SPDX-License-Identifier: Apache-2.0
"""The list of ended superpositions whose servers go on with the parent version.

The monitors may commit a blocklist entry long after it was requested, for example when they have
elected a leader, and when the controller that has requested it is gone. The list is an omap,
``specreds.dropped``, in the pool and namespace of the record, with one key for each superposition
and its last record, without cuts and with the time of this entry, as value. It is entered before
the record is deleted.
"""

import dataclasses

import rados

from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import omap
from specreds_cinder.superposition.ceph import writes
from specreds_cinder.superposition.truth import record as records

_OBJECT = 'specreds.dropped'


class Dropped:
    """The lists of a cluster. Safe to share between threads."""

    def __init__(self, cluster: ceph.Cluster) -> None:
        self._cluster = cluster

    def enter(self, record: records.Record) -> None:
        """Enter a superposition that is about to end. May be repeated."""
        value = dataclasses.replace(
            record, cuts={}, labels={}, updated_at=records.now()).dump()
        with self._cluster.ioctx(record.home.pool, record.home.namespace) as io, \
                ceph.answering(f'list the dropped superposition {record.id}'), \
                trace.change('dropped.enter', record.id), rados.WriteOpCtx() as op:
            io.set_omap(op, (record.id,), (value,))
            writes.operate(io, op, _OBJECT)

    def read(self, home: records.Home) -> list[records.Record]:
        """Return the last records of the listed superpositions of a home.

        :raises ClusterError: one is unreadable, or of a newer format
        """
        with self._cluster.ioctx(home.pool, home.namespace) as io, \
                ceph.answering(f'read the dropped superpositions of {home}'):
            return [records.Record.load(value, 0) for page in omap.pages(io, _OBJECT)
                    for value in page.values()]

    def remove(self, record: records.Record) -> None:
        """Remove a superposition from the list."""
        with self._cluster.ioctx(record.home.pool, record.home.namespace) as io, \
                ceph.answering(f'remove dropped superposition {record.id} from its list'), \
                trace.change('dropped.remove', record.id), rados.WriteOpCtx() as op:
            io.remove_omap_keys(op, (record.id,))
            writes.operate(io, op, _OBJECT)
