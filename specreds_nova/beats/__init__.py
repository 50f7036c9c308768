# SPDX-License-Identifier: Apache-2.0
"""How beats get from hosts to engines: what they look like on the bus.

Method ``beat`` with the beat as a dictionary; and ``echo``, by which an engine hears itself.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import hashlib
import json
from typing import Any

import oslo_messaging as messaging

from specreds_nova.engine import model

EXCHANGE = 'specreds'
TOPIC = 'specreds-heartbeats'
NAMESPACE = 'specreds'
VERSION = '1.0'
# Seconds between two beats that nobody would call that any more.
LONGEST = 3600

_NO = object()
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(model.Beat)}
_FIELDS = frozenset(_DEFAULTS)
# Tuples, which are lists on the bus.
_LISTS = ('ended', 'ready', 'domains')


def digest(domains: Iterable[str]) -> str:
    """Return what stands for a set of domains in a beat that does not list them."""
    return hashlib.blake2b(' '.join(sorted(domains)).encode(), digest_size=8).hexdigest()


def encode(beat: model.Beat) -> dict[str, Any]:
    """Give a beat as it is sent: as short as it can be, as engines read many of them."""
    told = {name: value for name, value in vars(beat).items() if value != _DEFAULTS.get(name, _NO)}
    for name in _LISTS:
        if name in told:
            told[name] = list(told[name])
    return told


def decode(told: Mapping[str, Any]) -> model.Beat:
    """Give a beat that was received; fields that a newer host may send are left out.

    :raises ValueError, TypeError, KeyError: it is none
    """
    if not told.keys() <= _FIELDS:
        told = {name: value for name, value in told.items() if name in _FIELDS}
    beat = model.Beat(**told)
    if not (isinstance(beat.host, str) and isinstance(beat.boot, str)
            and isinstance(beat.number, int) and 0 < beat.interval < LONGEST):
        raise ValueError(f'{beat} is no beat')
    if beat.ended or beat.ready or beat.domains is not None:
        domains = None if beat.domains is None else tuple(beat.domains)
        return dataclasses.replace(beat, ended=tuple(beat.ended), ready=tuple(beat.ready),
                                   domains=domains)
    return beat


def wrap(method: str, arguments: Mapping[str, Any]) -> bytes:
    """Give a call as oslo.messaging has it on the bus."""
    call = {'method': method, 'args': arguments, 'namespace': NAMESPACE, 'version': VERSION}
    return json.dumps({'oslo.version': '2.0', 'oslo.message': json.dumps(call)}).encode()


def unwrap(body: bytes) -> tuple[str, Mapping[str, Any]]:
    """Give the method and the arguments of a call.

    :raises ValueError, TypeError, KeyError: it is none
    """
    call = json.loads(json.loads(body)['oslo.message'])
    return call['method'], call['args']


def transport(conf: Any) -> messaging.Transport:
    """Give a transport for beats alone, by the options of oslo.messaging.

    :param conf: the global configuration, as oslo.messaging knows all of its options only there
    """
    return messaging.get_rpc_transport(conf)


def rabbit_url(conf: Any) -> messaging.TransportURL | None:
    """Give the URL of the broker that is configured if it is RabbitMQ, with its options known.

    :param conf: the global configuration
    """
    # Makes the options known; nothing is connected.
    transport(conf).cleanup()
    url = messaging.TransportURL.parse(conf)
    return url if url.transport in ('rabbit', 'kombu', 'kombu+rabbit') else None
