# SPDX-License-Identifier: Apache-2.0
"""Whether what servers depend on answers this host: libvirt and Ceph, each asked by a thread."""

from collections.abc import Callable
import contextlib
import time
from typing import Any

import libvirt
from oslo_log import log as logging

from specreds_nova import conf as options
from specreds_nova.heartbeat import pulse
from specreds_nova.sentinel import conf as sentinel_conf

try:
    import rados

    from specreds_cinder.superposition import cluster
except ImportError:
    # The storage of this host is not Ceph.
    rados = None

LOG = logging.getLogger(__name__)

# Exists, or not: what counts is that the OSD says which.
_OBJECT = 'rbd_directory'
_CRASHES = frozenset({
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED),
    # The process is gone, and nobody had asked for that.
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED),
    (libvirt.VIR_DOMAIN_EVENT_CRASHED, libvirt.VIR_DOMAIN_EVENT_CRASHED_PANICKED),
    (libvirt.VIR_DOMAIN_EVENT_CRASHED, libvirt.VIR_DOMAIN_EVENT_CRASHED_CRASHLOADED),
})


class Probe(pulse.Pulse):
    """Asks something at even intervals; it may hang meanwhile.

    :param interval: seconds
    """

    def __init__(self, name: str, interval: float) -> None:
        super().__init__(f'specreds-{name}', interval)
        self._name = name
        self._answered: float | None = None
        self._failing = False

    def age(self) -> float | None:
        """Give for how many seconds it has not answered; None if it never has."""
        answered = self._answered
        return None if answered is None else round(time.monotonic() - answered, 3)

    def beat(self) -> None:
        """Ask once."""
        asked = time.monotonic()
        try:
            self.ask()
        except Exception as error:
            # Of whatever library it is: no answer.
            if not self._failing:
                LOG.warning('%s does not answer: %s', self._name, error)
            self._failing = True
            return
        if self._failing:
            LOG.info('%s answers again', self._name)
        self._failing = False
        # An answer says how things were when it was asked for at the latest.
        self._answered = max(asked, self._answered or asked)

    def ask(self) -> None:
        """Ask, and return when it has answered. Anything that is raised is no answer."""
        raise NotImplementedError


class Libvirt(Probe):
    """Asks libvirt by a connection of its own, and hears of crashes by it.

    :param uri: of libvirt
    :ivar on_crash: is told of the servers whose domains crash
    :ivar domains: UUIDs of the domains that ran at its last answer; None before the first one
    """

    def __init__(self, conf: Any, uri: str) -> None:
        super().__init__('libvirt', conf.specreds.heartbeat_probe_interval)
        self._uri = uri
        self._connection: Any = None
        self.on_crash: Callable[[str], None] = lambda server: None
        self.domains: frozenset[str] | None = None

    def ask(self) -> None:
        """List the domains that run, in one call."""
        if self._connection is None:
            self._connection = self._connect()
        try:
            active = self._connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
        except libvirt.libvirtError:
            with contextlib.suppress(libvirt.libvirtError):
                self._connection.close()
            self._connection = None
            raise
        self.domains = frozenset(domain.UUIDString() for domain in active)

    def _connect(self) -> Any:
        try:
            connection = libvirt.openReadOnly(self._uri)
        except libvirt.libvirtError:
            # Where there is no polkit to ask, only who may do everything is let in, as Nova is.
            connection = libvirt.open(self._uri)
        # Nova runs libvirt's event loop.
        connection.domainEventRegisterAny(
            None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._lifecycle, None)
        return connection

    def _lifecycle(self, _connection: Any, domain: Any, event: int, detail: int,
                   _opaque: Any) -> None:
        if (event, detail) in _CRASHES:
            self.on_crash(domain.UUIDString())


class Storage(Probe):
    """Asks Ceph: an OSD of each pool that may be read, as the servers' disks have to.

    The clients are those of specreds-sentinel.
    """

    def __init__(self, conf: Any) -> None:
        super().__init__('storage', conf.specreds.heartbeat_probe_interval)
        self._conffile: str = conf.specreds.sentinel_ceph_conf
        self._timeout: float = conf.specreds.sentinel_timeout
        self._users = self.users(conf)
        self._connected: dict[str, Any] = {}
        self._pools: dict[str, tuple[str, ...]] = {}

    @staticmethod
    def users(conf: Any) -> tuple[str, ...]:
        """Give the clients to ask as, as ``CLIENT`` or ``CLIENT@CONF``; none without Ceph."""
        if rados is None:
            return ()
        conf.register_opts(sentinel_conf.OPTIONS, options.GROUP)
        clients = set(conf.specreds.sentinel_clients.values())
        own = conf.libvirt.rbd_user
        return tuple(sorted(clients or ({own} if own else set())))

    def ask(self) -> None:
        """Look for an object in each pool."""
        for user in self._users:
            try:
                self._ask(user)
            except Exception:
                self._drop(user)
                raise

    def end(self) -> None:
        """Disconnect."""
        for user in tuple(self._connected):
            self._drop(user)

    def _ask(self, user: str) -> None:
        if user not in self._connected:
            self._connected[user] = self._connect(user)
        pools = self._pools.get(user) or self._connected[user].list_pools()
        self._pools[user] = tuple(pool for pool in pools if self._stat(user, pool))
        if not self._pools[user]:
            raise LookupError(f'client {user} may not read any pool')

    def _stat(self, user: str, pool: str) -> bool:
        """Give whether the pool may be read."""
        try:
            with self._connected[user].open_ioctx(pool) as io:
                io.stat(_OBJECT)
        except rados.ObjectNotFound:
            return True
        except (rados.PermissionError, rados.PermissionDeniedError):
            return False
        return True

    def _connect(self, user: str) -> Any:
        client, _, conffile = user.partition('@')
        return cluster.Cluster(conffile or self._conffile, client, self._timeout).rados

    def _drop(self, user: str) -> None:
        connected = self._connected.pop(user, None)
        if connected is not None:
            connected.shutdown()
