# SPDX-License-Identifier: Apache-2.0
"""The fence: after it, no write of the primary can reach the volumes.

Each client is entered into the blocklist of the osdmap, and an OSD that has that map refuses the
client's operations. The order is that of librbd when it breaks a lock
(``managed_lock::BreakRequest``): blocklist, wait for the osdmap, only then rely on the fence.
"""

from collections.abc import Iterable, Set
from concurrent import futures
import datetime

from specreds_cinder.superposition import address
from specreds_cinder.superposition import cluster as ceph
from specreds_cinder.superposition import trace

_PARALLEL = 64


class Fence:
    """Blocklist entries of single clients.

    :param expiry_s: seconds that an entry lives unless renewed
    """

    def __init__(self, cluster: ceph.Cluster, expiry_s: int) -> None:
        self._cluster = cluster
        self._expiry_s = expiry_s

    def close(self, clients: Iterable[str]) -> None:
        """Blocklist clients, and wait until the sweep's client has an osdmap with the entries.

        All addresses are sent at once, so that the monitors commit them in one map.

        :raises InvalidInput: an address is not that of a single client
        :raises ClusterTimeout: no monitor answered; the entries may exist or not
        """
        addresses = frozenset(clients)
        self._each('add', addresses)
        self._lengthen(addresses)
        self.wait_osdmap()

    def wait_osdmap(self) -> None:
        """Make every later operation carry at least the osdmap of this moment.

        The sweep needs it. So does librbd: only with that map does an OSD remove a fenced client
        from an image's watchers.

        :raises ClusterTimeout: no monitor answered in time
        """
        self._cluster.wait_for_latest_osdmap()

    def open(self, clients: Iterable[str]) -> None:
        """Remove blocklist entries. One that does not exist is no error."""
        self._each('rm', clients)

    def outside(self, clients: Set[str]) -> frozenset[str]:
        """Return those of some clients that are not on the blocklist.

        Every later operation carries an osdmap with the entries of the others.
        """
        if not clients:
            return frozenset()
        fenced = self.remaining().keys()
        self.wait_osdmap()
        return frozenset(clients - fenced)

    def remaining(self) -> dict[str, float]:
        """Return the seconds until each entry of the blocklist expires, by address."""
        now = datetime.datetime.now(datetime.UTC)
        entries = self._cluster.mon({'prefix': 'osd blocklist ls'}) or []
        return {entry['addr']: (_time(entry['until']) - now).total_seconds() for entry in entries}

    def renew(self, clients: Iterable[str], *, lapsed: bool = True) -> list[str]:
        """Replace the entries of which less than half the expiry is left.

        Each of them is missing for a moment: half the expiry has to exceed the time for which a
        fenced client may live.

        :param lapsed: also blocklist clients whose entry has expired or never existed
        :returns: the addresses that were blocklisted anew
        """
        left = self.remaining()
        due = [client for client in clients if (lapsed or client in left)
               and left.get(client, 0) < self._expiry_s / 2]
        if due:
            self.close(due)
        return due

    def _lengthen(self, clients: Iterable[str]) -> None:
        """Replace entries that existed before and would expire soon.

        Ceph keeps the expiry of an entry that exists, whatever its answer to "add" says. librbd
        makes entries of an hour when it breaks the lock of a client that hangs.
        """
        left = self.remaining()
        short = [client for client in clients if left.get(client, 0) < self._expiry_s / 2]
        self._each('rm', short)
        self._each('add', short)

    def _each(self, operation: str, clients: Iterable[str]) -> None:
        addresses = sorted({address.check(client) for client in clients})
        if not addresses:
            return
        with futures.ThreadPoolExecutor(min(_PARALLEL, len(addresses))) as pool:
            for future in [pool.submit(self._command, operation, client)
                           for client in addresses]:
                future.result()

    def _command(self, operation: str, client: str) -> None:
        command: dict[str, object] = {'prefix': 'osd blocklist', 'blocklistop': operation,
                                      'addr': client}
        if operation == 'add':
            command['expire'] = float(self._expiry_s)
        with trace.change(f'fence.{operation}', client):
            self._cluster.mon(command)


def _time(text: str) -> datetime.datetime:
    # 2024-01-31T12:00:00.123456+0000: Ceph writes the zone without a colon.
    return datetime.datetime.strptime(text, '%Y-%m-%dT%H:%M:%S.%f%z')
