# SPDX-License-Identifier: Apache-2.0
"""Requests of the API to a volume service about the superpositions of its back end."""

import builtins
from collections.abc import Mapping, Sequence
import time
from typing import Any

from oslo_log import log as logging

from specreds_cinder import eligibility
from specreds_cinder import exception
from specreds_cinder.superposition import states
from specreds_cinder.volume import base
from specreds_cinder.volume import disk_fence
from specreds_cinder.volume import encryption
from specreds_cinder.volume import housekeeping
from specreds_cinder.volume import reports

LOG = logging.getLogger(__name__)


class BackendSuperpositions(housekeeping.Housekeeping, disk_fence.DiskFence):
    """The superpositions of one back end; serves every method that ``endpoint.METHODS`` names."""

    def get(self, ctxt: Any, superposition_id: str, brief: bool = False) -> base.View:
        """Return the part of a superposition that is on this back end.

        :param brief: leave out the sizes of overlays, each of which takes a sweep
        :raises SuperpositionNotFound: no part of it is
        """
        return self._view(self._show(ctxt, superposition_id, brief=brief))

    def list(self, ctxt: Any, brief: bool) -> builtins.list[base.View]:
        """Return all superpositions that have a part on this back end.

        Of one whose record cannot be read, there are only its id and the state ``unknown``.

        :param brief: leave out the sizes of overlays, each of which takes a sweep
        """
        return [{'id': shown['id'], 'state': states.UNKNOWN} if shown['state'] == states.UNKNOWN
                else self._view(shown) if brief else self.get(ctxt, shown['id'], brief=False)
                for shown in self._worker(ctxt, 'list')]

    def eligibility(self, ctxt: Any, volume_ids: Sequence[str],
                    disks: Sequence[str] = (),
                    fenced_host: str | None = None) -> builtins.list[dict[str, Any]]:
        """Report for each volume whether it can be superposed, and why not.

        :param disks: ids of disks of servers
        :param fenced_host: report as well whether this host can be shut out of the volumes
        """
        if disks:
            stored = self._worker(ctxt, 'eligibility', images=self._disk_images(disks))
            return [{'disk': disk, 'eligible': not against, 'reasons': against,
                     'cluster': self._driver.location[0]}
                    for disk, against in zip(disks, stored, strict=True)]
        volumes = eligibility.volumes(volume_ids)
        stored = self._worker(ctxt, 'eligibility', images=[volume.name for volume in volumes],
                              encrypted=encryption.images(volumes),
                              read=eligibility.images_read(volumes))
        objections = eligibility.objections(volumes)
        reasons = {volume.id: [each.reason for each in objections if each.volume_id == volume.id]
                   + more for volume, more in zip(volumes, stored, strict=True)}
        # The note of a superposition and its record say the same.
        return [{'volume_id': volume.id, 'eligible': not reasons[volume.id],
                 'reasons': builtins.list(dict.fromkeys(reasons[volume.id])),
                 'fenceable': fenced_host is None or self._fenceable(ctxt, volume, fenced_host),
                 'movable': eligibility.movable(volume), 'cluster': self._driver.location[0]}
                for volume in volumes]

    def connection(self, ctxt: Any, superposition_id: str, connector: Mapping[str, Any],
                   disks: bool = False) -> builtins.list[dict[str, Any]]:
        """Return the connections to the second versions of the volumes on this back end.

        :param disks: only those of disks of servers, also if the second version is the real one
        """
        shown = self._show(ctxt, superposition_id)
        if disks:
            return self._disk_connections(ctxt, connector, shown)
        if shown['state'] in states.DECIDED:
            raise base.conflict(shown, 'the second version is the real one: attach the volumes')
        if shown['state'] != states.SUPERPOSED:
            raise base.conflict(shown, 'its second version can be opened only while it is '
                                       'superposed')
        volumes = eligibility.volumes(builtins.list(shown['labels']['volumes'].values()))
        return [{'volume_id': volume.id, **self._complete(
                    ctxt, volume, self._driver.child_connection(volume, connector, shown))}
                for volume in volumes] + self._disk_connections(ctxt, connector, shown)

    def _disk_connections(self, ctxt: Any, connector: Mapping[str, Any],
                          shown: base.View) -> builtins.list[dict[str, Any]]:
        """Return the connections to the second versions of disks of servers.

        :raises SuperpositionConflict: no second version of them can be opened
        """
        if not (wanted := base.disks_of(shown)):
            return []
        if shown['state'] in states.THROUGH_OVERLAY:
            # A merge is put off until the caller has opened the overlays.
            shown = self._worker(ctxt, 'hand_out', superposition=shown['id'])
        if shown['state'] not in (states.SUPERPOSED, *states.THROUGH_OVERLAY):
            raise base.conflict(shown, 'there is no second version to be opened')
        return [{'disk': disk.id, **self._driver.disk_connection(disk, connector, shown)}
                for disk in wanted]

    def current_connection(self, ctxt: Any, volume_id: str, connector: Mapping[str, Any],
                           hand_out: bool) -> dict[str, Any]:
        """Return the connection that ``initialize_connection`` would return.

        :param hand_out: the caller may open the volume, so its merge is put off
        """
        del ctxt
        return self._driver.current_connection(base.read_volume(volume_id), connector,
                                               hand_out=hand_out)

    def create(self, ctxt: Any, superposition_id: str, volumes: Sequence[Mapping[str, str]],
               server_id: str | None, reason: str, expires_at: float,
               disks: Sequence[Mapping[str, str]] = ()) -> base.View:
        """Put volumes into superposition, on all of their back ends: all of them, or none.

        :param volumes: each with its id and its back end's host; the first one is here
        :param expires_at: seconds since the epoch after which no caller waits for the answer
        :param disks: the same of disks of servers; without volumes, the first one is here
        :raises VolumesNotEligible: a back end is in another Ceph cluster, and nothing is changed
        """
        if time.time() > expires_at:
            raise exception.SuperpositionUnavailable(
                f'the request for superposition {superposition_id} is too old: repeat it')
        began = time.monotonic()
        volume_ids, disk_ids = _by_host(volumes), _by_host(disks)
        hosts = builtins.list(dict.fromkeys([*volume_ids, *disk_ids]))
        request = {'superposition_id': superposition_id, 'members': hosts,
                   'server_id': server_id, 'reason': reason}
        requested = {'id': superposition_id, 'server_id': server_id, 'reason': reason,
                     'volumes': [{'id': each['id']} for each in (*volumes, *disks)],
                     'user_id': ctxt.user_id, 'project_id': ctxt.project_id}
        with self._notified(ctxt, 'create', requested) as end:
            self._check_cluster(ctxt, hosts[1:])
            try:
                views = self._on_each(ctxt, hosts, 'create', lambda host: {
                    **request, 'volume_ids': volume_ids.get(host, []),
                    'disks': disk_ids.get(host, [])})
            except Exception:
                with self._tolerate_absence(self._host, superposition_id):
                    self._drop_all(ctxt, superposition_id, hosts)
                raise
            view = reports.join(views)
            view['durations'] = {'storage': views[0]['storage_s'],
                                 'total': time.monotonic() - began}
            end.update(view=view, durations=view['durations'])
        LOG.info('superposition %s of volumes %s for server %s took %.0f ms', superposition_id,
                 ', '.join(each['id'] for each in (*volumes, *disks)), server_id,
                 view['durations']['total'] * 1e3)
        return view

    def _check_cluster(self, ctxt: Any, hosts: Sequence[str]) -> None:
        """Make sure that other back ends are in the Ceph cluster of this one.

        :raises VolumesNotEligible: one is not
        """
        for host in hosts:
            if self._peers.merging(ctxt, host)['fsid'] != self._driver.location[0]:
                reason = (f'back end {host} is in another Ceph cluster than {self._host}: a '
                          f'superposition is in one cluster')
                raise exception.VolumesNotEligible(
                    f'these volumes cannot be superposed together: {reason}', reasons=(reason,))

    def check(self, ctxt: Any, superposition_id: str) -> base.View:
        """Sweep the volumes of this back end."""
        return self.member_check(ctxt, superposition_id)

    def merge(self, ctxt: Any, superposition_id: str, step: str) -> None:
        """Record a step of a hypervisor's merge, or start a merge by this service.

        :param step: begin, end or offline
        """
        shown = self._show(ctxt, superposition_id)
        if shown['state'] not in states.DECIDED:
            raise base.conflict(shown, 'only a promoted version can be merged')
        if step == 'offline':
            self._start_merge(ctxt, shown)
        else:
            self._worker(ctxt, f'{step}_merge', superposition=superposition_id)
            ended = step == 'end' or shown['state'] == states.MERGED
            self._bandwidth.note(shown, states.MERGED if ended else states.MERGING)


def _by_host(items: Sequence[Mapping[str, str]]) -> dict[str, builtins.list[str]]:
    """Return the ids of volumes or disks by back end."""
    ids_by_host: dict[str, builtins.list[str]] = {}
    for item in items:
        ids_by_host.setdefault(item['host'], []).append(item['id'])
    return ids_by_host
