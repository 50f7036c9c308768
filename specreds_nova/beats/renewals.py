# SPDX-License-Identifier: Apache-2.0
"""Renewals of the lease on the network, from nova-compute to the sentinel of the same host.

A renewal is the moment at which a heartbeat was sent that an engine has answered, and whether the
host is to hide its servers when it hears nobody. It also names the engine, and the address at
which that hears sentinels. It is told by a datagram on a local socket: the thread that sends
heartbeats waits neither for a disk nor for a sentinel that does not run.
"""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import time
from typing import Any, NamedTuple

from oslo_log import log as logging

from specreds_nova.beats import pulse

LOG = logging.getLogger(__name__)

# Seconds after which a sentinel that has heard neither Ceph nor an engine hides its servers.
# Longer than one slow call to Ceph. An engine waits for as long before it promotes a backup.
LEASE_S = 4.0
# Seconds from a heartbeat until a sentinel does not heed what the answer says of hiding: an engine
# that stood still may answer by a mode that is over. Engines wait for longer before they count on
# a host again (``engine/suspicion/sentinels.py``).
HEEDED_S = 5.0
# Most engines whose addresses a host remembers: the latest ones.
ENGINES = 16

_NAME = 'sentinel.sock'
_LONGEST = 1024
_HIDES, _SHOWS = 'hide', 'show'


class Renewal(NamedTuple):
    """An answer of an engine.

    :ivar at: the moment of :func:`now` at which the answered heartbeat was sent
    :ivar hides: whether the host is to hide its servers when it hears nobody
    :ivar voice: the address at which the engine hears sentinels, and the name of the ``engine``;
        both are empty if it hears none
    """

    at: float
    hides: bool
    voice: str = ''
    engine: str = ''


def now() -> float:
    """Return the seconds since the host's boot: one clock for all of its processes."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Teller:
    """Sends renewals to the sentinel. It never raises and never waits.

    :param directory: of the sentinel's state
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory
        self._socket: Any = None

    def tell(self, renewal: Renewal) -> None:
        """Send a renewal."""
        # Without a sentinel there is no lease, and one that is busy gets the next renewal.
        with contextlib.suppress(OSError), _reached(self._directory) as path:
            if self._socket is None:
                self._socket = _socket()
                self._socket.setblocking(False)
            what = f'{renewal.at!r} {_HIDES if renewal.hides else _SHOWS}'
            if renewal.voice:
                what += f' {renewal.voice} {renewal.engine}'
            self._socket.sendto(what.encode(), path)

    def close(self) -> None:
        """Close the socket."""
        if self._socket is not None:
            self._socket.close()


class Hearer:
    """Receives renewals.

    :param directory: of the sentinel's state; its owner may send
    :ivar voices: by engine: the address at which it hears sentinels; it is replaced and never
        changed, as another thread reads it
    :raises OSError: the socket cannot be made
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self.voices: dict[str, str] = {}
        self._socket: Any = _socket()
        path = directory / _NAME
        path.unlink(missing_ok=True)
        with _reached(directory) as reached:
            self._socket.bind(reached)
        path.chmod(0o600)
        if os.geteuid() == 0:
            owner = directory.stat()
            os.chown(path, owner.st_uid, owner.st_gid)

    def hear(self, seconds: float) -> Renewal | None:
        """Return the latest renewal that arrives within a time; None if there is none."""
        self._socket.settimeout(seconds)
        latest: Renewal | None = None
        try:
            while True:
                renewal = _parsed(self._socket.recv(_LONGEST))
                if renewal.voice:
                    self._know(renewal)
                latest = renewal if latest is None else max(latest, renewal)
                self._socket.settimeout(0.0)
        except (TimeoutError, BlockingIOError):
            return latest
        except ValueError as exc:
            LOG.warning('a renewal of the lease on the network is malformed: %s', exc)
            return latest

    def _know(self, renewal: Renewal) -> None:
        others = [(engine, voice) for engine, voice in self.voices.items()
                  if engine != renewal.engine]
        self.voices = dict([*others, (renewal.engine, renewal.voice)][-ENGINES:])

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


def _parsed(datagram: bytes) -> Renewal:
    """Return the renewal in a datagram.

    :raises ValueError: there is none
    """
    at, _, rest = datagram.decode().partition(' ')
    what, _, where = rest.partition(' ')
    voice, _, engine = where.partition(' ')
    return Renewal(float(at), what != _SHOWS, voice, engine)


def _socket() -> Any:
    sockets = pulse.native('socket')
    return sockets.socket(sockets.AF_UNIX, sockets.SOCK_DGRAM)


@contextlib.contextmanager
def _reached(directory: pathlib.Path) -> Iterator[str]:
    """Return the socket's path by a descriptor: a path of its own may be too long for one."""
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f'/proc/self/fd/{descriptor}/{_NAME}'
    finally:
        os.close(descriptor)
