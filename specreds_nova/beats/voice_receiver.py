# SPDX-License-Identifier: Apache-2.0
"""The socket to which the sentinels of all hosts send their beats.

The socket is read until it is empty, 50 times per second, whatever else the engine is busy with.
``./run bench detector`` measures what 10,000 hosts take: 0.61 cores with 6.2 µs for each beat. One
call of ``recvmsg`` takes 2.0 µs of these, a MAC 0.6 µs, and two answers per second to each host
1.5 µs.
"""

from collections.abc import Callable, Iterable
import contextlib
import ipaddress
import pathlib
import socket
import struct
import threading
from typing import Any

from oslo_log import log as logging

from specreds_nova import progress
from specreds_nova.beats import voice
from specreds_nova.beats import voices as all_voices
from specreds_nova.engine import exception
from specreds_nova.engine.clients import clock as clocks

LOG = logging.getLogger(__name__)

# Seconds between two times at which the socket is read, and between two looks at the key file.
_COLLECT, _KEYS = 0.02, 5.0
# Datagrams that are taken together, and bytes of those that may wait in the kernel.
_TOGETHER, _BUFFER = 1000, 16 << 20
# Master keys that are valid at the same time.
MASTERS = 2
# Number of the socket option by which the kernel counts the datagrams that it drops.
_RXQ_OVFL = 40
_COUNT = struct.Struct('=I')
_HANGS = 10.0


class VoiceReceiver:
    """The thread that reads.

    :param address: ``ADDRESS``, ``ADDRESS:PORT`` or ``[ADDRESS]:PORT``, to listen at; empty for
        all addresses
    :param local: returns the address by which the engine reaches its broker; empty if unknown
    :param keys: file with the master keys; without it, nobody is heard
    :raises exception.Invalid: the address or the keys cannot be used
    """

    def __init__(self, voices: all_voices.Voices, clock: clocks.Clock, address: str,
                 keys: pathlib.Path, local: Callable[[], str] = lambda: '') -> None:
        self._voices = voices
        self._clock = clock
        self._keys = keys
        self._local = local
        self._warned = False
        self._read: tuple[bytes, ...] = ()
        self._looked = float('-inf')
        self._listens = parsed(address)
        self._socket: socket.socket | None = None
        self._lost = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name='specreds-voices', daemon=True)
        self._progress = progress.Progress(self._thread, _HANGS)
        try:
            self._use_keys()
        except (OSError, ValueError) as exc:
            raise exception.Invalid(f'the key of heartbeats cannot be used: {exc}') from exc
        self._looked = clock.now()

    def start(self) -> None:
        """Begin, if there is a key.

        :raises exception.Invalid: the address cannot be listened at
        """
        if not self._read:
            LOG.warning('there is no master key in %s: no sentinel is heard, so that the death of '
                        'a nova-compute is taken for the death of its host; '
                        '"specreds-engine-manage key new" makes one', self._keys)
            return
        host, port = self._listens
        try:
            self._socket = _bound(host, port)
        except OSError as exc:
            raise exception.Invalid(
                f'heartbeats by UDP cannot be heard at {host or "any address"}, port {port}: '
                f'{exc}') from exc
        self._thread.start()

    def stop(self, patience: float) -> None:
        """End.

        :param patience: seconds that the thread may take
        """
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(patience)
        if self._socket is not None:
            self._socket.close()

    def problems(self) -> list[str]:
        """Return whether the thread has ended or hangs."""
        return self._progress.problems() if self._thread.ident is not None else []

    def answerable(self) -> list[tuple[str, bytes, int]]:
        """Return host, boot and number of the latest sign of life of each sentinel."""
        return self._voices.answerable()

    def renew(self, host: str, boot: bytes, number: int, hides: bool) -> None:
        """Renew the lease of a host by an answer to its sentinel."""
        renewal = self._voices.renewal(
            host, boot, number, voice.Says.HIDE if hides else voice.Says.SHOW)
        if renewal is not None:
            self.send((renewal,))

    def address(self) -> str:
        """Return where hosts reach this engine; empty if that is unknown, or nobody is heard."""
        if self._socket is None:
            return ''
        host, port = self._listens[0] or self._local(), self._socket.getsockname()[1]
        if not self._listens[0] and host and ipaddress.ip_address(host).is_loopback:
            if not self._warned:
                LOG.warning('hosts are not told where this engine hears their sentinels, as it '
                            'reaches its broker at %s: set voice_address', host)
            self._warned = True
            return ''
        return f'[{host}]:{port}' if ':' in host else f'{host}:{port}' if host else ''

    def send(self, datagrams: Iterable[tuple[bytes, Any]]) -> None:
        """Send answers; one that the kernel does not take is lost, as others are on their way."""
        if self._socket is not None:
            for datagram, address in datagrams:
                with contextlib.suppress(OSError):
                    self._socket.sendto(datagram, address)

    def _run(self) -> None:
        while not self._stopped.wait(_COLLECT):
            self._progress.note()
            self._drain()
            if self._clock.now() - self._looked >= _KEYS:
                self._looked = self._clock.now()
                try:
                    self._use_keys()
                except (OSError, ValueError) as exc:
                    LOG.warning('the former key of heartbeats is used on: %s', exc)

    def _drain(self) -> None:
        """Read until the socket is empty, or others have waited for long enough."""
        began = before = self._clock.now()
        while before - began < _COLLECT:
            datagrams, more = self._received()
            self.send(self._voices.hear(datagrams))
            if not more:
                self._voices.empty(before, self._lost)
                return
            before = self._clock.now()

    def _received(self) -> tuple[list[tuple[bytes, Any]], bool]:
        """Return the datagrams that have arrived, and whether there may be more."""
        assert self._socket is not None
        datagrams: list[tuple[bytes, Any]] = []
        receive, append, longest = self._socket.recvmsg, datagrams.append, voice.LONGEST
        space = socket.CMSG_SPACE(_COUNT.size)
        try:
            for _ in range(_TOGETHER):
                datagram, ancillary, _flags, address = receive(longest, space)
                append((datagram, address))
                if ancillary:
                    self._lost = _COUNT.unpack(ancillary[0][2])[0]
        except BlockingIOError:
            return datagrams, False
        except OSError as exc:
            # An answer was sent to a host that does not listen.
            LOG.debug('the voices of hosts: %s', exc)
        return datagrams, True

    def _use_keys(self) -> None:
        """Read the file with the keys, and use them if they are others.

        :raises OSError, ValueError: they cannot be used
        """
        keys = voice.read_keys(self._keys, MASTERS)
        if keys != self._read and (keys or not self._read):
            if self._read:
                LOG.info('%d keys of heartbeats are valid from now on', len(keys))
            self._read = keys
            self._voices.use(keys)


def of(conf: Any, voices: all_voices.Voices, clock: clocks.Clock, local: Callable[[], str]
       ) -> VoiceReceiver:
    """Return the receiver for the configured address and keys.

    :param conf: the global configuration
    :param local: returns the address by which the engine reaches its broker; empty if unknown
    :raises exception.Invalid: the address or the keys cannot be used
    """
    options = conf.engine
    return VoiceReceiver(voices, clock, options.voice_address, pathlib.Path(options.voice_keys),
                         local)


def parsed(address: str) -> tuple[str, int]:
    """Return an address and its port.

    :raises exception.Invalid: it is none
    """
    host, _, port = address.rpartition(':') if address.count(':') == 1 or ']' in address \
        else (address, '', '')
    if address.endswith(']'):
        host, port = address, ''
    host = host.removeprefix('[').removesuffix(']')
    try:
        if host:
            ipaddress.ip_address(host)
        number = int(port or voice.PORT)
    except ValueError as exc:
        raise exception.Invalid(f'{address} is no IP address and port') from exc
    if not 0 <= number < 1 << 16:
        raise exception.Invalid(f'{address} has no valid port')
    return host, number


def _bound(host: str, port: int) -> socket.socket:
    """Return a socket that is bound to an address.

    :raises OSError: it cannot be
    """
    every = not host and socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if ':' in host or every else socket.AF_INET
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if every:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER)
        made.setsockopt(socket.SOL_SOCKET, _RXQ_OVFL, 1)
        made.bind((host, port))
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
