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
    """Give every client's address that a text holds, without the messenger's version."""
    return frozenset(match['plain'] for match in _CLIENT.finditer(text))


def clients(texts: Iterable[str]) -> frozenset[str]:
    """Return the address of each client, as watches and locks name it.

    :raises ClusterError: one of the texts holds no address, so that nobody could fence that client
    """
    clients: set[str] = set()
    for text in texts:
        found = found_in(text)
        if not found:
            raise errors.ClusterError(
                f'Ceph names a client by {text!r}, which is no address that could be fenced')
        clients |= found
    return frozenset(clients)


def host(address: str) -> str:
    """Give the host part of a client's address: ``[::1]:0/17`` is of ``[::1]``."""
    return address.rsplit(':', 1)[0]


def endpoint(address: str) -> tuple[str, str]:
    """Give what a server's address is connected to: host, without brackets, and port.

    :raises InvalidInput: it is no address
    """
    match = _CLIENT.fullmatch(address)
    if match is None:
        raise errors.InvalidInput(f'{address!r} does not have the form ADDRESS:PORT/NONCE')
    return match['six'] or match['four'], match['port']


def check(address: str) -> str:
    """Give back an address that names exactly one client.

    Without a nonce, or with nonce 0, Ceph would take it for every client of the host.

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
