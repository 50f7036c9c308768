# SPDX-License-Identifier: Apache-2.0
"""The fence of a host's clients of volumes that have no superposition."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cinder import context
from cinder import exception as cinder_exception
from cinder import objects
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import server_disks
from specreds_cinder.service import backend as backends
from specreds_cinder.service import eligibility
from specreds_cinder.service import hints
from specreds_cinder.service import rpcapi
from specreds_cinder.superposition.ceph import address

LOG = logging.getLogger(__name__)

# Volumes of a host that are looked at, to learn from which addresses the host uses Ceph.
_NEIGHBOURS = 16
# The id of no fence: only clients that Ceph lists are known.
_NO_FENCE = ''


def fence_observe(backend: backends.Backend, ctxt: Any, volume_ids: Sequence[str],
                  fence_id: str) -> None:
    """Note the clients of volumes, so that a later fence knows those that hang by then."""
    names = [volume.name for volume in eligibility.volumes(volume_ids)]
    backend.call(ctxt, 'note', images=names, fence_id=fence_id)


def fence_host(backend: backends.Backend, ctxt: Any, volume_ids: Sequence[str], fenced_host: str,
               fence_id: str) -> list[backends.View]:
    """Fence the clients of a host, and of no other one. May be repeated.

    :param fenced_host: the host, as the connectors of attachments name it
    :returns: for each volume the number of clients that are fenced
    :raises SuperpositionConflict: a volume is not attached on that host, or the host's clients
        cannot be told from clients of other hosts
    :raises VolumeSuperposed: a volume is in a superposition
    """
    with hints.lock(*volume_ids):
        volumes = eligibility.volumes(volume_ids)
        targets = [_target(backend, ctxt, volume, fenced_host, fence_id) for volume in volumes]
        counts = backend.call(ctxt, 'shut_out', targets=targets, fence_id=fence_id)
        eligibility.restore(volumes)
    LOG.info('host %s is shut out of volumes %s by fence %s: %d clients',
             fenced_host, ', '.join(volume_ids), fence_id, sum(counts))
    return [{'volume_id': volume.id, 'clients': count}
            for volume, count in zip(volumes, counts, strict=True)]


def release_booted(backend: backends.Backend, ctxt: Any,
                   boots: Sequence[Mapping[str, Any]]) -> list[str]:
    """Release the fenced clients of this back end that boots of their hosts have ended.

    :param boots: for each host its addresses, and the time of its boot in ISO 8601
    :returns: the clients that were released
    """
    released: list[str] = backend.call(ctxt, 'release_booted', boots=list(boots))
    if released:
        LOG.info('released fenced clients %s: their hosts have booted since the fence',
                 ', '.join(released))
    return released


def fenceable(backend: backends.Backend, ctxt: Any, volume: objects.Volume, host: str) -> bool:
    """Return whether :func:`fence_host` can shut a host out of a volume at the moment."""
    try:
        target = _target(backend, ctxt, volume, host, _NO_FENCE)
    except exception.SuperpositionConflict:
        return False
    if not target['clients']:
        return True
    [clients] = backend.call(ctxt, 'clients', images=[volume.name], fence_id=_NO_FENCE)
    known = [client for client in clients if address.host(client) in target['addresses']]
    return len(known) >= int(target['clients'])


def _target(backend: backends.Backend, ctxt: Any, volume: objects.Volume, host: str,
            fence_id: str) -> dict[str, Any]:
    """Return the clients to fence, as the worker takes them.

    :raises SuperpositionConflict: the volume is not attached on that host
    """
    hosts = attached_hosts(volume.id)
    if host not in hosts:
        raise exception.SuperpositionConflict(f'volume {volume.id} is not attached on host {host}')
    if set(hosts) == {host}:
        return {'image': volume.name, 'addresses': None, 'clients': 0}
    return {'image': volume.name, 'addresses': sorted(_addresses(backend, ctxt, host, fence_id)),
            'clients': hosts.count(host)}


def _addresses(backend: backends.Backend, ctxt: Any, host: str, fence_id: str) -> set[str]:
    """Return the addresses from which a host uses Ceph.

    These are the addresses of its connectors, and of the clients of volumes that are
    attached on no other host: storage often has a network of its own. Clients that hang have
    been forgotten by Ceph unless they were noted for the fence.
    """
    attachments = objects.VolumeAttachmentList.get_all_by_host(context.get_admin_context(), host)
    addresses = {attachment.connector['ip'] for attachment in attachments
                 if (attachment.connector or {}).get('ip')}
    own = [volume.name for volume
           in _own(backend, (attachment.volume_id for attachment in attachments))
           if set(attached_hosts(volume.id)) == {host}][:_NEIGHBOURS]
    if own:
        addresses |= {address.host(client) for clients
                      in backend.call(ctxt, 'clients', images=own, fence_id=fence_id)
                      for client in clients}
    return addresses


def _own(backend: backends.Backend, volume_ids: Iterable[str]) -> Iterable[objects.Volume]:
    """Return the volumes that are on this back end."""
    for volume_id in dict.fromkeys(volume_ids):
        try:
            volume = backends.read_volume(volume_id)
        except cinder_exception.VolumeNotFound:
            continue
        if rpcapi.backend(volume) == backend.host:
            yield volume


def attached_hosts(volume_id: str) -> list[str]:
    """Return the host of each attachment of a volume that has one."""
    return [attachment.attached_host for attachment
            in objects.VolumeAttachmentList.get_all_by_volume_id(
                context.get_admin_context(), volume_id) if attachment.attached_host]


def fence_disks_observe(backend: backends.Backend, ctxt: Any, disks: Sequence[str],
                        fence_id: str) -> None:
    """Note the clients of all disks of the servers of some disks.

    The caller makes sure that the server is not being moved, after this has returned.

    :param disks: ids of disks that have to exist
    """
    backend.call(ctxt, 'note', images=_disk_images(backend, ctxt, disks), fence_id=fence_id)


def fence_disks(backend: backends.Backend, ctxt: Any, disks: Sequence[str], fence_id: str,
                ) -> list[backends.View]:
    """Fence the hosts of the clients that were noted. May be repeated.

    :param disks: ids of disks that have to exist
    :returns: for each disk of the servers the number of clients that are fenced
    :raises SuperpositionConflict: a disk does not exist, or was open on several hosts, or on
        none that is known
    :raises VolumeSuperposed: a disk is in a superposition
    """
    images = _disk_images(backend, ctxt, disks)
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


def _disk_images(backend: backends.Backend, ctxt: Any, disks: Sequence[str]) -> list[str]:
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
