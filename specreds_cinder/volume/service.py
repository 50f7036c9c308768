# SPDX-License-Identifier: Apache-2.0
"""Requests of the API to a volume service about the superpositions of its back end."""

from collections.abc import Callable, Mapping, Sequence
import time
from typing import Any

from oslo_log import log as logging

from specreds_cinder import at_rest
from specreds_cinder import eligibility
from specreds_cinder import exception
from specreds_cinder.superposition import states
from specreds_cinder.volume import backend as backends
from specreds_cinder.volume import decisions
from specreds_cinder.volume import disk_fence
from specreds_cinder.volume import encryption
from specreds_cinder.volume import host_fence
from specreds_cinder.volume import members
from specreds_cinder.volume import merging
from specreds_cinder.volume import reports
from specreds_cinder.volume import sets

LOG = logging.getLogger(__name__)


def get(backend: backends.Backend, ctxt: Any, superposition_id: str,
        brief: bool = False) -> backends.View:
    """Return the part of a superposition that is on this back end.

    :param brief: leave out the sizes of overlays, each of which takes a sweep
    :raises SuperpositionNotFound: no part of it is
    """
    return backend.view(backend.show(ctxt, superposition_id, brief=brief))


def list_all(backend: backends.Backend, ctxt: Any) -> list[backends.View]:
    """Return all superpositions that have a part on this back end.

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
    if disks:
        stored = backend.call(ctxt, 'eligibility', images=backend.disk_images(disks))
        return [{'disk': disk, 'eligible': not against, 'reasons': against,
                 'cluster': backend.driver.location[0]}
                for disk, against in zip(disks, stored, strict=True)]
    volumes = eligibility.volumes(volume_ids)
    stored = backend.call(ctxt, 'eligibility', images=[volume.name for volume in volumes],
                          encrypted=encryption.images(volumes),
                          read=eligibility.images_read(volumes))
    objections = eligibility.objections(volumes)
    reasons = {volume.id: [each.reason for each in objections if each.volume_id == volume.id]
               + more for volume, more in zip(volumes, stored, strict=True)}
    # The note of a superposition and its record say the same.
    return [{'volume_id': volume.id, 'eligible': not reasons[volume.id],
             'reasons': list(dict.fromkeys(reasons[volume.id])),
             'fenceable': fenced_host is None or host_fence.fenceable(
                 backend, ctxt, volume, fenced_host),
             'movable': at_rest.movable(volume), 'cluster': backend.driver.location[0]}
            for volume in volumes]


def connection(backend: backends.Backend, ctxt: Any, superposition_id: str,
               connector: Mapping[str, Any], disks: bool = False) -> list[dict[str, Any]]:
    """Return the connections to the second versions of the volumes on this back end.

    :param disks: only those of disks of servers, also if the second version is the real one
    """
    shown = backend.show(ctxt, superposition_id)
    if disks:
        return _disk_connections(backend, ctxt, connector, shown)
    if shown['state'] in states.DECIDED:
        raise backends.conflict(shown, 'the second version is the real one: attach the volumes')
    if shown['state'] != states.SUPERPOSED:
        raise backends.conflict(
            shown, 'its second version can be opened only while it is superposed')
    volumes = eligibility.volumes(list(shown['labels']['volumes'].values()))
    return [{'volume_id': volume.id, **backend.complete(
                ctxt, volume, backend.driver.child_connection(volume, connector, shown))}
            for volume in volumes] + _disk_connections(backend, ctxt, connector, shown)


def _disk_connections(backend: backends.Backend, ctxt: Any, connector: Mapping[str, Any],
                      shown: backends.View) -> list[dict[str, Any]]:
    """Return the connections to the second versions of disks of servers.

    :raises SuperpositionConflict: no second version of them can be opened
    """
    if not (wanted := backends.disks_of(shown)):
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
           disks: Sequence[Mapping[str, str]] = ()) -> backends.View:
    """Put volumes into superposition, on all of their back ends: all of them, or none.

    :param volumes: each with its id and its back end's host; the first one is here
    :param disks: the same of disks of servers; without volumes, the first one is here
    :raises VolumesNotEligible: a back end is in another Ceph cluster, and nothing is changed
    """
    began = time.monotonic()
    volume_ids, disk_ids = _by_host(volumes), _by_host(disks)
    hosts = list(dict.fromkeys([*volume_ids, *disk_ids]))
    request = {'superposition_id': superposition_id, 'members': hosts,
               'server_id': server_id, 'reason': reason}
    requested = {'id': superposition_id, 'server_id': server_id, 'reason': reason,
                 'volumes': [{'id': each['id']} for each in (*volumes, *disks)],
                 'user_id': ctxt.user_id, 'project_id': ctxt.project_id}
    with backend.notified(ctxt, 'create', requested) as end:
        _check_cluster(backend, ctxt, hosts[1:])
        try:
            views = sets.on_each(backend, ctxt, hosts, 'superpose', lambda host: {
                **request, 'volume_ids': volume_ids.get(host, []),
                'disks': disk_ids.get(host, [])})
        except Exception:
            with sets.tolerate_absence(backend.host, superposition_id):
                sets.drop_all(backend, ctxt, superposition_id, hosts)
            raise
        view = reports.join(views)
        view['durations'] = {'storage': views[0]['storage_s'], 'total': time.monotonic() - began}
        end.update(view=view, durations=view['durations'])
    LOG.info('superposition %s of volumes %s for server %s took %.0f ms', superposition_id,
             ', '.join(each['id'] for each in (*volumes, *disks)), server_id,
             view['durations']['total'] * 1e3)
    return view


def _check_cluster(backend: backends.Backend, ctxt: Any, hosts: Sequence[str]) -> None:
    """Make sure that other back ends are in the Ceph cluster of this one.

    :raises VolumesNotEligible: one is not
    """
    for host in hosts:
        if backend.peers.call(ctxt, host, 'merging')['fsid'] != backend.driver.location[0]:
            reason = (f'back end {host} is in another Ceph cluster than {backend.host}: a '
                      f'superposition is in one cluster')
            raise exception.VolumesNotEligible(
                f'these volumes cannot be superposed together: {reason}', reasons=(reason,))


def merge(backend: backends.Backend, ctxt: Any, superposition_id: str, step: str) -> None:
    """Record a step of a hypervisor's merge, or start a merge by this service.

    :param step: begin, end or offline
    """
    shown = backend.show(ctxt, superposition_id)
    if shown['state'] not in states.DECIDED:
        raise backends.conflict(shown, 'only a promoted version can be merged')
    if step == 'offline':
        merging.start(backend, ctxt, shown)
    else:
        backend.call(ctxt, f'{step}_merge', superposition=superposition_id)
        ended = step == 'end' or shown['state'] == states.MERGED
        backend.bandwidth.note(shown, states.MERGED if ended else states.MERGING)


def _by_host(items: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """Return the ids of volumes or disks by back end."""
    ids_by_host: dict[str, list[str]] = {}
    for item in items:
        ids_by_host.setdefault(item['host'], []).append(item['id'])
    return ids_by_host


# What a volume service answers, to the API and to other back ends: functions that take the back
# end, the context of the request, and the arguments of the call.
METHODS: Mapping[str, Callable[..., Any]] = {
    **members.STEPS,
    'get': get, 'list': list_all, 'create': create, 'merge': merge, 'merging': merging.merging,
    'promote': decisions.promote, 'abort': decisions.abort, 'eligibility': examine,
    'connection': connection, 'current_connection': current_connection,
    'fence_observe': host_fence.fence_observe, 'fence_host': host_fence.fence_host,
    'fence_disks_observe': disk_fence.fence_disks_observe, 'fence_disks': disk_fence.fence_disks,
    'release_booted': host_fence.release_booted,
}
