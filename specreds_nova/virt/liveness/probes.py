# SPDX-License-Identifier: Apache-2.0
"""Probes of what servers depend on: libvirt, Ceph and the sentinel, each in its own thread."""

from collections.abc import Callable
import contextlib
import pathlib
import time
from typing import Any

import libvirt
from oslo_log import log as logging

from specreds_nova import conf as options
from specreds_nova.heartbeat import pulse
from specreds_nova.sentinel import conf as sentinel_conf
from specreds_nova.sentinel import status

try:
    import rados

    from specreds_cinder.superposition import cluster
except ImportError:
    # This host has no client of Ceph.
    rados = None

LOG = logging.getLogger(__name__)

# It need not exist: an OSD that answers is enough.
_OBJECT = 'rbd_directory'
_CRASHES = frozenset({
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED),
    # QEMU has ended without a request.
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED),
    (libvirt.VIR_DOMAIN_EVENT_CRASHED, libvirt.VIR_DOMAIN_EVENT_CRASHED_PANICKED),
    (libvirt.VIR_DOMAIN_EVENT_CRASHED, libvirt.VIR_DOMAIN_EVENT_CRASHED_CRASHLOADED),
})


class Probe(pulse.Pulse):
    """Sends a request at regular intervals; a request may hang.

    :param interval: seconds
    """

    def __init__(self, name: str, interval: float) -> None:
        super().__init__(f'specreds-{name}', interval)
        self._name = name
        self._answered: float | None = None
        self._failing = False

    def age(self) -> float | None:
        """Return the age of the last answer in seconds; None before the first one."""
        answered = self._answered
        return None if answered is None else round(time.monotonic() - answered, 3)

    def beat(self) -> None:
        """Send one request."""
        requested_at = time.monotonic()
        try:
            self.ask()
        except Exception as exc:
            # The libraries raise errors of many classes; each of them means no answer.
            if not self._failing:
                LOG.warning('%s does not answer: %s', self._name, exc)
            self._failing = True
            return
        if self._failing:
            LOG.info('%s answers again', self._name)
        self._failing = False
        # An answer shows the state at the time of its request, not later.
        self._answered = max(requested_at, self._answered or requested_at)

    def ask(self) -> None:
        """Send a request and wait for its answer. Any exception means no answer."""
        raise NotImplementedError


class Libvirt(Probe):
    """Probes libvirt over a connection of its own, which also reports crashes.

    :param uri: of libvirt
    :ivar on_crash: called with the UUID of each server whose domain crashes
    :ivar domains: UUIDs of the domains that ran at the last answer; None before the first one
    """

    def __init__(self, conf: Any, uri: str) -> None:
        super().__init__('libvirt', conf.specreds.heartbeat_probe_interval)
        self._uri = uri
        self._connection: Any = None
        self.on_crash: Callable[[str], None] = lambda server: None
        self.domains: frozenset[str] | None = None

    def ask(self) -> None:
        """List the running domains in one call."""
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
            # Without polkit, libvirt admits only users with all rights; Nova's is one.
            connection = libvirt.open(self._uri)
        # Nova runs libvirt's event loop.
        connection.domainEventRegisterAny(
            None, libvirt.VIR_DOMAIN_EVENT_ID_LIFECYCLE, self._lifecycle, None)
        return connection

    def _lifecycle(self, _connection: Any, domain: Any, event: int, detail: int,
                   _opaque: Any) -> None:
        if (event, detail) in _CRASHES:
            self.on_crash(domain.UUIDString())


class Sentinel(Probe):
    """Reads what the sentinel of this host has written down of itself. It need not run."""

    def __init__(self, conf: Any) -> None:
        super().__init__('sentinel', conf.specreds.heartbeat_probe_interval)
        self._path = pathlib.Path(conf.state_path, 'specreds', status.NAME)
        self._written = status.Written('', float('nan'))

    def report(self) -> tuple[str, float | None]:
        """Return ``lease`` and ``sentinel_age`` of a beat, as of the latest reading."""
        age = status.age(self._written)
        return self._written.lease, None if age is None else round(age, 1)

    def ask(self) -> None:
        """Read the file."""
        self._written = status.read(self._path)


class Storage(Probe):
    """Probes Ceph: an OSD of each readable pool, which the servers' disks need as well.

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
        """Return the clients to use, as ``CLIENT`` or ``CLIENT@CONF``; none without Ceph."""
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
        """Return whether the pool can be read."""
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
