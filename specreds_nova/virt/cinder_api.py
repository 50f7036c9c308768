# SPDX-License-Identifier: Apache-2.0
"""What Cinder knows of superpositions, asked for with Nova's own credentials.

Never with a user's token: nova-compute acts on behalf of the cloud here, also without any user.
"""

from collections.abc import Mapping, Sequence
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
# What a web server surely takes in one URL.
_VOLUMES_PER_QUERY = 50


class Storage:
    """Cinder's superpositions.

    Every method raises

    :raises SuperpositionRefused: Cinder does not allow it, and says why
    :raises SuperpositionUnknown: Cinder does not answer
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._adapter: adapter.Adapter | None = None

    def state(self, superposition_id: str) -> str | None:
        """Tell how far a superposition is; None if there is none (any more)."""
        answer = self._call('GET', f'{_COLLECTION}/{superposition_id}', missing_ok=True)
        if answer is None:
            return None
        state = str(answer.json()['superposition']['state'])
        if state == 'unknown':
            raise exception.SuperpositionUnknown(
                f'the volume service of superposition {superposition_id} does not answer: ask '
                f'again when it is up')
        return state

    def warm_up(self) -> None:
        """Get a token, and find Cinder, before there is a hurry."""
        self._call('GET', f'{_COLLECTION}?limit=1')

    def connections(self, superposition_id: str, connector: Mapping[str, Any]
                    ) -> dict[str, dict[str, Any]]:
        """Give what is needed to open the backup's version of each volume, by volume id."""
        answer = self._call('POST', f'{_COLLECTION}/{superposition_id}/connection',
                            {'connector': dict(connector)})
        connections = {}
        for connection in answer.json()['connections']:
            volume_id = connection.pop('volume_id')
            # As Nova's own attaching does: the guest finds its disks by it.
            connections[volume_id] = {'serial': volume_id, **connection}
        return connections

    def merge(self, superposition_id: str, step: str) -> None:
        """Tell Cinder of a step of a merge.

        :param step: begin or end
        """
        self._call('POST', f'{_COLLECTION}/{superposition_id}/merge', {'merge': {'step': step}})

    def reasons(self, volume_ids: Sequence[str]) -> list[str]:
        """Say why volumes cannot be superposed; nothing if they can."""
        found = []
        for first in range(0, len(volume_ids), _VOLUMES_PER_QUERY):
            some = volume_ids[first:first + _VOLUMES_PER_QUERY]
            query = '&'.join(f'volume_id={volume_id}' for volume_id in some)
            answer = self._call('GET', f'{_COLLECTION}/eligibility?{query}')
            found += [f'volume {volume["volume_id"]}: {reason}'
                      for volume in answer.json()['eligibility']
                      for reason in volume['reasons']]
        return found

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None, *,
              missing_ok: bool = False) -> Any:
        try:
            return self._client().request(path, method, headers=_HEADERS, json=body)
        except exceptions.NotFound as exc:
            # A wrong endpoint has no superpositions either, but does not say so in Cinder's words.
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
                        f'of a service user to ask Cinder for superpositions')
                session = loading.load_session_from_conf_options(
                    CONF, _GROUP, auth=auth, timeout=CONF.specreds.storage_timeout)
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


def _refused(path: str, exc: exceptions.HttpError) -> exception.SuperpositionRefused:
    return exception.SuperpositionRefused(f'Cinder refuses {path}: {_words(exc)}')


def _silent(path: str, exc: exceptions.ClientException) -> exception.SuperpositionUnknown:
    return exception.SuperpositionUnknown(
        f'Cinder does not answer {path} ({_words(exc)}): ask again when it does')


def _words(exc: exceptions.ClientException) -> str:
    """Give what Cinder itself says."""
    response: Any = getattr(exc, 'response', None)
    try:
        fault = next(iter(response.json().values()))
        return str(fault['message'])
    except (AttributeError, KeyError, TypeError, ValueError, StopIteration):
        return str(exc)
