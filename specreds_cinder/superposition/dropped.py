# SPDX-License-Identifier: Apache-2.0
"""The list of ended superpositions whose primaries live on, although a fence was under way.

The monitors may commit a blocklist entry long after it was requested, for example when they have
elected a leader, and when the controller that has requested it is gone. The list is an omap,
``specreds.dropped``, in the pool and namespace of the record, with one key for each superposition
and its last record, without cuts and with the time of this entry, as value. It is entered before
the record is deleted.
"""

import dataclasses

import rados

from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition import trace

_OBJECT = 'specreds.dropped'
_BATCH = 100


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
            io.operate_write_op(op, _OBJECT)

    def read(self, home: records.Home) -> list[records.Record]:
        """Return the last records of the listed superpositions of a home.

        :raises ClusterError: one is unreadable, or of a newer format
        """
        listed: dict[str, bytes] = {}
        with self._cluster.ioctx(home.pool, home.namespace) as io, \
                ceph.answering(f'read the dropped superpositions of {home}'):
            while True:
                with rados.ReadOpCtx() as op:
                    page, _status = io.get_omap_vals(op, max(listed, default=''), '', _BATCH)
                    try:
                        io.operate_read_op(op, _OBJECT)
                    except rados.ObjectNotFound:
                        return []
                    values = dict(page)
                listed.update(values)
                if len(values) < _BATCH:
                    return [records.Record.load(value, 0) for value in listed.values()]

    def remove(self, record: records.Record) -> None:
        """Remove a superposition from the list."""
        with self._cluster.ioctx(record.home.pool, record.home.namespace) as io, \
                ceph.answering(f'remove dropped superposition {record.id} from its list'), \
                trace.change('dropped.remove', record.id), rados.WriteOpCtx() as op:
            io.remove_omap_keys(op, (record.id,))
            io.operate_write_op(op, _OBJECT)
