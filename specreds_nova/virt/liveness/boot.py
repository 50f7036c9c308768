# SPDX-License-Identifier: Apache-2.0
"""Which boot of this host runs, and at which addresses other hosts see this one."""

import ipaddress
import socket
import time
from typing import Any

import psutil  # type: ignore[import-untyped]

from specreds_nova.virt.liveness import heartbeat

_FAMILIES = (socket.AF_INET, socket.AF_INET6)


def report() -> dict[str, Any]:
    """Return the id of this boot, the seconds since it, and the addresses of this host.

    Addresses that several hosts have (loopback, link-local) are left out.
    """
    return {'kernel': heartbeat.kernel(),
            'uptime': time.clock_gettime(time.CLOCK_BOOTTIME),
            'addresses': sorted(_addresses())}


def _addresses() -> set[str]:
    addresses = set()
    for interface in psutil.net_if_addrs().values():
        for entry in interface:
            if entry.family in _FAMILIES:
                address = ipaddress.ip_address(entry.address.split('%')[0])
                if not (address.is_loopback or address.is_link_local):
                    addresses.add(str(address))
    return addresses
