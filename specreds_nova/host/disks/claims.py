# SPDX-License-Identifier: Apache-2.0
"""Whether a superposition claims the disks of a server that Nova keeps in RBD, as Ceph knows it.

A superposition claims each disk from before its first moment until its merge has ended
(:mod:`specreds_cinder.superposition.truth.store`). So a disk without a claim is the real version
itself, and this host needs nobody but Ceph to know that.
"""

from collections.abc import Iterator
import itertools
from typing import Any

import nova.conf
from oslo_log import log as logging
import rados

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_cinder.superposition.truth import record as records
from specreds_cinder.superposition.truth import store
from specreds_nova.host.disks import ceph_conf

CONF = nova.conf.CONF
LOG = logging.getLogger(__name__)

# Seconds that a call may take: a start waits for it.
_TIMEOUT = 5.0
# Bytes before the id in the object that names an image.
_LENGTH = 4


def none(server_id: str) -> bool:
    """Return whether no disk of a server is claimed; False also if Ceph does not say.

    :param server_id: id of the server
    """
    home = records.Home(CONF.libvirt.images_rbd_pool)
    try:
        with ceph.Cluster(str(ceph_conf.of_host()), CONF.libvirt.rbd_user or 'admin',
                          _TIMEOUT) as cluster:
            claims = store.Store(cluster)
            with cluster.ioctx(home.pool) as io, ceph.answering(f'read disks of {server_id}'):
                images = list(_images(io, server_id))
            return all(claims.claimed(home, image) is None for image in images)
    except errors.SuperError as exc:
        LOG.warning('server %s: Ceph does not say whether its disks are superposed: %s',
                    server_id, exc)
        return False


def _images(io: Any, server_id: str) -> Iterator[str]:
    """Yield the ids of the images of a server's disks."""
    for name in ('disk', 'disk.local', 'disk.swap'):
        if (image := _image(io, f'{server_id}_{name}')) is not None:
            yield image
    for number in itertools.count():
        image = _image(io, f'{server_id}_disk.eph{number}')
        if image is None:
            return
        yield image


def _image(io: Any, name: str) -> str | None:
    try:
        body: bytes = io.read(f'rbd_id.{name}')
    except rados.ObjectNotFound:
        return None
    return body[_LENGTH:].decode()
