# SPDX-License-Identifier: Apache-2.0
"""An etcd in memory, as far as the board of jobs asks for it."""

import base64
from typing import Any

from etcd3gw import exceptions


class Etcd:
    """What all clients share.

    :ivar away: it does not answer
    :ivar asked: how many requests there were
    """

    def __init__(self) -> None:
        self.away = False
        self.asked = 0
        self._keys: dict[str, tuple[bytes, int | None]] = {}
        self._leases: set[int] = set()

    def expire(self) -> None:
        """Have all leases run out."""
        for lease in list(self._leases):
            self.revoke(lease)

    def revoke(self, lease: int) -> None:
        """End a lease, and what depends on it."""
        self._leases.discard(lease)
        self._keys = {key: found for key, found in self._keys.items() if found[1] != lease}

    def refresh(self, lease: int) -> int:
        """Renew a lease; -1 if it has ended."""
        self._answer()
        return 4 if lease in self._leases else -1

    # Etcd3Client

    def lease(self, ttl: int) -> 'Lease':
        """Give a lease."""
        self._answer()
        lease = 1 + max(self._leases, default=0)
        self._leases.add(lease)
        return Lease(self, lease)

    def transaction(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Put keys, if others are there or not."""
        self._answer()
        for one in asked['compare']:
            there = _decoded(one['key']) in self._keys
            if there != (one['result'] == 'GREATER'):
                return {}
        for one in asked['success']:
            put = one['request_put']
            self._keys[_decoded(put['key'])] = (base64.b64decode(put['value']), put.get('lease'))
        return {'succeeded': True}

    def get_prefix(self, prefix: str) -> list[tuple[bytes, dict[str, Any]]]:
        """Give what begins with something."""
        self._answer()
        return [(value, {'key': key.encode()}) for key, (value, _) in sorted(self._keys.items())
                if key.startswith(prefix)]

    def delete_prefix(self, prefix: str) -> None:
        """Delete what begins with something."""
        self._answer()
        self._keys = {key: found for key, found in self._keys.items()
                      if not key.startswith(prefix)}

    def delete(self, key: str) -> None:
        """Delete something."""
        self._answer()
        self._keys.pop(key, None)

    def _answer(self) -> None:
        self.asked += 1
        if self.away:
            raise exceptions.ConnectionFailedError('nobody there')


class Lease:
    """What claims depend on."""

    def __init__(self, etcd: Etcd, number: int) -> None:
        self.id = number
        self._etcd = etcd

    def refresh(self) -> int:
        """Renew it."""
        return self._etcd.refresh(self.id)

    def revoke(self) -> None:
        """End it."""
        self._etcd.revoke(self.id)


def _decoded(key: str) -> str:
    return base64.b64decode(key).decode()
