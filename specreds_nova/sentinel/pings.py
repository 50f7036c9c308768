# SPDX-License-Identifier: Apache-2.0
"""Questions to Ceph whose answers renew the lease on the network, whatever looks wait for.

A look asks for the records of servers, one after the other, and gives up its connection after an
error. The questions here are about no server, do not wait for each other, and have a connection of
their own.
"""

from collections.abc import Callable, Iterable
import errno
import threading

from oslo_log import log as logging
import rados

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_nova import storage_ping
from specreds_nova.beats import renewals

LOG = logging.getLogger(__name__)

# Seconds between two questions.
_STEP_S = 0.5
# The connection has to be made again.
_LOST = frozenset({errno.ESHUTDOWN, errno.ENOTCONN})


class Pings:
    """Asks the pools of local disks, in one thread for each cephx user of them.

    :param apart: returns a connection for a user that nobody else uses, not open yet
    :param places: returns the users and pools of local disks
    :param heard: receives the user, and when a question was asked that Ceph has answered; it is
        called by several threads
    """

    def __init__(self, apart: Callable[[str], ceph.Cluster],
                 places: Callable[[], set[tuple[str, str]]],
                 heard: Callable[[str, float], None]) -> None:
        self._apart = apart
        self._places = places
        self._heard = heard
        self._users: dict[str, _User] = {}
        self._stop = threading.Event()

    def look(self) -> None:
        """Begin to ask for users that have disks here for the first time."""
        for user in {user for user, _ in self._places()} - self._users.keys():
            self._users[user] = _User(user, self._apart(user), self._heard)
            threading.Thread(target=self._ask, args=(user,), daemon=True,
                             name=f'ping-{user}').start()

    def stop(self) -> None:
        """Ask no more."""
        self._stop.set()

    def _ask(self, user: str) -> None:
        while not self._stop.is_set():
            self._users[user].ask(pool for owner, pool in sorted(self._places())
                                  if owner == user)
            self._stop.wait(_STEP_S)


class _User:
    """The questions of one cephx user. For use by one thread."""

    def __init__(self, name: str, cluster: ceph.Cluster,
                 heard: Callable[[str, float], None]) -> None:
        self._name = name
        self._cluster = cluster
        self._heard = heard
        self._pools: dict[str, storage_ping.Pool] = {}
        self._lost = False
        self._failing = False

    def ask(self, pools: Iterable[str]) -> None:
        """Ask pools, without waiting for an answer."""
        began = renewals.now()
        try:
            for pool in pools:
                if pool not in self._pools:
                    self._pools[pool] = storage_ping.Pool(self._cluster.rados, pool)
                self._pools[pool].begin(lambda code: self._done(began, code))
        except (errors.SuperError, rados.Error) as exc:
            if not self._failing:
                LOG.warning('Ceph cannot be asked as the user of %s: %s', self._name, exc)
            self._failing = self._lost = True
        else:
            self._failing = False
        if self._lost:
            self._close()

    def _done(self, began: float, code: int) -> None:
        if code == 0 or code in storage_ping.REFUSED:
            self._heard(self._name, began)
        elif code in _LOST:
            self._lost = True

    def _close(self) -> None:
        """Close the connection; the next question opens another one."""
        self._lost = False
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        self._cluster.close()
