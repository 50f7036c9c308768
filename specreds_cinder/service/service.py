# SPDX-License-Identifier: Apache-2.0
"""Requests of the API to a volume service about the superpositions of its back end."""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import time
from typing import Any

from cinder import objects
from oslo_log import log as logging

from specreds_cinder import exception
from specreds_cinder import server_disks
from specreds_cinder.service import at_rest
from specreds_cinder.service import backend as backends
from specreds_cinder.service import decisions
from specreds_cinder.service import eligibility
from specreds_cinder.service import hints
from specreds_cinder.service import host_fence
from specreds_cinder.service import merging
from specreds_cinder.service import rpcapi
from specreds_cinder.superposition.truth import states

LOG = logging.getLogger(__name__)


def get(backend: backends.Backend, ctxt: Any, superposition_id: str,
        brief: bool = False) -> backends.View:
    """Return a superposition that has volumes on this back end.

    :param brief: leave out the sizes of overlays, each of which takes a sweep
    :raises SuperpositionNotFound: it has none
    """
    return backend.view(backend.show(ctxt, superposition_id, brief=brief))


def list_all(backend: backends.Backend, ctxt: Any) -> list[backends.View]:
    """Return all superpositions that have volumes on this back end.

    They have no sizes of overlays. Of one whose record cannot be read, there are only its id and
    the state ``unknown``.
    """
    return [{'id': shown['id'], 'state': states.UNKNOWN} if shown['state'] == states.UNKNOWN
            else backend.view(shown) for shown in backend.call(ctxt, 'list')]


def examine(backend: backends.Backend, ctxt: Any, volume_ids: Sequence[str],
            disks: Sequence[str] = (), fenced_host: str | None = None) -> list[dict[str, Any]]:
    """Report for each volume whether it can be superposed, and why not.

    :param disks: ids of disks of servers
    :param fenced_host: report as well whether this host can be shut out of the volumes
    """
    fsid, user, _pool = backend.driver.location
    cluster = f'{fsid}/{user}'
    if disks:
        stored = backend.call(ctxt, 'eligibility', images=backend.disk_images(disks))
        return [{'disk': disk, 'eligible': not against, 'reasons': against,
                 'cluster': cluster}
                for disk, against in zip(disks, stored, strict=True)]
    volumes = eligibility.volumes(volume_ids)
    stored = backend.call(ctxt, 'eligibility', images=[volume.name for volume in volumes],
                          **_kinds({volume.name: volume for volume in volumes}))
    objections = eligibility.objections(volumes)
    reasons = {volume.id: [each.reason for each in objections if each.volume_id == volume.id]
               + more for volume, more in zip(volumes, stored, strict=True)}
    # The note of a superposition and its record say the same.
    return [{'volume_id': volume.id, 'eligible': not reasons[volume.id],
             'reasons': list(dict.fromkeys(reasons[volume.id])),
             'fenceable': fenced_host is None or host_fence.fenceable(
                 backend, ctxt, volume, fenced_host),
             'movable': at_rest.movable(volume), 'cluster': cluster}
            for volume in volumes]


def connection(backend: backends.Backend, ctxt: Any, superposition_id: str,
               connector: Mapping[str, Any], disks: bool = False) -> list[dict[str, Any]]:
    """Return the connections to the second versions of the volumes on this back end.

    :param disks: only connections to disks of servers, also if the second version is the real one
    """
    shown = backend.show(ctxt, superposition_id)
    if disks:
        return _disk_connections(backend, ctxt, connector, shown)
    if shown['state'] in states.DECIDED:
        raise backends.conflict(shown, 'the second version is the real one: attach the volumes')
    if shown['state'] != states.SUPERPOSED:
        raise backends.conflict(
            shown, 'its second version can be opened only while it is superposed')
    volumes = [volume for volume in eligibility.volumes(
        list(shown['labels']['volumes'].values())) if rpcapi.backend(volume) == backend.host]
    return [{'volume_id': volume.id, **backend.complete(
                ctxt, volume, backend.driver.child_connection(volume, connector, shown))}
            for volume in volumes] + _disk_connections(backend, ctxt, connector, shown)


def _disk_connections(backend: backends.Backend, ctxt: Any, connector: Mapping[str, Any],
                      shown: backends.View) -> list[dict[str, Any]]:
    """Return the connections to the second versions of disks of servers.

    :raises SuperpositionConflict: no second version of them can be opened
    """
    wanted = backends.disks_of(shown)
    if not wanted or server_disks.configured() != backend.host:
        return []
    if shown['state'] in states.THROUGH_OVERLAY:
        # A merge is put off until the caller has opened the overlays.
        shown = backend.call(ctxt, 'hand_out', superposition=shown['id'])
    if shown['state'] not in (states.SUPERPOSED, *states.THROUGH_OVERLAY):
        raise backends.conflict(shown, 'there is no second version to be opened')
    return [{'disk': disk.id, **backend.driver.disk_connection(disk, connector, shown)}
            for disk in wanted]


def current_connection(backend: backends.Backend, ctxt: Any, volume_id: str,
                       connector: Mapping[str, Any], hand_out: bool) -> dict[str, Any]:
    """Return the connection that ``initialize_connection`` would return.

    :param hand_out: the caller may open the volume, so its merge is put off
    """
    del ctxt
    return backend.driver.current_connection(backends.read_volume(volume_id), connector,
                                             hand_out=hand_out)


def create(backend: backends.Backend, ctxt: Any, superposition_id: str,
           volumes: Sequence[Mapping[str, str]], server_id: str | None, reason: str,
           disks: Sequence[Mapping[str, str]] = (), dead_host: str | None = None
           ) -> backends.View:
    """Put volumes into superposition: all of them, or none.

    :param volumes: each with its id and its back end's host; the first one is here
    :param disks: the same of disks of servers; without volumes, the first one is here
    :param dead_host: a host that is dead as a fact, as the connectors of attachments name it
    :raises VolumesNotEligible: a back end is in another Ceph cluster, or another user of it, and
        nothing is changed
    """
    began = time.monotonic()
    members = list(dict.fromkeys(each['host'] for each in (*volumes, *disks)))
    requested = {'id': superposition_id, 'server_id': server_id, 'reason': reason,
                 'volumes': [{'id': each['id']} for each in (*volumes, *disks)],
                 'user_id': ctxt.user_id, 'project_id': ctxt.project_id}
    with backend.notified(ctxt, 'create', requested) as end:
        pools = _pools(backend, ctxt, members[1:])
        try:
            shown, seconds = _superpose(
                backend, ctxt, superposition_id,
                {each['id']: pools.get(each['host'], '') for each in volumes},
                [backend.driver.disk_image(server_disks.ServerDisk.parse(each['id']))
                 for each in disks],
                server_id=server_id, reason=reason, members=members, dead_host=dead_host)
        except Exception:
            # It may exist, although its worker has not answered in time.
            with contextlib.suppress(exception.SuperpositionError):
                decisions.drop(backend, ctxt, superposition_id)
            raise
        view = backend.view(shown)
        view['durations'] = {'storage': seconds, 'total': time.monotonic() - began}
        end.update(view=view, durations=view['durations'])
    LOG.info('superposition %s of volumes %s for server %s took %.0f ms', superposition_id,
             ', '.join(each['id'] for each in (*volumes, *disks)), server_id,
             view['durations']['total'] * 1e3)
    return view


def location(backend: backends.Backend, ctxt: Any) -> dict[str, str]:
    """Return where the volumes of the back end are."""
    del ctxt
    where: dict[str, str] = backend.driver.location._asdict()
    return where


def _superpose(backend: backends.Backend, ctxt: Any, superposition_id: str,
               pools: Mapping[str, str], disks: Sequence[str], *, server_id: str | None,
               reason: str, members: Sequence[str], dead_host: str | None
               ) -> tuple[backends.View, float]:
    """Return a new superposition, and the seconds that Ceph took.

    :param pools: by volume id, with a slash at the end; empty for the pool of this back end
    :param disks: the worker's names of disks of servers
    """
    with hints.lock(*pools):
        # Read under the lock: its last holder may have changed the volumes.
        volumes = eligibility.volumes(list(pools))
        eligibility.check(volumes)
        images = {pools[volume.id] + volume.name: volume for volume in volumes}
        hints.put(pools, superposition_id)
        # Cinder does not know on which host a disk of a server is: the caller does.
        dead = dead_host is not None and all(
            set(host_fence.attached_hosts(volume.id)) == {dead_host} for volume in volumes)
        began = time.monotonic()
        shown = backend.call(
            ctxt, 'super', superposition=superposition_id, images=[*images, *disks],
            reason=reason, server_id=server_id, dead=dead, **_kinds(images), labels={
                'volumes': {volume.name: volume.id for volume in volumes},
                'members': list(members), 'user_id': ctxt.user_id,
                'project_id': volumes[0].project_id if volumes else None,
                'request_id': ctxt.request_id, **({'dead_host': dead_host} if dead else {})})
    return shown, time.monotonic() - began


def _kinds(images: Mapping[str, objects.Volume]) -> dict[str, list[str]]:
    """Return the images that servers open with a key, and those that jobs of Cinder read.

    :param images: volumes by the worker's names of their images
    """
    return {'encrypted': [name for name, volume in images.items() if volume.encryption_key_id],
            'read': [name for name, volume in images.items() if at_rest.read(volume)]}


def _pools(backend: backends.Backend, ctxt: Any, hosts: Sequence[str]) -> dict[str, str]:
    """Return the pool of each other back end, with a slash at the end.

    :raises VolumesNotEligible: a back end is in another Ceph cluster, or another user of it
    """
    here, pools = backend.driver.location, {}
    for host in hosts:
        other = backend.peers.call(ctxt, host, 'location')
        if (other['fsid'], other['user']) != (here.fsid, here.user):
            reason = (f'back end {host} is in another Ceph cluster than {backend.host}, or has '
                      f'another rbd_user: a superposition is made by one user of one cluster')
            raise exception.VolumesNotEligible(
                f'these volumes cannot be superposed together: {reason}', reasons=(reason,))
        pools[host] = f'{other["pool"]}/'
    return pools


def check(backend: backends.Backend, ctxt: Any, superposition_id: str) -> backends.View:
    """Sweep the volumes of a superposition."""
    report: backends.View = backend.call(ctxt, 'check', superposition=superposition_id)
    return report


def merge(backend: backends.Backend, ctxt: Any, superposition_id: str, step: str) -> None:
    """Record a step of a hypervisor's merge, or start a merge by this service.

    :param step: begin, end or offline
    """
    if step != 'offline':
        # The guest is suspended for the end: the worker alone looks at the state.
        backend.call(ctxt, f'{step}_merge', superposition=superposition_id)
        return
    shown = backend.show(ctxt, superposition_id)
    if shown['state'] not in states.DECIDED:
        raise backends.conflict(shown, 'only a promoted version can be merged')
    merging.start(backend, ctxt, shown)


# What a volume service answers, to the API and to other back ends: functions that take the back
# end, the context of the request, and the arguments of the call.
METHODS: Mapping[str, Callable[..., Any]] = {
    'get': get, 'list': list_all, 'create': create, 'check': check, 'merge': merge,
    'location': location,
    'promote': decisions.promote, 'abort': decisions.abort, 'eligibility': examine,
    'connection': connection, 'current_connection': current_connection,
    'fence_observe': host_fence.fence_observe, 'fence_host': host_fence.fence_host,
    'fence_disks_observe': host_fence.fence_disks_observe, 'fence_disks': host_fence.fence_disks,
    'release_booted': host_fence.release_booted,
}
