# SPDX-License-Identifier: Apache-2.0
"""Client of Cinder's API of superpositions, with Nova's own credentials.

A user's token is never used: nova-compute acts for the cloud here, often without any user.
"""

from collections.abc import Iterable, Mapping, Sequence
import threading
from typing import Any

from keystoneauth1 import adapter
from keystoneauth1 import exceptions
from keystoneauth1 import loading
import nova.conf

from specreds_nova import conf
from specreds_nova import exception

CONF = nova.conf.CONF
conf.register(CONF)

_COLLECTION = '/os-superpositions'
_HEADERS = {'OpenStack-API-Version': 'superposition 1.0'}
_GROUP = 'cinder'
# Seconds that Cinder may take to answer, within which a slow call of it to Ceph ends.
_TIMEOUT_S = 30
# The id of no superposition: Cinder looks for it neither in its database nor in Ceph.
_NONE = 'none'
# Short enough for a URL that any web server accepts.
_VOLUMES_PER_QUERY = 50


class CinderAPI:
    """Cinder's superpositions.

    Every method raises

    :raises SuperpositionRefused: Cinder refuses the request, and says why
    :raises SuperpositionUnknown: Cinder does not answer
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._adapter: adapter.Adapter | None = None

    def state(self, superposition_id: str) -> str | None:
        """Return the state of a superposition; None if it does not exist."""
        answer = self._call('GET', f'{_COLLECTION}/{superposition_id}?sizes=0', missing_ok=True)
        if answer is None:
            return None
        state = str(answer.json()['superposition']['state'])
        if state == 'unknown':
            raise exception.SuperpositionUnknown(
                f'the volume service of superposition {superposition_id} does not answer: try '
                f'again when it is up')
        return state

    def warm_up(self) -> None:
        """Get a token and find Cinder, before the first backup needs them."""
        # Not by a list, for which every back end reads all of its superpositions.
        self._call('GET', f'{_COLLECTION}/{_NONE}?sizes=0', missing_ok=True)

    def connections(self, superposition_id: str, connector: Mapping[str, Any]
                    ) -> dict[str, dict[str, Any]]:
        """Return the connections to the backup's version of each volume, by volume id.

        Disks that Nova keeps in RBD are among them, by the names of their images.
        """
        answer = self._call('POST', f'{_COLLECTION}/{superposition_id}/connection',
                            {'connector': dict(connector)})
        connections = {}
        for connection in answer.json()['connections']:
            if 'disk' in connection:
                connections[connection.pop('disk')] = connection
                continue
            volume_id = connection.pop('volume_id')
            # As when Nova attaches a volume: the guest finds its disks by their serial numbers.
            connections[volume_id] = {'serial': volume_id, **connection}
        return connections

    def disk_connections(self, superposition_id: str, connector: Mapping[str, Any]
                         ) -> dict[str, dict[str, Any]]:
        """Return the connections to the overlays of disks that Nova keeps in RBD, by image.

        A merge waits until these overlays are open.
        """
        answer = self._call('POST', f'{_COLLECTION}/{superposition_id}/connection',
                            {'connector': dict(connector), 'disks_only': True})
        return {connection.pop('disk'): connection
                for connection in answer.json()['connections']}

    def with_disks(self, server_id: str) -> dict[str, str]:
        """Return the states of the superpositions of disks that Nova keeps in RBD for a server.

        :returns: state by superposition
        """
        return _states(f'disks of server {server_id}', [
            shown for shown in self._existing(f'server_id={server_id}') if shown.get('disks')])

    def with_volume(self, server_id: str, volume_id: str) -> dict[str, str]:
        """Return the states of the superpositions of a server's volume, by superposition."""
        return _states(f'volume {volume_id}', self._existing(
            f'server_id={server_id}&volume_id={volume_id}'))

    def _existing(self, query: str) -> list[dict[str, Any]]:
        """Return superpositions; none of a Cinder that has no superpositions."""
        try:
            answer = self._call('GET', f'{_COLLECTION}?all_tenants=1&{query}')
            return list(answer.json()['superpositions'])
        except exception.SuperpositionRefused as exc:
            if isinstance(exc.__cause__, exceptions.NotFound):
                return []
            raise

    def merge(self, superposition_id: str, step: str) -> None:
        """Report a step of a merge to Cinder.

        :param step: begin, end or offline
        """
        self._call('POST', f'{_COLLECTION}/{superposition_id}/merge', {'merge': {'step': step}})

    def reasons(self, volume_ids: Sequence[str]) -> list[str]:
        """Return the reasons why volumes cannot be superposed; none if they can."""
        reasons: list[str] = []
        for first in range(0, len(volume_ids), _VOLUMES_PER_QUERY):
            some = volume_ids[first:first + _VOLUMES_PER_QUERY]
            query = '&'.join(f'volume_id={volume_id}' for volume_id in some)
            answer = self._call('GET', f'{_COLLECTION}/eligibility?{query}')
            reasons += [f'volume {volume["volume_id"]}: {reason}'
                        for volume in answer.json()['eligibility']
                        for reason in volume['reasons']]
        return reasons

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None, *,
              missing_ok: bool = False) -> Any:
        try:
            return self._client().request(path, method, headers=_HEADERS, json=body)
        except exceptions.NotFound as exc:
            # A wrong endpoint returns 404 as well, but not Cinder's kind of error.
            if missing_ok and exc.response is not None and 'itemNotFound' in exc.response.text:
                return None
            raise _refused(path, exc) from exc
        except exceptions.HttpError as exc:
            if exc.http_status is None or exc.http_status >= 500:
                raise _silent(path, exc) from exc
            raise _refused(path, exc) from exc
        except exceptions.ClientException as exc:
            raise _silent(path, exc) from exc

    def _client(self) -> adapter.Adapter:
        with self._lock:
            if self._adapter is None:
                auth = loading.load_auth_from_conf_options(CONF, _GROUP)
                if auth is None:
                    raise exception.SuperpositionUnknown(
                        f'nova.conf has no credentials in [{_GROUP}]: nova-compute needs those '
                        f'of a service user to request superpositions from Cinder')
                session = loading.load_session_from_conf_options(
                    CONF, _GROUP, auth=auth, timeout=_TIMEOUT_S)
                service_type, service_name, interface = CONF.cinder.catalog_info.split(':')
                template = CONF.cinder.endpoint_template
                endpoint = None
                if template:
                    endpoint = template % {'project_id': session.get_project_id()}
                self._adapter = adapter.Adapter(
                    session, service_type=service_type, service_name=service_name or None,
                    interface=interface, region_name=CONF.cinder.os_region_name,
                    endpoint_override=endpoint, connect_retries=CONF.cinder.http_retries)
            return self._adapter


def _states(what: str, listed: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the states of superpositions by id.

    :raises SuperpositionUnknown: one is unknown
    """
    states = {str(shown['id']): str(shown['state']) for shown in listed}
    if 'unknown' in states.values():
        raise exception.SuperpositionUnknown(
            f'a volume service with {what} does not answer: try again when it is up')
    return states


def _refused(path: str, exc: exceptions.HttpError) -> exception.SuperpositionRefused:
    return exception.SuperpositionRefused(f'Cinder refuses {path}: {_words(exc)}')


def _silent(path: str, exc: exceptions.ClientException) -> exception.SuperpositionUnknown:
    return exception.SuperpositionUnknown(
        f'Cinder does not answer {path} ({_words(exc)}): try again when it does')


def _words(exc: exceptions.ClientException) -> str:
    """Return Cinder's own message."""

    response: Any = getattr(exc, 'response', None)
    try:
        fault = next(iter(response.json().values()))
        return str(fault['message'])
    except (AttributeError, KeyError, TypeError, ValueError, StopIteration):
        return str(exc)
