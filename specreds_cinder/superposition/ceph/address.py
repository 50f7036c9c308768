# SPDX-License-Identifier: Apache-2.0
"""Addresses of Ceph clients, as watches, locks and the blocklist write them."""

from collections.abc import Iterable
import ipaddress
import re

from specreds_cinder.superposition import errors

# ADDRESS:PORT/NONCE, sometimes with the messenger's version before it.
_CLIENT = re.compile(
    r'(?:v[12]:)?(?P<plain>(?P<host>\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<four>[0-9.]+))'
    r':(?P<port>[0-9]+)/(?P<nonce>[0-9]+))')


def found_in(text: str) -> frozenset[str]:
    """Return the client addresses in a text, without the version of the messenger."""
    return frozenset(match['plain'] for match in _CLIENT.finditer(text))


def clients(texts: Iterable[str]) -> frozenset[str]:
    """Return the address of each client, as watches and locks name it.

    :raises ClusterError: a text holds no address, so that its client could not be fenced
    """
    addresses: set[str] = set()
    for text in texts:
        in_text = found_in(text)
        if not in_text:
            raise errors.ClusterError(
                f'Ceph names a client by {text!r}, which is no address that could be fenced')
        addresses |= in_text
    return frozenset(addresses)


def host(address: str) -> str:
    """Return the host part of a client's address, such as ``[::1]`` of ``[::1]:0/17``."""
    return address.rsplit(':', 1)[0]


def endpoint(address: str) -> tuple[str, str]:
    """Return host and port of a server's address, the host without brackets.

    :raises InvalidInput: it is no address
    """
    match = _CLIENT.fullmatch(address)
    if match is None:
        raise errors.InvalidInput(f'{address!r} does not have the form ADDRESS:PORT/NONCE')
    return match['six'] or match['four'], match['port']


def check(address: str) -> str:
    """Return an address unchanged if it names exactly one client.

    Ceph takes an address without a nonce, or with nonce 0, for every client of the host.

    :raises InvalidInput: it does not name one client
    """
    match = _CLIENT.fullmatch(address)
    try:
        if match is None or match['plain'] != address:
            raise ValueError(address)
        if not 0 < int(match['nonce']) < 1 << 32 or int(match['port']) >= 1 << 16:
            raise ValueError(address)
        if match['four']:
            ipaddress.IPv4Address(match['four'])
        else:
            ipaddress.IPv6Address(match['six'])
    except ValueError:
        raise errors.InvalidInput(
            f'{address!r} is not the address of one Ceph client: it has the form '
            f'ADDRESS:PORT/NONCE, and the nonce is not 0') from None
    return address
