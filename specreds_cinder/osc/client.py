# SPDX-License-Identifier: Apache-2.0
"""A client of the REST API of superpositions."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
import uuid

from keystoneauth1 import exceptions as auth_exceptions
from openstack import connection
from openstack import exceptions
import requests

from specreds_cinder.osc import pages

_BASE = '/os-superpositions'
_VERSION = '1.0'
# So many ids fit into the URL that any web server accepts.
_VOLUMES_PER_QUERY = 50
Superposition = dict[str, Any]


class ExtensionMissing(exceptions.SDKException):
    """The cloud does not have the superposition extension."""


class NoSuchSuperposition(exceptions.SDKException):
    """No superposition has this id or volume."""


class Superpositions:
    """The calls of the API; names are accepted where the API requires ids.

    All methods raise ``ExtensionMissing``, or ``HttpException`` with the API's message.

    :param cloud: the connection whose block storage endpoint is used
    :ivar unreachable: the back ends that were missing in the lists so far; only an admin sees them
    """

    def __init__(self, cloud: connection.Connection) -> None:
        self._cloud = cloud
        self._proxy: Any = cloud.block_storage
        self.unreachable: set[str] = set()

    def create(self, volume_ids: Sequence[str], server_id: str | None,
               reason: str | None, disks: Sequence[str] = ()) -> Superposition:
        """Put volumes into superposition.

        :param volume_ids: empty for all volumes of the server
        :param disks: disks of the server that Nova keeps in RBD
        """
        wanted: dict[str, Any] = {}
        if volume_ids:
            wanted['volume_ids'] = list(volume_ids)
        if server_id is not None:
            wanted['server_id'] = server_id
        if disks:
            wanted['disks'] = list(disks)
        if reason is not None:
            wanted['reason'] = reason
        answer = self._call('POST', _BASE, json={'superposition': wanted})
        return dict(answer.json()['superposition'])

    def get(self, superposition_id: str, *, sizes: bool = True) -> Superposition:
        """Return one superposition with all details.

        :param sizes: include the sizes of second versions, for which Cinder sweeps them
        """
        answer = self._call('GET', f'{_BASE}/{superposition_id}',
                            params={} if sizes else {'sizes': '0'})
        return dict(answer.json()['superposition'])

    def list(self, filters: dict[str, Any], *, limit: int | None = None,
             marker: str | None = None, detail: bool = False,
             sizes: bool = False) -> Iterator[Superposition]:
        """List the superpositions that match all filters, page by page.

        :param filters: names and values of the API's query
        :param limit: the most to return
        :param marker: return those after the one with this id
        :param sizes: include the sizes of second versions, for which Cinder sweeps them
        """
        path = f'{_BASE}/detail' if detail else _BASE
        more = {'sizes': '1'} if sizes else {}

        def ask(query: Mapping[str, Any]) -> tuple[Sequence[Superposition], bool]:
            answer = self._call('GET', path, params={**query, **more}).json()
            self.unreachable.update(answer.get('unreachable_hosts', ()))
            return answer['superpositions'], bool(answer.get('superpositions_links'))
        return pages.items(ask, filters, limit, marker)

    def eligibility(self, volume_ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Report for each volume whether it can be superposed, and why not."""
        for first in range(0, len(volume_ids), _VOLUMES_PER_QUERY):
            some = list(volume_ids[first:first + _VOLUMES_PER_QUERY])
            answer = self._call('GET', f'{_BASE}/eligibility', params={'volume_id': some})
            yield from answer.json()['eligibility']

    def check(self, superposition_id: str) -> dict[str, Any]:
        """Report whether the primary has written since the superposition began."""
        answer = self._call('POST', f'{_BASE}/{superposition_id}/check', json={})
        return dict(answer.json()['check'])

    def collapse(self, superposition_id: str, decision: str, *,
                 backup_durable: bool = False) -> dict[str, Any]:
        """Decide; the outcome is None while the decision is under way."""
        body = {'collapse': {'decision': decision, 'backup_durable': backup_durable}}
        answer = self._call('POST', f'{_BASE}/{superposition_id}/collapse', json=body)
        return dict(answer.json()['collapse'])

    def merge(self, superposition_id: str) -> None:
        """Request the merge of a promoted superposition."""
        self._call('POST', f'{_BASE}/{superposition_id}/merge', json={
            'merge': {'step': 'offline'}})

    def delete(self, superposition_id: str) -> None:
        """Abort a superposition."""
        self._call('DELETE', f'{_BASE}/{superposition_id}')

    def find(self, text: str, *, sizes: bool = False) -> Superposition:
        """Return the superposition with an id, or with a volume.

        :param sizes: include the sizes of second versions, for which Cinder sweeps them
        :raises NoSuchSuperposition: neither exists
        """
        if _is_uuid(text):
            try:
                return self.get(text, sizes=sizes)
            except exceptions.NotFoundException:
                pass
        volume = self._proxy.find_volume(text, ignore_missing=True)
        if volume is None:
            raise NoSuchSuperposition(
                f'there is no volume "{text}", and no superposition with that id')
        filters = {'volume_id': volume.id}
        if volume.project_id not in (None, self._cloud.current_project_id):
            filters['all_tenants'] = '1'
        for superposition in self.list(filters, detail=True, sizes=sizes):
            return superposition
        raise NoSuchSuperposition(f'volume {text} is in no superposition')

    def volume_ids(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the ids of volumes without repetition; an id is returned unchecked."""
        return list(dict.fromkeys(
            text if _is_uuid(text) else self._proxy.find_volume(text, ignore_missing=False).id
            for text in texts))

    def server_id(self, text: str) -> str:
        """Return the id of a server; an id is returned unchecked.

        :raises EndpointNotFound: the cloud has no compute service to look up a name
        """
        if _is_uuid(text):
            return text
        try:
            self._cloud.session.get_endpoint(service_type='compute')
        except auth_exceptions.EndpointNotFound as exc:
            raise exceptions.EndpointNotFound(
                f'this cloud has no compute service to look up server "{text}": specify its ID'
            ) from exc
        compute: Any = self._cloud.compute
        return str(compute.find_server(text, ignore_missing=False).id)

    def _call(self, method: str, path: str, **request: Any) -> requests.Response:
        headers = {'OpenStack-API-Version': f'superposition {_VERSION}'}
        answer: requests.Response = self._proxy.request(path, method, headers=headers, **request)
        if answer.status_code == 404 and not _is_item(answer):
            raise ExtensionMissing(
                'this cloud does not have the superposition extension: '
                f'{self._proxy.get_endpoint()} has no {_BASE}')
        exceptions.raise_from_response(answer)
        return answer


def _is_item(answer: requests.Response) -> bool:
    """Return whether a 404 comes from the API, not from a web server without the path."""
    try:
        return 'itemNotFound' in answer.json()
    except ValueError:
        return False


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
