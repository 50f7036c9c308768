# SPDX-License-Identifier: Apache-2.0
"""The voice of a host: datagrams of its sentinel to the engines, and the answers to these.

A datagram has a MAC of 16 bytes, a header, and, if it is a beat, the name of the host: about 64
bytes. A MAC is a keyed BLAKE2b. Each host has a key of its own, which follows from a master key of
the engines and the name of the host. While a master key is replaced, two of them are valid.

No datagram contains a time. Each answer of an engine has a nonce, and a beat proves that the host
lives only if it names a nonce that the engine has issued lately.
"""

import dataclasses
import enum
import hashlib
import hmac
import pathlib
import re
import secrets
import struct

from specreds_nova.beats import message

# Seconds between two beats, and for which a nonce of an engine counts.
INTERVAL = 0.1
NONCE_S = 2.0
NONCE = 8
NO_NONCE = bytes(NONCE)
# UDP port of engines.
PORT = 5410
# No datagram is longer.
LONGEST = 512
# Bytes of the ids in a beat, of a MAC and of a key.
ID, MAC, KEY = 8, 16, 32
# Kind, lease, and age of Ceph's latest answer in tenths of a second; number, ids of the process
# and of the boot of the host; nonce.
BEAT = struct.Struct(f'!BBHI{ID}s{ID}s{NONCE}s')
# Kind, what it says of the lease; number of the answered beat and its process; nonce.
_ANSWER = struct.Struct(f'!BBI{ID}s{NONCE}s')
# Bytes before the name of the host.
HEADER = MAC + BEAT.size
_BEATS, _ANSWERS, _HOSTS = b'specreds-beat', b'specreds-answer', b'specreds-host'
_UNKNOWN_AGE = 0xffff
LEASES = ('', message.LEASED, message.SHOWS, message.UNLEASED)
_is_key = re.compile(f'[0-9a-f]{{{2 * KEY}}}').fullmatch


class MalformedError(ValueError):
    """A datagram is no beat, or no answer."""


class Kind(enum.IntEnum):
    """What a beat is: one of many, or the last one before a stop in good order."""

    BEAT = 1
    GOODBYE = 2


class Says(enum.IntEnum):
    """What an answer says of the lease on the network."""

    NOTHING = 0
    HIDE = 1
    SHOW = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Beat:
    """What the sentinel of a host says.

    :ivar boot: another one after each start of the sentinel
    :ivar number: counts from 0 after each start
    :ivar kernel: digest of the id of the boot of the host
    :ivar nonce: of the engine that it is for; ``NO_NONCE`` before the first answer
    :ivar lease: as in a beat of nova-compute
    :ivar storage_age: seconds since Ceph has answered; None if nothing is asked
    """

    host: str
    boot: bytes
    number: int
    kernel: bytes
    nonce: bytes = NO_NONCE
    kind: Kind = Kind.BEAT
    lease: str = ''
    storage_age: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What an engine answers.

    :ivar boot: of the answered beat, and its ``number``
    :ivar nonce: for the next beats
    :ivar says: renews the lease, or nothing
    """

    boot: bytes
    number: int
    nonce: bytes
    says: Says = Says.NOTHING


def kernel_id(kernel: str) -> bytes:
    """Return what stands for a boot of a host in a beat; empty for an unknown one."""
    return hashlib.blake2b(kernel.encode(), digest_size=ID).digest() if kernel else b''


def host_key(master: bytes, host: str) -> bytes:
    """Return the key of a host."""
    return hashlib.blake2b(host.encode(), key=master, digest_size=KEY, person=_HOSTS).digest()


class Key:
    """The key of a host, prepared: a MAC takes 0.6 µs."""

    __slots__ = ('_answers', '_beats')

    def __init__(self, key: bytes) -> None:
        self._beats = hashlib.blake2b(key=key, digest_size=MAC, person=_BEATS)
        self._answers = hashlib.blake2b(key=key, digest_size=MAC, person=_ANSWERS)

    def proves(self, datagram: bytes) -> bool:
        """Return whether the host of this key has sent a beat."""
        mac = self._beats.copy()
        mac.update(datagram[MAC:])
        return hmac.compare_digest(mac.digest(), datagram[:MAC])

    def beat(self, beat: Beat) -> bytes:
        """Return a beat as it is sent."""
        tenths = _UNKNOWN_AGE if beat.storage_age is None else min(
            _UNKNOWN_AGE - 1, max(0, int(10 * beat.storage_age)))
        body = BEAT.pack(beat.kind, LEASES.index(beat.lease), tenths, beat.number, beat.boot,
                          beat.kernel or bytes(ID), beat.nonce) + beat.host.encode()
        mac = self._beats.copy()
        mac.update(body)
        return mac.digest() + body

    def answer(self, answer: Answer) -> bytes:
        """Return an answer as it is sent."""
        body = _ANSWER.pack(Kind.BEAT, answer.says, answer.number, answer.boot, answer.nonce)
        mac = self._answers.copy()
        mac.update(body)
        return mac.digest() + body

    def answered(self, datagram: bytes) -> Answer | None:
        """Return the answer in a datagram; None if it is of nobody who has this key.

        :raises MalformedError: it is no answer
        """
        if len(datagram) != MAC + _ANSWER.size:
            raise MalformedError(f'{len(datagram)} bytes are no answer')
        mac = self._answers.copy()
        mac.update(datagram[MAC:])
        if not hmac.compare_digest(mac.digest(), datagram[:MAC]):
            return None
        kind, says, number, boot, nonce = _ANSWER.unpack_from(datagram, MAC)
        if kind != Kind.BEAT or says not in Says._value2member_map_:
            raise MalformedError('it is no answer')
        return Answer(boot, number, nonce, Says(says))


def age(tenths: int) -> float | None:
    """Return the age of Ceph's latest answer, by its value in a datagram."""
    return None if tenths == _UNKNOWN_AGE else tenths / 10.0


def decoded(datagram: bytes) -> Beat:
    """Return the beat in a datagram, whoever has sent it.

    :raises MalformedError: there is none
    """
    if not HEADER < len(datagram) <= HEADER + message.NAME:
        raise MalformedError(f'{len(datagram)} bytes are no beat')
    kind, lease, tenths, number, boot, kernel, nonce = BEAT.unpack_from(datagram, MAC)
    try:
        host = datagram[HEADER:].decode()
    except UnicodeDecodeError as exc:
        raise MalformedError('the name of its host is malformed') from exc
    # Databases take a name with a space at its end for the one without.
    if host != host.strip() or not message.is_text(host):
        raise MalformedError('the name of its host is malformed')
    if kind not in Kind._value2member_map_ or lease >= len(LEASES):
        raise MalformedError('its kind or its lease is malformed')
    return Beat(host, boot, number, kernel, nonce, Kind(kind), LEASES[lease],
                age(tenths))


def new_key() -> str:
    """Return a new master key as it is written into a file."""
    return secrets.token_hex(KEY)


def read_keys(path: pathlib.Path, most: int) -> tuple[bytes, ...]:
    """Return the keys in a file, one per line, the newest one first; none without the file.

    :param most: keys that the file may have
    :raises OSError, ValueError: it cannot be read, or has something else
    """
    try:
        lines = path.read_bytes().decode('ascii', 'replace').split()
    except FileNotFoundError:
        return ()
    if not 0 < len(lines) <= most or not all(map(_is_key, lines)):
        raise ValueError(f'{path} has to have 1 to {most} keys of {2 * KEY} hexadecimal digits, '
                         f'each in a line')
    return tuple(map(bytes.fromhex, lines))
