# SPDX-License-Identifier: Apache-2.0
"""The fence of a host's clients of disks that Nova keeps in RBD.

The clients of one host are shut out of all disks of servers in the pool of such disks. Cinder does
not know on which host a server is: the clients that were noted when the host was suspected say so.
Those of a host that has started the server since are left alone.
"""

from collections.abc import Sequence
from typing import Any

from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import server_disks
from specreds_cinder.service import backend as backends
from specreds_cinder.superposition.ceph import address

LOG = logging.getLogger(__name__)


def fence_disks_observe(backend: backends.Backend, ctxt: Any, disks: Sequence[str],
                        fence_id: str) -> None:
    """Note the clients of all disks of the servers of some disks.

    The caller makes sure that the server is not being moved, after this has returned.

    :param disks: ids of disks that have to exist
    """
    backend.call(ctxt, 'note', images=_images(backend, ctxt, disks), fence_id=fence_id)


def fence_disks(backend: backends.Backend, ctxt: Any, disks: Sequence[str], fence_id: str,
                ) -> list[backends.View]:
    """Fence the hosts of the clients that were noted. May be repeated.

    :param disks: ids of disks that have to exist
    :returns: for each disk of the servers the number of clients that are fenced
    :raises SuperpositionConflict: a disk does not exist, or was open on several hosts, or on
        none that is known
    :raises VolumeSuperposed: a disk is in a superposition
    """
    images = _images(backend, ctxt, disks)
    noted = backend.call(ctxt, 'noted', images=images, fence_id=fence_id)
    hosts = sorted({address.host(client) for clients in noted for client in clients})
    if not hosts:
        raise exception.SuperpositionConflict(
            f'no client of disks {", ".join(disks)} was noted for fence {fence_id}, and those '
            f'of this moment may be on a host that has started the server since: a host that '
            f'is only cut off could write again. Power it off, and evacuate the server')
    if len(hosts) > 1:
        raise exception.SuperpositionConflict(
            f'disks {", ".join(disks)} are open on several hosts ({", ".join(hosts)}): the '
            f'one that has failed cannot be told from the others')
    counts = backend.call(ctxt, 'shut_out', fence_id=fence_id, targets=[
        {'image': image, 'addresses': hosts, 'clients': 0} for image in images])
    LOG.info('addresses %s are shut out of disks %s by fence %s: %d clients',
             ', '.join(hosts), ', '.join(images), fence_id, sum(counts))
    return [{'disk': image.rpartition('/')[2], 'clients': count}
            for image, count in zip(images, counts, strict=True)]


def _images(backend: backends.Backend, ctxt: Any, disks: Sequence[str]) -> list[str]:
    """Return the worker's names of all disks of the servers of some disks.

    :raises SuperpositionConflict: one of the disks does not exist
    """
    named = backend.disk_images(disks)
    images: list[str] = []
    for server_id in dict.fromkeys(server_disks.ServerDisk.parse(disk).server_id
                                   for disk in disks):
        # Nova's names of disks all begin alike, also in releases to come.
        images += backend.call(ctxt, 'images', prefix=backend.driver.disk_image(
            server_disks.ServerDisk(server_id, 'disk')))
    if missing := [image for image in named if image not in images]:
        raise exception.SuperpositionConflict(
            f'there is no RBD image {", ".join(missing)}: the disks of the server are on its '
            f'host, or in another pool')
    return images
