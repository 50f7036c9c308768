# SPDX-License-Identifier: Apache-2.0
"""Addresses of Ceph clients, as watches, locks and the blocklist write them."""

import ipaddress
import re

from specreds_cinder.superposition import errors

# ADDRESS:PORT/NONCE, sometimes with the messenger's version before it.
_CLIENT = re.compile(
    r'(?:v[12]:)?(?P<plain>(?P<host>\[[0-9a-fA-F:.]+\]|[0-9.]+):\d+/(?P<nonce>\d+))')


def found_in(text: str) -> frozenset[str]:
    """Give every client's address that a text holds, without the messenger's version."""
    return frozenset(match['plain'] for match in _CLIENT.finditer(text))


def host(address: str) -> str:
    """Give the host part of a client's address: ``[::1]:0/17`` is of ``[::1]``."""
    return address.rsplit(':', 1)[0]


def check(address: str) -> str:
    """Give back an address that names exactly one client.

    Without a nonce, or with nonce 0, Ceph would take it for every client of the host.

    :raises InvalidInput: it does not name one client
    """
    match = _CLIENT.fullmatch(address)
    try:
        if match is None or match['plain'] != address or int(match['nonce']) == 0:
            raise ValueError(address)
        ipaddress.ip_address(match['host'].strip('[]'))
    except ValueError:
        raise errors.InvalidInput(
            f'{address!r} is not the address of one Ceph client: it has the form '
            f'ADDRESS:PORT/NONCE, and the nonce is not 0') from None
    return address
