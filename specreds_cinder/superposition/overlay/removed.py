# SPDX-License-Identifier: Apache-2.0
"""The list of removed overlays, whose objects a client may have written after the removal.

A controller that hangs while it creates an overlay, or a backup that hangs and that Ceph does not
list any more, may wake after the overlay was removed. The objects that it then writes belong to
no image. The list is an omap, ``specreds.removed``, in the pool and namespace of the overlay, with
one key for each overlay. An overlay is entered before its header is removed, and leaves the list
when its objects have been looked for once more.
"""

import dataclasses
import datetime
import json

import jsonschema
import rados

from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.ceph import omap
from specreds_cinder.superposition.ceph import writes
from specreds_cinder.superposition.truth import record as records

_OBJECT = 'specreds.removed'
_TEXT = {'type': 'string'}
_COUNT = {'type': 'integer', 'minimum': 0}
_VALIDATOR = jsonschema.Draft202012Validator({
    'type': 'object',
    'required': ['name', 'id', 'image_id', 'data_pool_id', 'prefix', 'objects', 'removed_at'],
    'properties': {'name': _TEXT, 'id': _TEXT, 'image_id': _TEXT, 'data_pool_id': _COUNT,
                   'prefix': _TEXT, 'objects': _COUNT, 'removed_at': _TEXT}})


@dataclasses.dataclass(frozen=True)
class Overlay:
    """A removed overlay.

    :param name: name of its RBD image
    :param id: id of its RBD image
    :param image_id: id of the RBD image of its volume
    :param prefix: what the names of its data objects begin with
    :param objects: number of data objects that may exist
    """

    name: str
    id: str
    image_id: str
    data_pool_id: int
    prefix: str
    objects: int
    removed_at: str

    @property
    def age_seconds(self) -> float:
        """Return the seconds since it was removed."""
        return (datetime.datetime.now(datetime.UTC)
                - datetime.datetime.fromisoformat(self.removed_at)).total_seconds()


class Removed:
    """The lists of a cluster. Safe to share between threads."""

    def __init__(self, cluster: ceph.Cluster) -> None:
        self._cluster = cluster

    def enter(self, home: records.Home, overlay: Overlay) -> None:
        """Enter an overlay that is about to be removed. May be repeated."""
        value = json.dumps(dataclasses.asdict(overlay), separators=(',', ':')).encode()
        with self._cluster.ioctx(home.pool, home.namespace) as io, \
                ceph.answering(f'list the removed overlay {overlay.name}'), \
                trace.change('removed.enter', overlay.name), rados.WriteOpCtx() as op:
            io.set_omap(op, (overlay.id,), (value,))
            writes.operate(io, op, _OBJECT)

    def read(self, home: records.Home) -> list[Overlay]:
        """Return the listed overlays of a home.

        :raises ClusterError: one is unreadable, or of a newer format
        """
        names = [field.name for field in dataclasses.fields(Overlay)]
        with self._cluster.ioctx(home.pool, home.namespace) as io, \
                ceph.answering(f'read the removed overlays of {home}'):
            bodies = [records.parse(value, _VALIDATOR, 'removed overlay')
                      for page in omap.pages(io, _OBJECT) for value in page.values()]
        return [Overlay(**{name: body[name] for name in names}) for body in bodies]

    def leave(self, home: records.Home, overlay: Overlay) -> None:
        """Remove an overlay from the list."""
        with self._cluster.ioctx(home.pool, home.namespace) as io, \
                ceph.answering(f'remove overlay {overlay.name} from its list'), \
                trace.change('removed.leave', overlay.name), rados.WriteOpCtx() as op:
            io.remove_omap_keys(op, (overlay.id,))
            writes.operate(io, op, _OBJECT)
