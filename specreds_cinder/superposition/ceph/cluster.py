# SPDX-License-Identifier: Apache-2.0
"""A connection to a Ceph cluster, on which every call has a timeout."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent import futures
import contextlib
import dataclasses
import errno
import functools
import json
import math
import queue
import threading
from typing import Any

import rados
import rbd

from specreds_cinder.superposition import errors
from specreds_cinder.superposition.ceph import address
from specreds_cinder.superposition.ceph import librados

DEFAULT_TIMEOUT = 10.0
# Every operation goes to the primary OSD of its placement group. The second sweep relies on it:
# if a replica answers, the primary OSD may not have the osdmap with the fence. Older releases of
# Ceph lack this option and always ask the primary OSD.
_PINNED = {'rados_replica_read_policy': 'default'}
# CEPH_STR_HASH_RJENKINS of Ceph's include/ceph_hash.h.
_RJENKINS = 2
_TIMED_OUT = (errno.ETIMEDOUT, errno.EAGAIN)
# Notifications that wait for a client that does not answer, at a time.
_NOTIFICATIONS = 256
_CONNECTION_LOST = (errno.ESHUTDOWN, errno.ENOTCONN)


@dataclasses.dataclass(frozen=True)
class Pool:
    """The properties of a pool that the protocol needs, at one moment.

    :param merges: changes whenever two placement groups of the pool were merged
    :param rjenkins: names of objects are hashed as this code does
    :param full: no write that needs space is admitted
    """

    id: int
    name: str
    pg_num: int
    merges: str
    erasure: bool
    cache_tier: bool
    rbd: bool
    rjenkins: bool = True
    full: bool = False


class Cluster:
    """A connection that is made on entry or at its first use, and closed on exit.

    :param conffile: path of ceph.conf; the keyring is found through it
    :param user: cephx user, without ``client.``
    :param timeout: seconds that any single call to the cluster may take
    :param name: name of the cluster
    """

    def __init__(self, conffile: str = '/etc/ceph/ceph.conf', user: str = 'admin',
                 timeout: float = DEFAULT_TIMEOUT, name: str = 'ceph') -> None:
        if not timeout > 0:
            raise errors.InvalidInput(f'the cluster timeout must be positive, not {timeout}')
        self.conffile = conffile
        self.user = user
        self.timeout = timeout
        self.name = name
        # Ceph takes whole seconds here.
        self._seconds = math.ceil(timeout)
        seconds = str(self._seconds)
        self._options = {
            'rados_osd_op_timeout': seconds,
            'rados_mon_op_timeout': seconds,
            'client_mount_timeout': seconds,
        }
        self._lock = threading.Lock()
        self._rados: Any = None
        self._aio: librados.Client | None = None
        self._notifier: futures.ThreadPoolExecutor | None = None

    def __enter__(self) -> 'Cluster':
        self.rados  # noqa: B018  connect at once, so that a bad configuration fails here
        return self

    def apart(self) -> 'Cluster':
        """Return another connection to the same cluster, which is not open yet."""
        return Cluster(**self.parameters)

    @property
    def parameters(self) -> dict[str, Any]:
        """Return the arguments of another connection to the same cluster, none of them secret."""
        return {'conffile': self.conffile, 'user': self.user, 'timeout': self.timeout,
                'name': self.name}

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; a later use connects again."""
        with self._lock:
            aio, self._aio = self._aio, None
            handle, self._rados = self._rados, None
            notifier, self._notifier = self._notifier, None
            # The next connection has another address.
            self.__dict__.pop('addresses', None)
        if notifier is not None:
            notifier.shutdown()
        if aio is not None:
            aio.close()
        if handle is not None:
            handle.shutdown()

    @property
    def rados(self) -> Any:
        """Return the python-rados handle; connect first if necessary.

        :raises ClusterError: the cluster cannot be reached with this configuration
        """
        with self._lock:
            if self._rados is None:
                self._rados = self._connect()
            return self._rados

    @property
    def aio(self) -> librados.Client:
        """Return the client whose operations report versions. It has an osdmap of its own."""
        with self._lock:
            if self._aio is None:
                self._aio = librados.Client(self.conffile, self.user, self.name, {
                    **self._options,
                    # The sweep is bound by CPU: one messenger thread, no debug buffer.
                    'ms_async_op_threads': '1',
                    # A cut writes to all placement groups of a pool at once.
                    'objecter_inflight_ops': '65536',
                    'debug_ms': '0/0', 'debug_objecter': '0/0', 'debug_rados': '0/0',
                }, _PINNED)
            return self._aio

    @contextlib.contextmanager
    def ioctx(self, pool: str, namespace: str = '') -> Iterator[Any]:
        """Open a pool's namespace.

        :raises PoolGone: there is no such pool
        """
        with answering(f'open pool {pool}'):
            io = self.rados.open_ioctx(pool)
        try:
            io.set_namespace(namespace)
            yield io
        finally:
            io.close()

    def mon(self, command: Mapping[str, object]) -> Any:
        """Run a monitor command and return its JSON answer; None if it has none.

        :raises ClusterTimeout: no monitor answered in time
        :raises NotAllowed: the user may not run the command
        :raises ClusterError: the command was refused
        """
        what = str(command['prefix'])
        with answering(what):
            code, out, status = self.rados.mon_command(
                json.dumps({**command, 'format': 'json'}), b'', timeout=self._seconds)
        if -code in _TIMED_OUT:
            raise errors.ClusterTimeout(f'{what}: no monitor answered within {self.timeout:g} s')
        if -code in (errno.EACCES, errno.EPERM):
            raise errors.NotAllowed(
                f'{what}: client.{self.user} lacks capabilities: run the command that '
                f'"specreds-super --user admin caps client.{self.user}" prints')
        if code < 0:
            raise errors.ClusterError(f'{what}: {status}')
        text = out.decode().strip()
        # Some commands ("osd blocklist ls") append their status text to the JSON.
        return json.JSONDecoder().raw_decode(text)[0] if text[:1] in ('[', '{') else None

    def notify(self, pool_id: int, namespace: str, name: str, message: bytes,
               patience_s: float, *, ended: bool = False) -> list[bytes] | None:
        """Send a message to all clients that watch an object, and return their answers.

        :param patience_s: seconds after which no answer is waited for. If the message was sent by
            then, Ceph goes on for a second
        :param ended: Ceph has to say that nobody has answered
        :returns: none if a client has not answered by then; None if the message was not sent, or
            if nobody knows yet and `ended` is set
        :raises ClusterTimeout: an OSD did not answer in time
        :raises ClusterError: the message was not sent for another reason
        """
        io = self.aio.ioctx(pool_id, namespace)
        with self._lock:
            if self._notifier is None:
                self._notifier = futures.ThreadPoolExecutor(_NOTIFICATIONS, 'notify')
            # Ceph takes whole seconds here.
            answers = self._notifier.submit(io.notify, name.encode(), message, 1.0)
        try:
            return answers.result(patience_s)
        except futures.TimeoutError:
            # One that waits for its turn would be sent when nobody counts on it any more.
            if answers.cancel():
                return None
            if answers.done():
                return answers.result()
            return None if ended else []

    def wait_for_latest_osdmap(self) -> None:
        """Make every later operation of both clients carry at least the osdmap of this moment.

        Ceph waits for this without a limit if the monitors vanish meanwhile; the thread that then
        still waits ends with the process.

        :raises ClusterTimeout: no monitor answered in time
        """
        results: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

        def wait() -> None:
            try:
                self.aio.wait_for_latest_osdmap()
                with answering('wait for the latest osdmap'):
                    self.rados.wait_for_latest_osdmap()
            except BaseException as exc:
                results.put(exc)
            else:
                results.put(None)
        threading.Thread(target=wait, daemon=True, name='osdmap').start()
        try:
            error = results.get(timeout=self.timeout)
        except queue.Empty:
            raise errors.ClusterTimeout(f'wait for the latest osdmap: no monitor answered within '
                                        f'{self.timeout:g} s') from None
        if error is not None:
            raise error

    def pools(self) -> dict[int, Pool]:
        """Return the pools by id, as the monitors know them at this moment.

        :raises ClusterTimeout: no monitor answered in time
        """
        return {entry['pool_id']: _pool(entry)
                for entry in self.mon({'prefix': 'osd pool ls', 'detail': 'detail'})}

    @functools.cached_property
    def addresses(self) -> frozenset[str]:
        """Return the addresses of the python-rados handle, with their nonces."""
        return address.found_in(self.rados.get_addrs())

    def _connect(self) -> Any:
        with answering(f'connect to the cluster of {self.conffile} as client.{self.user}'):
            handle = rados.Rados(conffile=self.conffile, clustername=self.name,
                                 name=f'client.{self.user}', conf=self._options)
            try:
                for option, value in _PINNED.items():
                    with contextlib.suppress(rados.ObjectNotFound):
                        handle.conf_set(option, value)
                handle.connect()
            except rados.Error:
                handle.shutdown()
                raise
        return handle


def namespaces(io: Any) -> list[str] | None:
    """Return the namespaces of a pool, of which the first has no name.

    :returns: None if the user may not read the pool
    """
    try:
        return ['', *rbd.RBD().namespace_list(io)]
    except rbd.PermissionError:
        return None


def full(pools: Mapping[int, Pool], ids: Iterable[int]) -> list[str]:
    """Return which pools admit no write that needs space, and what to do; empty for none."""
    return [f'pool {pools[pool_id].name} is full: free space, or raise its quota'
            for pool_id in sorted(set(ids)) if pool_id in pools and pools[pool_id].full]


@contextlib.contextmanager
def answering(what: str) -> Iterator[None]:
    """Turn errors of python-rados and python-rbd into errors of this package.

    Errors that callers handle by name (not found, exists, busy) pass through unchanged.
    """
    try:
        yield
    except (rados.ObjectNotFound, rados.ObjectExists, rbd.ImageNotFound, rbd.ImageExists,
            rbd.ImageBusy) as exc:
        if isinstance(exc, rados.ObjectNotFound) and what.startswith(('open pool', 'connect')):
            kind = errors.ClusterError if what.startswith('connect') else errors.PoolGone
            raise kind(f'could not {what}: not found ({exc})') from exc
        raise
    except (rados.Error, rbd.Error) as exc:
        code = abs(getattr(exc, 'errno', None) or 0)
        if code in _TIMED_OUT or isinstance(exc, rados.TimedOut | rbd.Timeout):
            raise errors.ClusterTimeout(
                f'could not {what}: Ceph did not answer in time ({exc})') from exc
        if code in _CONNECTION_LOST:
            raise errors.ClusterError(
                f'could not {what}: this client has been blocklisted or shut down ({exc})'
            ) from exc
        raise errors.ClusterError(f'could not {what}: {exc}') from exc


def _pool(entry: Mapping[str, Any]) -> Pool:
    return Pool(
        id=entry['pool_id'], name=entry['pool_name'], pg_num=entry['pg_num'],
        merges=json.dumps(entry.get('last_pg_merge_meta'), sort_keys=True),
        erasure=entry['type'] == 3,
        cache_tier=bool(entry['tiers'] or entry['tier_of'] >= 0
                        or entry['read_tier'] >= 0 or entry['write_tier'] >= 0),
        rbd='rbd' in entry['application_metadata'],
        rjenkins=entry['object_hash'] == _RJENKINS,
        full='full' in entry.get('flags_names', '').split(','))
