# SPDX-License-Identifier: Apache-2.0
"""The voice of this machine: beats by UDP to each engine, ten per second.

Engines tell nova-compute by the broker where they hear sentinels, and nova-compute tells this
program. The addresses are on disk, for a sentinel that starts while nova-compute does not run. A
sentinel without a key, or without an address, says nothing.
"""

from collections.abc import Callable, Mapping
import contextlib
import dataclasses
import ipaddress
import json
import os
import pathlib
import select
import socket
import threading

from oslo_log import log as logging

from specreds_nova.beats import renewals
from specreds_nova.beats import voice

LOG = logging.getLogger(__name__)

KEY = 'voice.key'
_ENGINES = 'sentinel-engines.json'
# Beats whose answers may be on their way.
_ANSWERED = 100
# Beats by which a sentinel says goodbye: all but one may be lost.
_GOODBYES = 5


@dataclasses.dataclass
class _Engine:
    """An engine.

    :ivar boot: tells the answers of this engine from the answers of others
    """

    address: str
    boot: bytes
    nonce: bytes = voice.NO_NONCE
    said: int = -1
    answered: int = -1


class Speaker:
    """The thread that speaks, and hears the answers.

    :param state: directory of the state of this host, with the key
    :param host: name of this host in Nova
    :param kernel: id of the boot of this host
    :param facts: returns the lease and the age of Ceph's latest answer, as in a beat
    """

    def __init__(self, state: pathlib.Path, host: str, kernel: str,
                 facts: Callable[[], tuple[str, float | None]]) -> None:
        self._state = state
        self._host = host
        self._kernel = voice.kernel_id(kernel)
        self._facts = facts
        self._key: voice.Key | None = None
        self._used: tuple[bytes, ...] = ()
        # The addresses that were refused last.
        self._refused: set[str] = set()
        self._engines = {name: _Engine(address, os.urandom(voice.ID))
                         for name, address in self._load().items()}
        self._sockets: dict[socket.AddressFamily, socket.socket] = {}
        self._number = 0
        # When each beat was sent, by its number.
        self._sent: dict[int, float] = {}
        self._renewal: renewals.Renewal | None = None
        self._unauthenticated = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name='voice')

    def start(self) -> None:
        """Begin."""
        self.use_key()
        self._thread.start()

    def stop(self, patience: float) -> None:
        """Say goodbye, and end.

        :param patience: seconds that this may take
        """
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(patience)

    def know(self, engines: Mapping[str, str]) -> None:
        """Take the addresses of engines, by name, and write them down if they are new.

        :param engines: the latest ones last; anything that is no address is left out
        :raises OSError: they cannot be written down
        """
        before, usable = self._engines, self._usable(engines)
        known = {name: engine for name, engine in before.items() if name not in usable}
        for name, address in usable.items():
            engine = before.get(name)
            known[name] = (engine if engine is not None and engine.address == address
                           else _Engine(address, os.urandom(voice.ID)))
        known = dict(list(known.items())[-renewals.ENGINES:])
        self._engines = known
        if known == before:
            return
        path = self._state / _ENGINES
        fresh = path.with_suffix('.new')
        fresh.write_text(json.dumps({name: engine.address
                                     for name, engine in self._engines.items()}) + '\n')
        fresh.replace(path)

    def _usable(self, engines: Mapping[str, str]) -> dict[str, str]:
        """Return the addresses that are some, and warn once of the others."""
        usable, refused = {}, set()
        for name, address in engines.items():
            try:
                _target(address)
                usable[name] = address
            except ValueError as exc:
                refused.add(address)
                if address not in self._refused:
                    LOG.warning('engine %s is not spoken to at %r: %s', name, address, exc)
        self._refused = refused
        return usable

    def use_key(self) -> None:
        """Read the key of this host; a file that cannot be read changes nothing."""
        try:
            keys = voice.read_keys(self._state / KEY, 1)
        except (OSError, ValueError) as exc:
            LOG.warning('the former key of the voice of this host is used on: %s', exc)
            return
        if keys != self._used:
            self._used = keys
            self._key = voice.Key(keys[0]) if keys else None
            LOG.info('engines are spoken to by UDP' if keys else 'engines are not spoken to')

    def renewed(self) -> renewals.Renewal | None:
        """Return the latest renewal of the lease by an answer, once."""
        renewal, self._renewal = self._renewal, None
        return renewal

    def _load(self) -> dict[str, str]:
        try:
            known = json.loads((self._state / _ENGINES).read_text())
            return self._usable({str(name): str(address) for name, address in known.items()})
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, AttributeError) as exc:
            LOG.warning('engines are not known before one has answered a heartbeat: %s', exc)
            return {}

    def _run(self) -> None:
        due = renewals.now()
        while not self._stop.is_set():
            try:
                self._say(voice.Kind.BEAT)
                due = max(due + voice.INTERVAL, renewals.now())
                self._hear(due)
            except Exception:
                # Whatever it is, the next beat may do better; none at all would not.
                LOG.exception('the voice of this host fails')
                self._stop.wait(voice.INTERVAL)
        for _ in range(_GOODBYES):
            with contextlib.suppress(OSError):
                self._say(voice.Kind.GOODBYE)
                self._hear(renewals.now() + voice.INTERVAL)
            if all(engine.answered >= engine.said for engine in self._engines.values()):
                break
        for each in self._sockets.values():
            each.close()

    def _say(self, kind: voice.Kind) -> None:
        """Send a beat to each engine."""
        key, number = self._key, self._number
        if key is None:
            return
        self._number += 1
        lease, age = self._facts()
        self._sent[number] = renewals.now()
        self._sent.pop(number - _ANSWERED, None)
        for engine in list(self._engines.values()):
            engine.said = number
            beat = key.beat(voice.Beat(self._host, engine.boot, number, self._kernel,
                                       engine.nonce, kind, lease, age))
            try:
                family, address = _target(engine.address)
                self._socket(family).sendto(beat, address)
            except (OSError, OverflowError, ValueError) as exc:
                LOG.debug('engine at %s: %s', engine.address, exc)

    def _socket(self, family: socket.AddressFamily) -> socket.socket:
        if family not in self._sockets:
            made = socket.socket(family, socket.SOCK_DGRAM)
            made.setblocking(False)
            self._sockets[family] = made
        return self._sockets[family]

    def _hear(self, until: float) -> None:
        """Take answers until a time."""
        while (left := until - renewals.now()) > 0:
            if not self._sockets:
                self._stop.wait(left)
                return
            ready, _, _ = select.select(list(self._sockets.values()), [], [], left)
            for each in ready:
                with contextlib.suppress(OSError):
                    self._take(each.recv(voice.LONGEST))

    def _take(self, datagram: bytes) -> None:
        """Take an answer; what is none changes nothing."""
        try:
            answer = None if self._key is None else self._key.answered(datagram)
        except voice.MalformedError as exc:
            LOG.debug('an answer of an engine is malformed: %s', exc)
            return
        if answer is None:
            if not self._unauthenticated:
                LOG.warning('an answer to the voice of this host has another key')
            self._unauthenticated = True
            return
        engine = next((engine for engine in list(self._engines.values())
                       if engine.boot == answer.boot), None)
        at = self._sent.get(answer.number)
        if engine is None or at is None or answer.number < engine.answered:
            # It is old, or somebody has sent it once more.
            return
        engine.nonce, engine.answered = answer.nonce, answer.number
        if answer.says is not voice.Says.NOTHING:
            # Counted from when the beat was sent, whenever the answer arrives.
            renewal = renewals.Renewal(at, answer.says is voice.Says.HIDE)
            latest = self._renewal
            self._renewal = renewal if latest is None else max(latest, renewal)


def _target(address: str) -> tuple[socket.AddressFamily, tuple[str, int]]:
    """Return where an engine is, from ``ADDRESS:PORT`` or ``[ADDRESS]:PORT``.

    :raises ValueError: that is no address
    """
    host, _, port = address.rpartition(':')
    host = host.removeprefix('[').removesuffix(']')
    family = socket.AF_INET6 if ipaddress.ip_address(host).version == 6 else socket.AF_INET
    if not 0 < int(port) < 65536:
        raise ValueError(f'there is no port {port}')
    return family, (host, int(port))
