# SPDX-License-Identifier: Apache-2.0
"""The fence of a host's clients of disks that Nova keeps in RBD."""

import builtins
from collections.abc import Sequence
import time
from typing import Any

from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import server_disks
from specreds_cinder.superposition import address
from specreds_cinder.volume import base
from specreds_cinder.volume import host_fence

LOG = logging.getLogger(__name__)


class DiskFence(host_fence.HostFence):
    """Shuts the clients of one host out of all disks of servers in the pool of such disks.

    Cinder does not know on which host a server is: the clients that were noted when the host was
    suspected say so. Those of a host that has started the server since are left alone.
    """

    def fence_disks_observe(self, ctxt: Any, disks: Sequence[str], fence_id: str) -> None:
        """Note the clients of all disks of the servers of some disks.

        The caller makes sure that the server is not being moved, after this has returned.

        :param disks: ids of disks that have to exist
        """
        self._worker(ctxt, 'note', images=self._images(ctxt, disks), fence_id=fence_id)

    def fence_disks(self, ctxt: Any, disks: Sequence[str], fence_id: str,
                    expires_at: float) -> builtins.list[base.View]:
        """Fence the hosts of the clients that were noted. May be repeated.

        :param disks: ids of disks that have to exist
        :param expires_at: seconds since the epoch after which no caller waits for the answer
        :returns: for each disk of the servers the number of clients that are fenced
        :raises SuperpositionConflict: a disk does not exist, or was open on several hosts, or on
            none that is known
        :raises VolumeSuperposed: a disk is in a superposition
        """
        if time.time() > expires_at:
            raise exception.SuperpositionUnavailable(
                f'the request to fence disks {", ".join(disks)} is too old: repeat it')
        images = self._images(ctxt, disks)
        noted = self._worker(ctxt, 'noted', images=images, fence_id=fence_id)
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
        counts = self._worker(ctxt, 'shut_out', fence_id=fence_id, targets=[
            {'image': image, 'addresses': hosts, 'clients': 0} for image in images])
        LOG.info('addresses %s are shut out of disks %s by fence %s: %d clients',
                 ', '.join(hosts), ', '.join(images), fence_id, sum(counts))
        return [{'disk': image.rpartition('/')[2], 'clients': count}
                for image, count in zip(images, counts, strict=True)]

    def _images(self, ctxt: Any, disks: Sequence[str]) -> builtins.list[str]:
        """Return the worker's names of all disks of the servers of some disks.

        :raises SuperpositionConflict: one of the disks does not exist
        """
        named = self._disk_images(disks)
        images: builtins.list[str] = []
        for server_id in dict.fromkeys(server_disks.ServerDisk.parse(disk).server_id
                                       for disk in disks):
            # Nova's names of disks all begin alike, also those of releases to come.
            images += self._worker(ctxt, 'images', prefix=self._driver.disk_image(
                server_disks.ServerDisk(server_id, 'disk')))
        if missing := [image for image in named if image not in images]:
            raise exception.SuperpositionConflict(
                f'there is no RBD image {", ".join(missing)}: the disks of the server are on its '
                f'host, or in another pool')
        return images
