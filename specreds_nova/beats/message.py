# SPDX-License-Identifier: Apache-2.0
"""How beats get from hosts to engines: what they look like on the bus.

Method ``beat`` with the beat as a dictionary; ``echo``, by which an engine hears itself; and
``answer``, by which an engine names the latest beat of a host to that host alone.
"""

from collections.abc import Callable, Iterable, Mapping
import dataclasses
import functools
import hashlib
import json
import re
import typing
from typing import Any

import oslo_messaging as messaging

EXCHANGE = 'specreds'
TOPIC = 'specreds-heartbeats'
NAMESPACE = 'specreds'
VERSION = '1.0'
# Names what engines answer to a host, with the host's name behind it.
ANSWERS = 'specreds-answers.'
# Seconds between two beats: hosts do not beat more often, nor as seldom as that.
SHORTEST, LONGEST = 0.001, 3600
# Limits of what a message may contain: characters of a text, texts of a list, the number of a
# beat, and seconds, since the epoch as well.
_TEXT, _LIST, _NUMBER, _SECONDS = 255, 20_000, 10 ** 18, 1e12
_is_uuid = re.compile('[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}').fullmatch
# Bytes of a host's name: answers are routed by a key of 255 bytes.
NAME = 255 - len(ANSWERS)
# Seconds for which beats repeat an event: several beats may be lost.
REPEATED = 10.0
# Boots of hosts whose answers are kept half encoded.
_ANSWERED = 20_000

# Kinds of goodbye of a host: only nova-compute was stopped, and the guests go on; or the system is
# going down, and the guests with it.
SERVICE = 'service'
SYSTEM = 'system'
_GOODBYES = ('', SERVICE, SYSTEM)

# Whether the sentinel of a host hides each of its servers when it hears nobody: it does so if an
# engine has told it to, and if it could read the records of the servers in Ceph. It could, but
# engines have told it to hide none, because they do not act on the host. Or it cannot.
LEASED = 'leased'
SHOWS = 'shows'
UNLEASED = 'unleased'


@dataclasses.dataclass(frozen=True)
class Beat:
    """What a host says of itself, several times a second.

    :ivar boot: another one after each start of nova-compute
    :ivar number: counts from 0 after each start
    :ivar interval: seconds until the next one
    :ivar libvirt_age: seconds since libvirt has answered; None if that is not looked at
    :ivar storage_age: seconds since Ceph has answered; None if that is not looked at
    :ivar ended: UUIDs of servers whose domain has crashed or panicked lately, each as often as it
        has
    :ivar ready: ids of backups on it that have become ready lately, and :func:`first_frame` of
        those whose guests have sent their first frames
    :ivar leaving: nova-compute is being stopped: its silence means nothing for a while
    :ivar goodbye: why, in a beat that is leaving: ``SERVICE`` or ``SYSTEM``; empty for the former
    :ivar kernel: another one after each boot of the host; empty from a host that does not say it
    :ivar running: digest of the UUIDs of the domains that run; empty until libvirt has answered
    :ivar domains: these UUIDs, in a beat now and then and after each change; None in the others
    :ivar uptime: seconds since the boot of the host, in a beat now and then; None in the others
    :ivar broker: address of the broker node that the host is connected to, in the same beats;
        empty if unknown
    :ivar lease: ``LEASED``, ``SHOWS`` or ``UNLEASED``, in the same beats; empty from a host that
        does not say it
    :ivar sentinel_age: seconds since the host's sentinel has looked at the servers, in the same
        beats; None if it has not looked since the boot
    """

    host: str
    boot: str
    number: int
    interval: float
    libvirt_age: float | None = None
    storage_age: float | None = None
    ended: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    leaving: bool = False
    kernel: str = ''
    running: str = ''
    domains: tuple[str, ...] | None = None
    goodbye: str = ''
    uptime: float | None = None
    broker: str = ''
    lease: str = ''
    sentinel_age: float | None = None


def is_text(value: object, longest: int = _TEXT) -> bool:
    """Return whether a value is a text of limited length that can be logged and encoded."""
    return isinstance(value, str) and len(value) <= longest and value.isprintable()


def is_seconds(value: object) -> bool:
    """Return whether a value is a duration or a time: a finite number that is not negative."""
    # Comparisons with NaN are false, and comparisons of long integers do not overflow.
    return (isinstance(value, (int, float)) and not isinstance(value, bool)
            and 0.0 <= value <= _SECONDS)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _NUMBER


def _is_list(value: object) -> bool:
    return (isinstance(value, (list, tuple)) and len(value) <= _LIST
            and all(is_text(text) for text in value))


def _are_servers(value: object) -> bool:
    # They become parts of requests to Nova.
    return (isinstance(value, (list, tuple)) and len(value) <= _LIST
            and all(isinstance(each, str) and _is_uuid(each) for each in value))


# By type of a field: returns whether a received value is of that type, and within limits.
_CHECKS: Mapping[Any, Callable[[object], bool]] = {
    str: is_text, int: _is_number, bool: lambda value: isinstance(value, bool),
    float: is_seconds, float | None: lambda value: value is None or is_seconds(value),
    tuple[str, ...]: _is_list,
    tuple[str, ...] | None: lambda value: value is None or _are_servers(value)}
_FIELD_CHECKS = {name: _CHECKS[hint] for name, hint in typing.get_type_hints(Beat).items()} | {
    'ended': _are_servers}
_NO = object()
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(Beat)}
_FIELDS = frozenset(_DEFAULTS)
# Tuples, which are lists on the bus.
_LISTS = ('ended', 'ready', 'domains')


def first_frame(backup_id: str) -> str:
    """Return what reports the first frame of a backup's guest."""
    return f'{backup_id} frame'


def digest(domains: Iterable[str]) -> str:
    """Return what stands for a set of domains in a beat that does not list them."""
    return hashlib.blake2b(' '.join(sorted(domains)).encode(), digest_size=8).hexdigest()


def encode(beat: Beat) -> dict[str, Any]:
    """Return a beat as it is sent: short, as engines read many of them."""
    fields = {name: value for name, value in vars(beat).items()
              if value != _DEFAULTS.get(name, _NO)}
    for name in _LISTS:
        if name in fields:
            fields[name] = list(fields[name])
    return fields


def decode(body: Mapping[str, Any]) -> Beat:
    """Return a beat that was received, without fields that only newer hosts send.

    :raises ValueError, TypeError, KeyError: it is none
    """
    if not isinstance(body, Mapping):
        raise TypeError(f'a beat is no {type(body).__name__}')
    fields = {name: value for name, value in body.items() if name in _FIELDS}
    wrong = [name for name, value in fields.items() if not _FIELD_CHECKS[name](value)]
    if wrong:
        raise ValueError(f'it is no beat: {", ".join(sorted(wrong))} is malformed')
    beat = Beat(**fields)
    # Databases take a name with a space at its end for the one without.
    if not (0 < len(beat.host.encode()) <= NAME and beat.host == beat.host.strip()
            and SHORTEST <= beat.interval < LONGEST
            and beat.goodbye in _GOODBYES):
        raise ValueError('it is no beat: host, interval or goodbye is out of range')
    if beat.ended or beat.ready or beat.domains is not None:
        domains = None if beat.domains is None else tuple(beat.domains)
        return dataclasses.replace(beat, ended=tuple(beat.ended), ready=tuple(beat.ready),
                                   domains=domains)
    return beat


def wrap(method: str, arguments: Mapping[str, Any]) -> bytes:
    """Return a call as oslo.messaging encodes it on the bus."""
    call = {'method': method, 'args': arguments, 'namespace': NAMESPACE, 'version': VERSION}
    return json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(call)}).encode()


def wrap_answer(boot: str, number: int, hides: bool, **more: str) -> bytes:
    """Return the answer to a beat as :func:`wrap` does.

    Thousands of hosts are answered several times within one lease.

    :param boot: the boot that has sent the beat
    :param number: number of the beat
    :param hides: whether the host is to hide its servers when it hears nobody
    :param more: ``protects``: which of its servers the host protects; ``voice``: where the engine
        hears the sentinel of the host, and the name of the ``engine``
    """
    before, after = _around_number(boot, hides, **more)
    return before + str(number).encode() + after


@functools.lru_cache(maxsize=_ANSWERED)
def _around_number(boot: str, hides: bool, **more: str) -> tuple[bytes, bytes]:
    """Return what is before and after the number in the answers to a host."""
    before, _, after = wrap(
        'answer', {'boot': boot, 'hides': hides, **more, 'number': 0}).rpartition(
        b'\\"number\\": 0')
    return before + b'\\"number\\": ', after


def unwrap(body: bytes) -> tuple[str, Mapping[str, Any]]:
    """Return the method and the arguments of a call.

    :raises ValueError, TypeError, KeyError: it is none
    """
    try:
        call = json.loads(json.loads(body)['oslo.message'])
    except RecursionError as exc:
        raise ValueError('the message is nested too deeply') from exc
    return call['method'], call['args']


def rabbit_url(conf: Any, broker: str | None = None) -> messaging.TransportURL:
    """Return the URL of the configured broker.

    :param conf: the global configuration, as oslo.messaging knows all of its options only there
    :param broker: URL of the broker; by default ``[DEFAULT] transport_url``
    :raises ValueError: it is not RabbitMQ
    """
    # Makes the options known; nothing is connected.
    messaging.get_rpc_transport(conf, url=broker).cleanup()
    url = messaging.TransportURL.parse(conf, broker)
    if url.transport not in ('rabbit', 'kombu', 'kombu+rabbit'):
        raise ValueError(f'heartbeats need RabbitMQ: transport_url begins with {url.transport}')
    return url
