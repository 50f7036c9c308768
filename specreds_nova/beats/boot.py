# SPDX-License-Identifier: Apache-2.0
"""Which boot of this host runs, and at which addresses other hosts see this one."""

import ipaddress
import os
import pathlib
import socket
import time
from typing import Any

import psutil  # type: ignore[import-untyped]

from specreds_nova.beats import heartbeat

_FAMILIES = (socket.AF_INET, socket.AF_INET6)
_STAT = pathlib.Path('/proc/self/stat')
# Index of the start of a process among the fields behind its name, which may have spaces; proc(5)
# counts it as field 22, in ticks since the boot.
_START = 19


def report() -> dict[str, Any]:
    """Return the id of this boot, and the addresses of this host.

    Besides the seconds since this boot (``uptime``) and since the start of this process, which is
    nova-compute (``service_uptime``). Addresses that several hosts have (loopback, link-local) are
    left out.
    """
    uptime = time.clock_gettime(time.CLOCK_BOOTTIME)
    return {'kernel': heartbeat.kernel(), 'uptime': uptime,
            'service_uptime': uptime - _started(), 'addresses': sorted(_addresses())}


def _started() -> float:
    """Return the seconds from the boot of this host to the start of this process."""
    fields = _STAT.read_text().rpartition(')')[2].split()
    return float(fields[_START]) / os.sysconf('SC_CLK_TCK')


def _addresses() -> set[str]:
    addresses = set()
    for interface in psutil.net_if_addrs().values():
        for entry in interface:
            if entry.family in _FAMILIES:
                address = ipaddress.ip_address(entry.address.split('%')[0])
                if not (address.is_loopback or address.is_link_local):
                    addresses.add(str(address))
    return addresses
