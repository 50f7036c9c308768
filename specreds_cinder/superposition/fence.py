# SPDX-License-Identifier: Apache-2.0
"""The fence: after it, no write of the primary can reach the volumes.

Ceph's own means against a client that may still write: its address goes into the osdmap's
blocklist, and an OSD that has that map refuses it. The order is librbd's when it breaks a lock
(``managed_lock::BreakRequest``): blocklist, wait for the osdmap, only then rely on it.
"""

from collections.abc import Iterable
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
        """Blocklist clients and wait until the sweep's client carries an osdmap that says so.

        All addresses are sent at once, so that the monitors commit them in one map.

        :raises InvalidInput: an address is not that of a single client
        :raises ClusterTimeout: no monitor answered; the entries may exist or not
        """
        wanted = frozenset(clients)
        self._each('add', wanted)
        self._lengthen(wanted)
        self.wait_osdmap()

    def wait_osdmap(self) -> None:
        """Make every later operation carry the osdmap that is current now.

        First of all those of the sweep. Those of librbd, too: only with that map does an OSD
        take a fenced client off an image's watchers.
        """
        self._cluster.aio.wait_for_latest_osdmap()
        with ceph.answering('wait for the latest osdmap'):
            self._cluster.rados.wait_for_latest_osdmap()

    def open(self, clients: Iterable[str]) -> None:
        """Take blocklist entries back. One that is not there is no error."""
        self._each('rm', clients)

    def remaining(self) -> dict[str, float]:
        """List the blocklist: seconds until each entry expires, by address."""
        now = datetime.datetime.now(datetime.UTC)
        entries = self._cluster.mon({'prefix': 'osd blocklist ls'}) or []
        return {entry['addr']: (_time(entry['until']) - now).total_seconds() for entry in entries}

    def renew(self, clients: Iterable[str], *, lapsed: bool = True) -> list[str]:
        """Re-arm the entries of which less than half the expiry is left.

        For a moment, each of them is not there: let no entry come to that which still matters.

        :param lapsed: also those of which nothing is left
        :returns: the addresses that were re-armed
        """
        left = self.remaining()
        due = [client for client in clients if (lapsed or client in left)
               and left.get(client, 0) < self._expiry_s / 2]
        if due:
            self.close(due)
        return due

    def _lengthen(self, clients: Iterable[str]) -> None:
        """Make entries anew that were there before and would expire soon.

        Ceph keeps the expiry of an entry that exists, whatever its answer to "add" says. librbd
        makes such entries, for an hour, when it breaks the lock of a client that hangs.
        """
        left = self.remaining()
        short = [client for client in clients if left.get(client, 0) < self._expiry_s / 2]
        self._each('rm', short)
        self._each('add', short)

    def _each(self, operation: str, clients: Iterable[str]) -> None:
        wanted = sorted({address.check(client) for client in clients})
        if not wanted:
            return
        with futures.ThreadPoolExecutor(min(_PARALLEL, len(wanted))) as pool:
            for done in [pool.submit(self._one, operation, client) for client in wanted]:
                done.result()

    def _one(self, operation: str, client: str) -> None:
        command: dict[str, object] = {'prefix': 'osd blocklist', 'blocklistop': operation,
                                      'addr': client}
        if operation == 'add':
            command['expire'] = float(self._expiry_s)
        with trace.change(f'fence.{operation}', client):
            self._cluster.mon(command)


def _time(text: str) -> datetime.datetime:
    # 2024-01-31T12:00:00.123456+0000: Ceph writes the zone without a colon.
    return datetime.datetime.strptime(text, '%Y-%m-%dT%H:%M:%S.%f%z')
