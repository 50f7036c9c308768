# SPDX-License-Identifier: Apache-2.0
"""A second opinion from storage: which servers run on a host that no engine hears.

The sentinel of each host watches an object of its own, in a namespace of each pool with the disks
of local servers. The host of a backup, which has to reach the same pool anyway, notifies that
object while the backup boots, and the sentinel answers with the domains that run. Nobody needs
more than Ceph has for the disks, no engine needs access to Ceph, and an answer takes milliseconds:
a host that is dead has no watch, or does not answer in time.
"""

from collections.abc import Callable
import errno
import json
import time
from typing import Any

from oslo_log import log as logging
import rados

from specreds_cinder import capabilities
from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph

LOG = logging.getLogger(__name__)

NAMESPACE = capabilities.SENTINELS
# Seconds for which Ceph keeps the watch of a sentinel that is gone.
_EXPIRES = 10
# Seconds after which a watch is tried again that Ceph has refused to this client.
_REFUSED = 30.0


def object_name(host: str) -> str:
    """Return the name of the object that the sentinel of a host watches."""
    return f'specreds.sentinel.{host}'


class Question:
    """Asks the sentinel of a host which servers run there, and waits for nothing.

    librados has no time limit for a notification: a stuck placement group may answer after hours,
    or never. The object has to be kept until the question has ended: librados uses it then.

    :param timeout: seconds that Ceph gives the sentinel to answer
    :param answered: called with the servers if the sentinel answers, in a thread of librados that
        eventlet does not know
    :param silent: called in the same way if the sentinel watches its object, but does not answer
    :raises ClusterError: Ceph cannot be asked
    """

    def __init__(self, cluster: ceph.Cluster, pool: str, host: str, timeout: float,
                 answered: Callable[[frozenset[str]], None], silent: Callable[[], None]) -> None:
        self._answered = answered
        self._silent = silent
        self._ended = False
        with ceph.answering(f'open pool {pool}'):
            self._io = cluster.rados.open_ioctx(pool)
        try:
            with ceph.answering(f'notify the sentinel of {host}'):
                self._io.set_namespace(NAMESPACE)
                self._completion = self._io.aio_notify(
                    object_name(host), self._done, '', int(timeout * 1e3))
        except BaseException:
            self._io.close()
            raise

    def close(self) -> bool:
        """Close the pool if the question has ended, and return whether it has."""
        if self._ended:
            self._io.close()
        return self._ended

    def _done(self, _completion: Any, code: int, acks: Any, timeouts: Any) -> None:
        """Take the end of the question.

        Without permission to notify, or a watch of the sentinel, there is no answer, and that says
        nothing of the sentinel. Ceph reports a time-out only of a client that watches.
        """
        reports = [report for _, _, answer in acks or ()
                   if (report := _decoded(answer)) is not None]
        if reports:
            self._answered(frozenset().union(*reports))
        elif timeouts or code == -errno.ETIMEDOUT:
            self._silent()
        self._ended = True


class Witness:
    """Watches the objects of this host, and answers notifications.

    Only one thread may call :meth:`watch` and :meth:`close`.

    :param host: name of this host in Nova
    :param running: returns the servers that run; None while that is unknown
    :ivar failing: by user and pool: why the object in the pool cannot be watched
    """

    def __init__(self, host: str, running: Callable[[], frozenset[str] | None]) -> None:
        self._name = object_name(host)
        self._running = running
        self._clusters: dict[str, ceph.Cluster] = {}
        # By user and pool: the watch and what it was opened with; None after an error.
        self._watches: dict[tuple[str, str], tuple[Any, Any]] = {}
        self._broken: set[tuple[str, str]] = set()
        self.failing: dict[tuple[str, str], str] = {}
        # By user and pool: when to try again.
        self._refused: dict[tuple[str, str], float] = {}

    def watch(self, user: str, cluster: ceph.Cluster, pool: str) -> None:
        """Watch the object in a pool, unless it is watched. Errors are logged, and tried again.

        :param user: cephx user of the disks
        :param cluster: a connection of its own, of which only the first one of a user is used
        """
        place = user, pool
        if place in self._broken:
            self._drop(place)
        if place in self._watches or time.monotonic() < self._refused.get(place, 0.0):
            return
        try:
            self._watches[place] = self._begin(self._clusters.setdefault(user, cluster), place)
        except (errors.SuperError, rados.Error) as exc:
            if place not in self.failing:
                LOG.warning('no second opinion on servers with disks of user %s in pool %s: %s; '
                            '"specreds-super caps --sentinel" prints the capabilities for it',
                            user, pool, exc)
            self.failing[place] = str(exc)
            if isinstance(exc.__cause__, rados.PermissionError | rados.PermissionDeniedError):
                self._refused[place] = time.monotonic() + _REFUSED
        else:
            if self.failing.pop(place, None) is not None:
                LOG.info('second opinion on servers with disks of user %s in pool %s is possible '
                         'again', user, pool)

    def close(self) -> None:
        """End all watches."""
        for place in list(self._watches):
            self._drop(place)
        for cluster in self._clusters.values():
            cluster.close()

    def _begin(self, cluster: ceph.Cluster, place: tuple[str, str]) -> tuple[Any, Any]:
        _, pool = place
        with ceph.answering(f'watch {self._name} in pool {pool}'):
            io = cluster.rados.open_ioctx(pool)
            try:
                io.set_namespace(NAMESPACE)
                io.write_full(self._name, b'')
                watch = io.watch(self._name, self._answer,
                                 lambda *_: self._broken.add(place), _EXPIRES)
            except BaseException:
                io.close()
                raise
        return watch, io

    def _drop(self, place: tuple[str, str]) -> None:
        self._broken.discard(place)
        watch, io = self._watches.pop(place, (None, None))
        for each in (watch, io):
            try:
                if each is not None:
                    each.close()
            except rados.Error as exc:
                LOG.debug('%s: %s', place, exc)

    def _answer(self, *_notification: Any) -> bytes:
        """Return the answer to a notification, in a thread of librados."""
        running = self._running()
        return b'' if running is None else json.dumps({'running': sorted(running)}).encode()


def _decoded(answer: bytes) -> frozenset[str] | None:
    try:
        return frozenset(str(server) for server in json.loads(answer)['running'])
    except (ValueError, KeyError, TypeError):
        return None
