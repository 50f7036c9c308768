# SPDX-License-Identifier: Apache-2.0
"""Cinder's superpositions, as the engine uses them."""

from collections.abc import Mapping, Sequence
import math
import re
from typing import Any
import uuid

from specreds_cinder.superposition.truth import states
from specreds_nova.engine import exception
from specreds_nova.engine import model
from specreds_nova.engine.clients import rest

_VERSION = 'superposition 1.0, volume 3.70'
_BASE = '/os-superpositions'
_REASON = re.compile(r'recovery ([0-9a-f-]{36})\b')
# The id of no superposition: Cinder looks for it neither in its database nor in Ceph.
_NONE = 'none'
# A disk of no server.
_NO_DISK = f'{uuid.UUID(int=0)}_disk'
# Volumes in one query, so that the URL is not too long for any web server.
_VOLUMES_PER_QUERY = 50
_LONGEST_REASON = 255
_APART = ('it is in another Ceph cluster than the first one, or its back end has another '
          'rbd_user: a superposition is made by one user of one cluster')
# Seconds that Cinder may take to superpose volumes or to collapse a superposition: a sweep takes
# about a second for every 100 GiB. A request that takes longer is repeated.
PATIENCE_S = 60.0


class Volumes:
    """Cinder. May be used by several threads."""

    def __init__(self, session: rest.Session) -> None:
        self._cinder = rest.Service(session, 'Cinder', 'block-storage', _VERSION)

    def warm_up(self) -> None:
        """Get a token and find Cinder, before a recovery needs them."""
        # Not by a list, for which every back end reads all of its superpositions.
        try:
            self._cinder.get(f'{_BASE}/{_NONE}', sizes='0')
        except exception.NotFound as exc:
            # A Cinder without superpositions answers 404 as well, with another kind of error.
            if b'itemNotFound' not in getattr(exc.__cause__, 'content', b''):
                raise

    def superpose(self, server: model.Server, recovery_id: str, reason: str,
                  dead_host: str | None = None) -> str:
        """Put all volumes of a server into superposition, and return its id. May be repeated.

        :param dead_host: the server's host, if it is dead as a fact: it is shut out at once
        :raises exception.Merging: the volumes are to be merged after an earlier recovery
        """
        if not server.volumes and not server.disks:
            raise exception.Refused(f'server {server.id} has no volumes')
        request: dict[str, Any] = {
            'server_id': server.id,
            'reason': f'recovery {recovery_id}: {reason}'[:_LONGEST_REASON]}
        # Cinder accepts no empty list.
        if server.volumes:
            request['volume_ids'] = list(server.volumes)
        if server.disks:
            request['disks'] = list(server.disks)
        if dead_host is not None:
            request['dead_host'] = dead_host
        try:
            made = self._cinder.post(_BASE, {'superposition': request}, timeout=PATIENCE_S)
        except (exception.Refused, exception.Unreachable) as exc:
            # The superposition may exist already, or may have been created all the same.
            return self._found(server, recovery_id, exc)
        except exception.NotFound as exc:
            raise exception.Refused(str(exc)) from exc
        return str(made['superposition']['id'])

    def _found(self, server: model.Server, recovery_id: str, failure: Exception) -> str:
        """Return the superposition of a recovery, and drop one of an earlier recovery.

        :raises Exception: the failure, if there is no superposition
        """
        answer = self._cinder.get(_BASE + '/detail', all_tenants='1', server_id=server.id)
        for superposition in answer['superpositions']:
            mine = _recovery(superposition) == recovery_id
            if superposition['state'] in states.DECIDED:
                promoted = superposition['state'] == states.PROMOTED
                raise exception.Merging(
                    f'superposition {superposition["id"]} of server {server.id} is '
                    f'{superposition["state"]}: it has to be merged before there can be '
                    f'another one',
                    _recovery(superposition) if promoted else None) from failure
            if mine and superposition['state'] == states.SUPERPOSED:
                return str(superposition['id'])
            if mine or superposition['state'] == states.ABORTING:
                raise exception.Unreachable(
                    f'superposition {superposition["id"]} is {superposition["state"]}'
                ) from failure
            if _recovery(superposition) is not None:
                # Its recovery has ended: a server has one active recovery.
                self.drop(str(superposition['id']))
                raise exception.Unreachable(
                    f'superposition {superposition["id"]} is being dropped') from failure
        raise failure

    def state(self, superposition_id: str) -> str | None:
        """Return the state of a superposition; None if it does not exist."""
        shown = self._show(superposition_id, sizes='0')
        if shown is None:
            return None
        if shown['state'] == 'unknown':
            raise exception.Unreachable(
                f'the volume service of superposition {superposition_id} does not answer')
        return str(shown['state'])

    def dirty(self, superposition_id: str) -> bool:
        """Return whether the primary has written since the cut."""
        try:
            report = self._cinder.post(f'{_BASE}/{superposition_id}/check')
        except exception.NotFound as exc:
            raise exception.Refused(str(exc)) from exc
        return bool(report['check']['dirty'])

    def collapse(self, superposition_id: str) -> str:
        """Have Cinder decide, with a durable backup.

        :returns: ``promoted``, ``dirty``, ``late-dirty`` or ``unproven``; or ``gone`` if the
            superposition does not exist, so that the outcome is unknown
        """
        request = {'collapse': {'decision': 'promote', 'backup_durable': True}}
        try:
            answer = self._cinder.post(f'{_BASE}/{superposition_id}/collapse', request,
                                       timeout=PATIENCE_S)['collapse']
        except exception.NotFound:
            return 'gone'
        if answer['outcome'] is not None:
            return str(answer['outcome'])
        shown = self._show(superposition_id, sizes='0')
        if shown is None or (shown['state'], shown['outcome']) == (
                states.ABORTING, states.ABORTED):
            return 'gone'
        # Of several that are decided together, one has an outcome before the others.
        if shown['outcome'] is not None and shown['state'] != states.COLLAPSING:
            return str(shown['outcome'])
        raise exception.Unreachable(f'superposition {superposition_id} is {shown["state"]}: '
                                    f'Cinder has not decided yet')

    def drop(self, superposition_id: str) -> None:
        """Drop the backup's version, if it exists."""
        try:
            self._cinder.ask('DELETE', f'{_BASE}/{superposition_id}', timeout=PATIENCE_S)
        except exception.NotFound:
            return

    def written(self, superposition_id: str) -> int | None:
        """Return how many bytes the backup has written; None if that is unknown.

        :raises exception.NotFound: the superposition does not exist
        """
        shown = self._show(superposition_id)
        if shown is None:
            raise exception.NotFound(f'there is no superposition {superposition_id}')
        return None if shown['overlay_bytes'] is None else int(shown['overlay_bytes'])

    def ours(self) -> Mapping[str, str]:
        """Return the undecided superpositions of recoveries, as recovery by superposition."""
        superpositions = self._cinder.pages(_BASE + '/detail', 'superpositions', all_tenants='1',
                                            state=states.SUPERPOSED)
        return {str(superposition['id']): recovery for superposition in superpositions
                if (recovery := _recovery(superposition)) is not None}

    def observe(self, server: model.Server, host: str, recovery_id: str) -> None:
        """Have the clients of a server's volumes noted, for a fence that may follow."""
        self._fence(server, host, recovery_id, 'observe')

    def fence(self, server: model.Server, host: str, recovery_id: str) -> int:
        """Shut a host out of a server's volumes, which have no superposition. May be repeated.

        :returns: number of clients that are fenced
        :raises exception.Refused: no client was fenced by this call
        """
        volumes = self._fence(server, host, recovery_id, 'close')['volumes']
        return sum(int(volume['clients']) for volume in volumes)

    def _fence(self, server: model.Server, host: str, recovery_id: str,
               step: str) -> dict[str, Any]:
        request: dict[str, Any] = {'fence_id': recovery_id, 'host': host, 'step': step}
        if server.volumes:
            request['volume_ids'] = list(server.volumes)
        if server.disks:
            request.update(server_id=server.id, disks=list(server.disks))
        try:
            answer: dict[str, Any] = self._cinder.post(f'{_BASE}/fence', {'fence': request},
                                                       timeout=PATIENCE_S)['fence']
        except exception.NotFound as exc:
            raise exception.Refused(str(exc)) from exc
        return answer

    def release(self, boots: Sequence[Mapping[str, Any]]) -> list[str]:
        """Release the fenced clients that boots of their hosts have ended; return them.

        :param boots: for each host its addresses, and the seconds since its boot
        """
        # Cinder counts back from the moment at which it receives the request.
        latest = [{'addresses': boot['addresses'],
                   'age_seconds': math.ceil(boot['age_seconds'] + PATIENCE_S)}
                  for boot in boots]
        answer = self._cinder.post(f'{_BASE}/release', {'release': {'boots': latest}},
                                   timeout=PATIENCE_S)
        return [str(client) for client in answer['release']['clients']]

    def eligibility(self, server: model.Server) -> dict[str, model.Eligibility]:
        """Return what a recovery can do with a server's volumes, and with its disks in RBD.

        A superposition is in one Ceph cluster: the first volume's.

        :returns: by the id of a volume, or the name of the image of a disk
        """
        wanted: list[dict[str, Sequence[str]]] = [
            {'volume_id': server.volumes[first:first + _VOLUMES_PER_QUERY]}
            for first in range(0, len(server.volumes), _VOLUMES_PER_QUERY)]
        if disks := server.disk_images():
            wanted.append({'disk': disks})
        try:
            entries = [entry for query in wanted for entry in self._cinder.get(
                f'{_BASE}/eligibility', **query, host=server.host)['eligibility']]
        except exception.NotFound as exc:
            raise exception.Refused(str(exc)) from exc
        # A back end that does not answer names no cluster.
        clusters = [entry.get('cluster') for entry in entries]
        first = next(filter(None, clusters), None)
        return {entry.get('volume_id') or entry['disk']: model.Eligibility(
            (*entry['reasons'], *([_APART] if cluster not in (None, first) else [])),
            entry['fenceable'], entry['movable'])
            for entry, cluster in zip(entries, clusters, strict=True)}

    def superposes_disks(self) -> bool:
        """Return whether Cinder superposes disks that Nova keeps in RBD.

        Cinder can shut no host out of such a disk if no back end is configured for these disks.
        """
        try:
            [entry] = self._cinder.get(
                f'{_BASE}/eligibility', disk=_NO_DISK, host=_NONE)['eligibility']
        except (exception.NotFound, exception.Refused):
            return False
        return bool(entry['fenceable'])

    def _show(self, superposition_id: str, **query: str) -> dict[str, Any] | None:
        try:
            shown: dict[str, Any] = self._cinder.get(
                f'{_BASE}/{superposition_id}', **query)['superposition']
        except exception.NotFound:
            return None
        return shown


def _recovery(shown: Mapping[str, Any]) -> str | None:
    match = _REASON.match(shown.get('reason') or '')
    return match and match[1]
