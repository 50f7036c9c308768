# SPDX-License-Identifier: Apache-2.0
"""The fence: after it, no write of the primary can reach the volumes.

Each client is entered into the blocklist of the osdmap, and an OSD that has that map refuses the
client's operations. The order is the same as when librbd breaks a lock
(``managed_lock::BreakRequest``): blocklist, wait for the osdmap, only then rely on the fence.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from concurrent import futures
import dataclasses
import datetime
import threading
import time

from specreds_cinder.superposition import errors
from specreds_cinder.superposition import trace
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.ceph import cluster as ceph

# Commands that the monitors may have at a time: they commit them in one map.
_PARALLEL = 256
# A backup that an abort evicts never writes to the volume, and its overlay is removed: what it may
# write after this time, should it hang for so long, nobody reads.
EVICTION_S = 24 * 3600
# The oldest that a copy of the blocklist gets, even if the osdmap does not change.
_COPY_S = 30.0


class Fence:
    """Blocklist entries of single clients.

    :param expiry_s: seconds that an entry lives unless renewed
    """

    def __init__(self, cluster: ceph.Cluster, expiry_s: int) -> None:
        self._cluster = cluster
        self._expiry_s = expiry_s
        self._copy = _Copy(cluster)
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._batches: dict[int, _Batch] = {}

    def close(self, clients: Iterable[str]) -> None:
        """Blocklist clients, and wait until the sweep's client has an osdmap with the entries.

        All addresses are sent at once, also the addresses of several callers, so that the monitors
        commit them in one map. An entry that exists is left, unless it expires soon.

        :raises InvalidInput: an address does not name a single client
        :raises NotAllowed: the user may blocklist none of the clients: no entry can come
        :raises ClusterTimeout: no monitor answered; the entries may exist or not
        """
        self._close(frozenset(clients), self._expiry_s)

    def evict(self, clients: Iterable[str]) -> None:
        """Blocklist the clients of a backup as :meth:`close` does, for a day.

        An entry that lasts longer stays as it is.
        """
        self._close(frozenset(clients), min(EVICTION_S, self._expiry_s))

    def _close(self, clients: Set[str], expiry_s: int) -> None:
        """Blocklist clients together with the clients of other callers that come meanwhile."""
        checked = {address.check(client) for client in clients}
        with self._lock:
            batch = self._batches.setdefault(expiry_s, _Batch())
            batch.clients |= checked
        with self._turn:
            if not batch.begun:
                with self._lock:
                    del self._batches[expiry_s]
                batch.begun = True
                try:
                    batch.failed = self._close_all(batch.clients, expiry_s)
                    batch.error = None
                except Exception as exc:
                    batch.error = exc
        if batch.error is not None:
            raise _effective(batch.error)
        _raise_first(batch.failed, checked)

    def _close_all(self, clients: Set[str], expiry_s: int) -> dict[str, Exception]:
        """Blocklist clients, and return the errors of those that may not be, by client."""
        failed: dict[str, Exception] = {}
        if clients:
            failed = self._each('add', clients - _entries(self._cluster).keys(), expiry_s)
        failed.update(self._lengthen(clients - failed.keys(), expiry_s))
        self.wait_osdmap()
        return failed

    def wait_osdmap(self) -> None:
        """Make every later operation carry at least the osdmap of this moment.

        The sweep needs it. So does librbd: only with that map does an OSD remove a fenced client
        from an image's watchers.

        :raises ClusterTimeout: no monitor answered in time
        """
        self._cluster.wait_for_latest_osdmap()

    def open(self, clients: Iterable[str]) -> None:
        """Remove blocklist entries. One that does not exist is no error.

        :raises NotAllowed: the user may not remove an entry that exists
        """
        failed = self._each('rm', clients)
        if any(isinstance(error, errors.NotAllowed) for error in failed.values()):
            listed = _entries(self._cluster)
            failed = {client: error for client, error in failed.items()
                      if client in listed or not isinstance(error, errors.NotAllowed)}
        _raise_first(failed)

    def outside(self, clients: Set[str]) -> frozenset[str]:
        """Return which of some clients are not on the blocklist.

        Every later operation carries an osdmap with the entries of the others.
        """
        if not clients:
            return frozenset()
        fenced = _entries(self._cluster)
        self.wait_osdmap()
        return frozenset(client for client in clients if client not in fenced)

    def alive(self, clients: Set[str]) -> frozenset[str]:
        """Return the clients that a copy of the blocklist does not have.

        For repeated looks at many servers: only if the copy has all of them, it asks as
        :meth:`outside` does.
        """
        if not clients:
            return frozenset()
        fenced = self._copy.read()
        return (frozenset(client for client in clients if client not in fenced)
                or self.outside(clients))

    def remaining(self, clients: Iterable[str] | None = None) -> dict[str, float]:
        """Return the seconds until entries of the blocklist expire, by address.

        :param clients: the clients whose entries are returned; by default all
        """
        return _left(_entries(self._cluster), clients)

    def copied(self) -> dict[str, float]:
        """Return what :meth:`remaining` does, for a look that is repeated soon.

        The entries are read only if the osdmap has changed, of which they are part.
        """
        return _left(self._copy.read())

    def renew(self, clients: Iterable[str], *, lapsed: bool = True) -> list[str]:
        """Replace the entries of which less than half the expiry is left.

        Each of them is missing for a moment: half the expiry has to exceed the time for which a
        fenced client may live.

        :param lapsed: also blocklist clients whose entry has expired or never existed
        :returns: the addresses that were blocklisted anew
        """
        wanted = tuple(clients)
        if not wanted:
            return []
        left = _left(self._copy.read(), wanted)
        due = [client for client in wanted if (lapsed or client in left)
               and left.get(client, 0) < self._expiry_s / 2]
        if due:
            self.close(due)
        return due

    def _lengthen(self, clients: Collection[str], expiry_s: int) -> dict[str, Exception]:
        """Replace entries that existed before and would expire soon.

        Ceph keeps the expiry of an entry that exists, whatever its answer to "add" says. librbd
        makes entries of an hour when it breaks the lock of a client that hangs.

        :returns: errors by client
        """
        if not clients:
            return {}
        left = self.remaining(clients)
        short = [client for client in clients if left.get(client, 0) < expiry_s / 2]
        # An entry that could not be removed may be gone all the same: all are made again.
        failed = self._each('rm', short) | self._each('add', short, expiry_s)
        return {client: _effective(error) for client, error in failed.items()}

    def _each(self, operation: str, clients: Iterable[str], expiry_s: int | None = None
              ) -> dict[str, Exception]:
        """Change the entries of clients, and return the errors by client."""
        addresses = sorted({address.check(client) for client in clients})
        if not addresses:
            return {}
        with futures.ThreadPoolExecutor(min(_PARALLEL, len(addresses))) as pool:
            raised = pool.map(lambda client: self._command(operation, client, expiry_s), addresses)
        return {client: error for client, error in zip(addresses, raised, strict=True)
                if error is not None}

    def _command(self, operation: str, client: str, expiry_s: int | None) -> Exception | None:
        """Change the entry of a client, and return the error."""
        command: dict[str, object] = {'prefix': 'osd blocklist', 'blocklistop': operation,
                                      'addr': client}
        if expiry_s is not None:
            command['expire'] = float(expiry_s)
        try:
            with trace.change(f'fence.{operation}', client):
                self._cluster.mon(command)
        except Exception as exc:
            return exc
        return None


@dataclasses.dataclass
class _Batch:
    """Clients that are blocklisted together.

    :ivar begun: one of their callers has fenced all of them in its turn
    :ivar error: why none of them may be fenced; None if it failed for single ones at most
    :ivar failed: errors by client
    """

    clients: set[str] = dataclasses.field(default_factory=set)
    begun: bool = False
    error: Exception | None = dataclasses.field(
        default_factory=lambda: errors.ClusterError('the fence was interrupted'))
    failed: Mapping[str, Exception] = dataclasses.field(default_factory=dict)


def _raise_first(failed: Mapping[str, Exception], clients: Set[str] | None = None) -> None:
    """Raise the first error of some clients, by default of all.

    A command that was refused has no effect. Such an error is raised only if each client has one.
    """
    raised = [error for client, error in failed.items() if clients is None or client in clients]
    raised.sort(key=lambda error: isinstance(error, errors.NotAllowed))
    if raised:
        raise _effective(raised[0]) if len(raised) < len(clients or raised) else raised[0]


def _effective(error: Exception) -> Exception:
    """Return the error of a fence that may have had an effect, although a command was refused."""
    return (errors.ClusterError(str(error)) if isinstance(error, errors.NotAllowed)
            else error)


class _Copy:
    """A copy of the blocklist, which is read again when there is another osdmap.

    After hosts have failed together the blocklist has many thousands of entries, and each server
    is looked at again and again.
    """

    def __init__(self, cluster: ceph.Cluster) -> None:
        self._cluster = cluster
        self._lock = threading.Lock()
        self._epoch: int | None = None
        self._entries: Mapping[str, str] = {}
        self._read_at = 0.0

    def read(self) -> Mapping[str, str]:
        """Return the time at which each entry expires, as Ceph writes it, by address."""
        epoch = self._current()
        with self._lock:
            fresh = time.monotonic() < self._read_at + _COPY_S
            if epoch is not None and epoch == self._epoch and fresh:
                return self._entries
            self._read_at = time.monotonic()
            self._entries = _entries(self._cluster)
            # Between two equal epochs, the entries belong to that epoch, whichever monitor
            # has answered.
            self._epoch = epoch if self._current() == epoch else None
            return self._entries

    def _current(self) -> int | None:
        """Return the epoch of the osdmap."""
        status = self._cluster.mon({'prefix': 'osd stat'}) or {}
        epoch: int | None = status.get('epoch')
        return epoch


def _entries(cluster: ceph.Cluster) -> dict[str, str]:
    """Return the time at which each entry of the blocklist expires, by address."""
    return {entry['addr']: entry['until']
            for entry in cluster.mon({'prefix': 'osd blocklist ls'}) or []}


def _left(entries: Mapping[str, str], clients: Iterable[str] | None = None) -> dict[str, float]:
    """Return the seconds until entries expire.

    Parsing 100,000 times takes a second.
    """
    now = datetime.datetime.now(datetime.UTC)
    return {client: (_time(entries[client]) - now).total_seconds()
            for client in (entries if clients is None else clients) if client in entries}


def _time(text: str) -> datetime.datetime:
    # 2024-01-31T12:00:00.123456+0000, in a fortieth of the time that strptime takes.
    return datetime.datetime.fromisoformat(text)
