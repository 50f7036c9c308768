# SPDX-License-Identifier: Apache-2.0
"""The Ceph clusters of the local disks, by the cephx user that QEMU opens them as."""

from collections.abc import Mapping
import time

from oslo_log import log as logging

from specreds_cinder.superposition.ceph import cluster as ceph
from specreds_nova.sentinel import conf
from specreds_nova.sentinel import evidence

LOG = logging.getLogger(__name__)


class Storages:
    """Clusters that answer, or not, each for itself.

    :param conffile: path of ceph.conf
    :param clients: by the user of a disk how to look at it, as ``CLIENT`` or ``CLIENT@CONF``
    :param timeout: seconds that any single call may take
    """

    def __init__(self, conffile: str, clients: Mapping[str, str], timeout: float) -> None:
        self._conffile = conffile
        self._clients = clients
        self._timeout = timeout
        self._storages: dict[str, evidence.Storage] = {}
        self._again: dict[str, float] = {}
        self.silent: dict[str, str] = {}

    def of(self, user: str) -> evidence.Storage:
        """Return the cluster of a user's disks."""
        if user not in self._storages:
            self._storages[user] = evidence.Storage(self.apart(user))
        return self._storages[user]

    def apart(self, user: str) -> ceph.Cluster:
        """Return another connection to the cluster of a user's disks, which is not open yet."""
        client, _, conffile = self._clients.get(user, user).partition('@')
        return ceph.Cluster(conffile or self._conffile, client, self._timeout)

    def due(self, user: str) -> bool:
        """Return whether to ask a cluster; one that did not answer is left alone for a moment."""
        return time.monotonic() >= self._again.get(user, 0.0)

    def answered(self, user: str) -> None:
        """Note that a cluster answers."""
        if self.silent.pop(user, None) is not None:
            LOG.info('storage of user %s answers again', user)

    def failed(self, user: str, error: Exception) -> None:
        """Note that a cluster does not answer: it is connected anew next time."""
        if user not in self.silent:
            LOG.warning('storage of user %s: %s; nothing is done about its domains', user,
                        error)
        self.silent[user] = str(error)
        self._storages[user].reset()
        self._again[user] = time.monotonic() + conf.AGAIN_S
