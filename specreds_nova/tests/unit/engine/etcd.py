# SPDX-License-Identifier: Apache-2.0
"""An etcd in memory, with the requests that the board of jobs makes."""

import base64
from typing import Any

from etcd3gw import exceptions


class Etcd:
    """The data that all clients share, and their client.

    :ivar away: no request is answered
    :ivar lost: number of transactions that take effect, and whose answers are lost
    :ivar requests: the number of requests so far
    """

    def __init__(self) -> None:
        self.away = False
        self.lost = 0
        self.requests = 0
        # By key: its value, its lease, and the request that wrote it.
        self._keys: dict[str, tuple[bytes, int | None, int]] = {}
        self._leases: set[int] = set()

    def expire(self) -> None:
        """Expire all leases."""
        for lease in list(self._leases):
            self.revoke(lease)

    def revoke(self, lease: int) -> None:
        """End a lease, and delete its keys."""
        self._leases.discard(lease)
        self._keys = {key: entry for key, entry in self._keys.items() if entry[1] != lease}

    def refresh(self, lease: int) -> int:
        """Renew a lease, and return its time to live, -1 if it has ended."""
        self._answer()
        return 4 if lease in self._leases else -1

    # The interface of Etcd3Client

    def lease(self, ttl: int) -> 'Lease':
        """Return a new lease."""
        self._answer()
        lease = 1 + max(self._leases, default=0)
        self._leases.add(lease)
        return Lease(self, lease)

    def transaction(self, request: dict[str, Any]) -> dict[str, Any]:
        """Put and delete keys if all conditions hold."""
        self._answer()
        for condition in request['compare']:
            entry = self._keys.get(_decoded(condition['key']))
            if condition['target'] == 'MOD':
                if entry is None or str(entry[2]) != condition['mod_revision']:
                    return {}
            elif condition['target'] == 'VALUE':
                if entry is None or entry[0] != base64.b64decode(condition['value']):
                    return {}
            elif (entry is not None) != (condition['result'] == 'GREATER'):
                return {}
        for action in request['success']:
            if 'request_delete_range' in action:
                self._keys.pop(_decoded(action['request_delete_range']['key']), None)
                continue
            put = action['request_put']
            self._keys[_decoded(put['key'])] = (base64.b64decode(put['value']), put.get('lease'),
                                               self.requests)
        if self.lost:
            self.lost -= 1
            raise exceptions.ConnectionTimeoutError('no answer')
        return {'succeeded': True}

    def get_url(self, path: str) -> str:
        """Return the URL of a request."""
        return path

    def post(self, url: str, json: dict[str, Any]) -> dict[str, Any]:
        """Return a range of keys, with their values encoded."""
        assert url == '/kv/range', url
        self._answer()
        first, end = _decoded(json['key']), _decoded(json['range_end'])
        entries = [{'key': _encoded(key.encode()), 'value': _encoded(value),
                    'mod_revision': str(revision)}
                   for key, (value, _, revision) in sorted(self._keys.items())
                   if first <= key < end]
        # etcd omits an empty list.
        return {'kvs': entries} if entries else {}

    def get_prefix(self, prefix: str) -> list[tuple[bytes, dict[str, Any]]]:
        """Return the values of all keys with a prefix."""
        self._answer()
        return [(value, {'key': key.encode(), 'mod_revision': str(revision)})
                for key, (value, _, revision) in sorted(self._keys.items())
                if key.startswith(prefix)]

    def delete_prefix(self, prefix: str) -> None:
        """Delete all keys with a prefix."""
        self._answer()
        self._keys = {key: entry for key, entry in self._keys.items()
                      if not key.startswith(prefix)}

    def delete(self, key: str) -> None:
        """Delete a key."""
        self._answer()
        self._keys.pop(key, None)

    def _answer(self) -> None:
        self.requests += 1
        if self.away:
            raise exceptions.ConnectionFailedError('no etcd')


class Lease:
    """A lease, which claims depend on."""

    def __init__(self, etcd: Etcd, number: int) -> None:
        self.id = number
        self._etcd = etcd

    def refresh(self) -> int:
        """Renew the lease."""
        return self._etcd.refresh(self.id)

    def revoke(self) -> None:
        """End the lease."""
        self._etcd.revoke(self.id)


def _decoded(key: str) -> str:
    return base64.b64decode(key).decode()


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()
