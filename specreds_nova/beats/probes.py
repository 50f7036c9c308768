# SPDX-License-Identifier: Apache-2.0
"""Probes of what servers depend on: libvirt, Ceph and the sentinel, each in its own thread."""

from collections.abc import Callable, Iterable, Mapping
import contextlib
import dataclasses
import json
import pathlib
import time
from typing import Any

import libvirt
from oslo_log import log as logging

from specreds_nova import conf as options
from specreds_nova import libvirt_connection
from specreds_nova.beats import message
from specreds_nova.beats import pulse
from specreds_nova.sentinel import conf as sentinel_conf
from specreds_nova.sentinel import status

try:
    import rados

    from specreds_cinder.superposition.ceph import cluster
    from specreds_nova import storage_ping
except ImportError:
    # This host has no client of Ceph.
    rados = None

LOG = logging.getLogger(__name__)

# Seconds between two questions. Engines doubt a host whose last answer is some times as old.
_INTERVAL_S = 1.0
_RUNNING = 'running.json'
_CRASHES = frozenset({
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_CRASHED),
    # QEMU has ended without a request.
    (libvirt.VIR_DOMAIN_EVENT_STOPPED, libvirt.VIR_DOMAIN_EVENT_STOPPED_FAILED),
    (libvirt.VIR_DOMAIN_EVENT_CRASHED, libvirt.VIR_DOMAIN_EVENT_CRASHED_PANICKED),
    (libvirt.VIR_DOMAIN_EVENT_CRASHED, libvirt.VIR_DOMAIN_EVENT_CRASHED_CRASHLOADED),
})
# States and reasons of domains that have crashed. A libvirt that starts finds no QEMU, and notes a
# crash: a guest that shuts itself down leaves its QEMU until libvirt ends it.
_CRASHED = frozenset({
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_CRASHED),
    (libvirt.VIR_DOMAIN_SHUTOFF, libvirt.VIR_DOMAIN_SHUTOFF_FAILED),
    (libvirt.VIR_DOMAIN_CRASHED, libvirt.VIR_DOMAIN_CRASHED_PANICKED),
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

    The domains that run are on disk, for the nova-compute that is started next: a guest may crash
    while none runs. So are those whose crashes are being reported: that nova-compute may go on.

    :param uri: of libvirt
    :ivar on_crash: called with the UUID of each server whose domain crashes
    :ivar reporting: returns the servers whose crashes are being reported
    :ivar domains: UUIDs of the domains that ran at the last answer; None before the first one
    """

    def __init__(self, conf: Any, uri: str) -> None:
        super().__init__('libvirt', _INTERVAL_S)
        self._uri = uri
        self._path = pathlib.Path(conf.state_path, 'specreds', _RUNNING)
        self._unwritten = False
        self._connection: Any = None
        self._written: frozenset[str] | None = None
        self.on_crash: Callable[[str], None] = lambda server: None
        self.reporting: Callable[[], Iterable[str]] = tuple
        self.domains: frozenset[str] | None = None

    def ask(self) -> None:
        """List the running domains in one call."""
        anew = self._connection is None
        if anew:
            self._connection = self._connect()
        try:
            active = self._connection.listAllDomains(libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
        except libvirt.libvirtError:
            with contextlib.suppress(libvirt.libvirtError):
                self._connection.close()
            self._connection = None
            raise
        if self.domains is None:
            before = self._written = self._read()
        else:
            before = self.domains
        self.domains = frozenset(domain.UUIDString() for domain in active)
        if anew:
            # No event tells what has happened while libvirt or nova-compute was away.
            for server in sorted(before - self.domains):
                if self._has_crashed(server):
                    self.on_crash(server)
        to_write = self.domains.union(self.reporting())
        if to_write != self._written:
            self._write(to_write)

    def _has_crashed(self, server: str) -> bool:
        with contextlib.suppress(libvirt.libvirtError):
            return tuple(self._connection.lookupByUUIDString(server).state()) in _CRASHED
        # It is no domain of this host any more.
        return False

    def _read(self) -> frozenset[str]:
        """Return the domains that ran when a nova-compute of this boot was answered last."""
        try:
            written = json.loads(self._path.read_text())
            return frozenset(written['running'] if written['boot'] == status.boot() else ())
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError, KeyError, TypeError) as exc:
            LOG.warning('crashes from before the start of this nova-compute are unknown: %s', exc)
            return frozenset()

    def _write(self, domains: frozenset[str]) -> None:
        """Write domains down if possible."""
        self._written = domains
        new = self._path.with_suffix('.new')
        try:
            new.write_text(json.dumps({'boot': status.boot(),
                                       'running': sorted(domains)}) + '\n')
            new.replace(self._path)
        except OSError as exc:
            if not self._unwritten:
                LOG.warning('the next nova-compute will not know which servers ran: %s', exc)
            self._unwritten = True

    def _connect(self) -> Any:
        connection = libvirt_connection.connect(self._uri)
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
        super().__init__('sentinel', _INTERVAL_S)
        self._path = pathlib.Path(conf.state_path, 'specreds', status.NAME)
        self._written = status.Written('', float('nan'))

    def report(self) -> tuple[str, float | None]:
        """Return ``lease`` and ``sentinel_age`` of a beat, as of the latest reading."""
        age = status.age(self._written)
        return self._written.lease, None if age is None else round(age, 1)

    def places(self) -> frozenset[tuple[str, str]]:
        """Return the cephx users and the pools of local disks; empty where that is unknown."""
        return self._written.places

    def ask(self) -> None:
        """Read the file. A sentinel that has written none that can be read ages.

        Without an earlier reading the sentinel has no lease: engines may count on no unknown one.
        """
        try:
            self._written = status.read(self._path)
        except Exception:
            if not self._written.lease:
                self._written = dataclasses.replace(self._written, lease=message.UNLEASED)
            raise


class Storage(Probe):
    """Probes Ceph: some OSD of each pool that has disks of this host.

    A host without disks needs an answer of any readable pool. The clients belong to
    specreds-sentinel.

    :param places: returns the cephx users and the pools of local disks
    """

    def __init__(self, conf: Any, places: Callable[[], frozenset[tuple[str, str]]] = frozenset
                 ) -> None:
        super().__init__('storage', _INTERVAL_S)
        self._conffile: str = conf.specreds.sentinel_ceph_conf
        self._timeout: float = sentinel_conf.TIMEOUT_S
        self._clients: Mapping[str, str] = conf.specreds.sentinel_clients
        self._users = self.users(conf)
        self._places = places
        self._connected: dict[str, Any] = {}
        self._pools: dict[tuple[str, str], storage_ping.Pool] = {}
        # By user: the pool that has answered last, where any readable one will do.
        self._any: dict[str, str] = {}

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
        """Ask each pool with disks of this host, or any pool."""
        own: dict[str, list[str]] = {}
        for owner, pool in sorted(self._places()):
            user = self._clients.get(owner, owner)
            if user in self._users:
                own.setdefault(user, []).append(pool)
        for user in own or self._users:
            try:
                if user not in self._connected:
                    self._connected[user] = self._connect(user)
                readable = ([pool for pool in own[user] if self._answers(user, pool)] if own
                            else self._first(user))
                if not readable:
                    raise LookupError(f'client {user} may not read any pool')
            except Exception:
                self._drop(user)
                raise

    def end(self) -> None:
        """Disconnect."""
        for user in tuple(self._connected):
            self._drop(user)

    def _first(self, user: str) -> list[str]:
        """Return the first readable pool that answers; empty if no pool may be read."""
        before = self._any.get(user)
        error: Exception | None = None
        for pool in sorted(self._connected[user].list_pools(), key=lambda pool: pool != before):
            try:
                if self._answers(user, pool):
                    self._any[user] = pool
                    return [pool]
            except rados.Error as exc:
                error = exc
        if error is not None:
            raise error
        return []

    def _answers(self, user: str, pool: str) -> bool:
        """Return whether a pool may be read; raise if it does not answer."""
        if (user, pool) not in self._pools:
            try:
                self._pools[user, pool] = storage_ping.Pool(self._connected[user], pool)
            except rados.ObjectNotFound:
                # It was deleted after its last disk.
                return False
        return self._pools[user, pool].ask(self._timeout)

    def _connect(self, user: str) -> Any:
        client, _, conffile = user.partition('@')
        return cluster.Cluster(conffile or self._conffile, client, self._timeout).rados

    def _drop(self, user: str) -> None:
        for place in [place for place in self._pools if place[0] == user]:
            self._pools.pop(place).close()
        connected = self._connected.pop(user, None)
        if connected is not None:
            connected.shutdown()
