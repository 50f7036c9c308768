# SPDX-License-Identifier: Apache-2.0
"""Releases the clients that stay fenced after their superposition, once they have ended."""

from collections.abc import Collection
import dataclasses
import datetime

from specreds_cinder.superposition import address
from specreds_cinder.superposition import errors
from specreds_cinder.superposition import fenced as fences
from specreds_cinder.superposition import record as records
from specreds_cinder.superposition.protocol import base

# By how much the clocks of a host and of a controller may differ.
_CLOCKS_S = 300.0


@dataclasses.dataclass(frozen=True)
class FencedClient:
    """A client on the blocklist that its superposition has fenced for good.

    :param left_s: seconds until Ceph removes the blocklist entry
    """

    client: str
    entry: fences.Entry
    left_s: float


class Release(base.Base):
    """Lists and releases clients that stay fenced."""

    def fenced(self, home: records.Home) -> list[FencedClient]:
        """Return the clients of a home that stay fenced, oldest first.

        Clients whose blocklist entry is gone leave the list.
        """
        entries = self.fenced_clients.read(home)
        left = self.fence.remaining()
        self.fenced_clients.remove(home, [client for client in entries if client not in left])
        return sorted((FencedClient(client, entry, left[client])
                       for client, entry in entries.items() if client in left),
                      key=lambda listed: (listed.entry.fenced_at, listed.client))

    def release(self, home: records.Home, clients: Collection[str]) -> None:
        """Remove the blocklist entries of clients.

        The caller has proof that each of them has ended: a client that hangs and has not met the
        fence writes again.

        :raises InvalidInput: a client is not in the list of the home
        """
        unknown = set(clients) - self.fenced_clients.read(home).keys()
        if unknown:
            raise errors.InvalidInput(
                f'{", ".join(sorted(unknown))}: fenced by no superposition that has ended in '
                f'{home}')
        self.fence.open(clients)
        self.fenced_clients.remove(home, clients)

    def release_host(self, home: records.Home, host: str, booted_at: datetime.datetime
                     ) -> list[str]:
        """Remove the blocklist entries of a host's clients that a boot of the host has ended.

        :param host: address of the host, as its clients have it; no other host has that address
        :param booted_at: time of a boot of that host, with its zone
        :returns: the clients that were released
        :raises InvalidInput: the time has no zone
        """
        if booted_at.tzinfo is None:
            raise errors.InvalidInput(f'the time {booted_at.isoformat()} has no zone')
        latest = booted_at - datetime.timedelta(seconds=_CLOCKS_S)
        hosts = {host, f'[{host}]'}
        ended = [listed.client for listed in self.fenced(home)
                 if address.host(listed.client) in hosts
                 and datetime.datetime.fromisoformat(listed.entry.fenced_at) < latest]
        self.release(home, ended)
        return ended
