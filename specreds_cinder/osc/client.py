# SPDX-License-Identifier: Apache-2.0
"""The superpositions of a cloud, by their REST API."""

from collections.abc import Iterator, Sequence
from typing import Any
import uuid

from keystoneauth1 import exceptions as auth_exceptions
from openstack import connection
from openstack import exceptions
import requests

_BASE = '/os-superpositions'
_HEADERS = {'OpenStack-API-Version': 'superposition 1.0'}
# What a web server surely takes in one URL.
_VOLUMES_PER_QUERY = 50
Superposition = dict[str, Any]


class ExtensionMissing(exceptions.SDKException):
    """The cloud knows nothing of superpositions."""


class NoSuchSuperposition(exceptions.SDKException):
    """Nothing that a name may stand for."""


class Superpositions:
    """What the API offers, with names where it wants ids.

    All methods raise ``ExtensionMissing``, or ``HttpException`` with the API's own words.

    :param cloud: the connection; its block storage endpoint is the one asked
    :ivar unreachable: the back ends that did not answer for lists so far, as admins are told
    """

    def __init__(self, cloud: connection.Connection) -> None:
        self._cloud = cloud
        self._proxy: Any = cloud.block_storage
        self.unreachable: set[str] = set()

    def create(self, volume_ids: Sequence[str], server_id: str | None,
               reason: str | None) -> Superposition:
        """Put volumes into superposition.

        :param volume_ids: none for all volumes of the server
        """
        wanted: dict[str, Any] = {}
        if volume_ids:
            wanted['volume_ids'] = list(volume_ids)
        if server_id is not None:
            wanted['server_id'] = server_id
        if reason is not None:
            wanted['reason'] = reason
        answer = self._call('POST', _BASE, json={'superposition': wanted})
        return dict(answer.json()['superposition'])

    def get(self, superposition_id: str) -> Superposition:
        """Look at one."""
        answer = self._call('GET', f'{_BASE}/{superposition_id}')
        return dict(answer.json()['superposition'])

    def list(self, filters: dict[str, Any], *, limit: int | None = None,
             marker: str | None = None, detail: bool = False) -> Iterator[Superposition]:
        """List those that meet all filters, page by page.

        :param filters: as the API has them
        :param limit: how many at most
        :param marker: begin after the one with this id
        """
        path = f'{_BASE}/detail' if detail else _BASE
        left = limit
        while left is None or left > 0:
            query = dict(filters)
            if left is not None:
                query['limit'] = left
            if marker is not None:
                query['marker'] = marker
            answer = self._call('GET', path, params=query).json()
            page = answer['superpositions']
            self.unreachable.update(answer.get('unreachable_hosts', ()))
            yield from page[:left]
            if not page or not answer.get('superpositions_links'):
                return
            marker = page[-1]['id']
            left = None if left is None else left - len(page)

    def eligibility(self, volume_ids: Sequence[str]) -> Iterator[dict[str, Any]]:
        """Ask whether volumes can be superposed, and why not."""
        for first in range(0, len(volume_ids), _VOLUMES_PER_QUERY):
            some = list(volume_ids[first:first + _VOLUMES_PER_QUERY])
            answer = self._call('GET', f'{_BASE}/eligibility', params={'volume_id': some})
            yield from answer.json()['eligibility']

    def check(self, superposition_id: str) -> dict[str, Any]:
        """Ask whether the primary has written."""
        answer = self._call('POST', f'{_BASE}/{superposition_id}/check', json={})
        return dict(answer.json()['check'])

    def collapse(self, superposition_id: str, decision: str, *,
                 backup_durable: bool = False) -> dict[str, Any]:
        """Decide; the outcome is None while that is still under way."""
        body = {'collapse': {'decision': decision, 'backup_durable': backup_durable}}
        answer = self._call('POST', f'{_BASE}/{superposition_id}/collapse', json=body)
        return dict(answer.json()['collapse'])

    def merge(self, superposition_id: str) -> None:
        """Have one merged that was promoted."""
        self._call('POST', f'{_BASE}/{superposition_id}/merge', json={
            'merge': {'step': 'offline'}})

    def delete(self, superposition_id: str) -> None:
        """Abort one."""
        self._call('DELETE', f'{_BASE}/{superposition_id}')

    def find(self, text: str) -> Superposition:
        """Find what a command means: a superposition's id, or any of its volumes.

        :raises NoSuchSuperposition: it is neither
        """
        if _is_uuid(text):
            try:
                return self.get(text)
            except exceptions.NotFoundException:
                pass
        volume = self._proxy.find_volume(text, ignore_missing=True)
        if volume is None:
            raise NoSuchSuperposition(
                f'there is no volume "{text}", and no superposition with that id')
        filters = {'volume_id': volume.id}
        if volume.project_id not in (None, self._cloud.current_project_id):
            filters['all_tenants'] = '1'
        for found in self.list(filters, detail=True):
            return found
        raise NoSuchSuperposition(f'volume {text} is in no superposition')

    def volume_ids(self, texts: Sequence[str]) -> Sequence[str]:
        """Turn the names of volumes into ids, each once; an id is taken as it is."""
        return list(dict.fromkeys(
            text if _is_uuid(text) else self._proxy.find_volume(text, ignore_missing=False).id
            for text in texts))

    def server_id(self, text: str) -> str:
        """Turn the name of a server into its id; an id is taken as it is.

        :raises EndpointNotFound: there is no compute service that knows names
        """
        if _is_uuid(text):
            return text
        try:
            self._cloud.session.get_endpoint(service_type='compute')
        except auth_exceptions.EndpointNotFound as error:
            raise exceptions.EndpointNotFound(
                f'this cloud has no compute service that knows a server "{text}": give its id'
            ) from error
        compute: Any = self._cloud.compute
        return str(compute.find_server(text, ignore_missing=False).id)

    def _call(self, method: str, path: str, **request: Any) -> requests.Response:
        answer: requests.Response = self._proxy.request(path, method, headers=_HEADERS, **request)
        if answer.status_code == 404 and not _is_item(answer):
            raise ExtensionMissing(
                'this cloud does not have the superposition extension: '
                f'{self._proxy.get_endpoint()} knows no {_BASE}')
        exceptions.raise_from_response(answer)
        return answer


def _is_item(answer: requests.Response) -> bool:
    """Tell whether it is the API that misses something, and not its web server a path."""
    try:
        return 'itemNotFound' in answer.json()
    except ValueError:
        return False


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False
