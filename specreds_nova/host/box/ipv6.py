# SPDX-License-Identifier: Apache-2.0
"""IPv6 in a box: the addresses that the box has in place of the network, and what a host needs.

A guest knows its router by a link-local address, which the routers of Neutron and of OVN derive
from their hardware address. The box has the same one if the gateway is a port of the network, so
that the guest keeps its default route when the box opens. Otherwise the box has a link-local
address of its own, and withdraws it as a router when it opens.
"""

import ipaddress
import pathlib
import shutil
import subprocess

from specreds_nova.host.box import dhcp
from specreds_nova.host.box import plan as box_plan

_KERNEL = pathlib.Path('/proc/sys/net/ipv6')
_DISABLED = pathlib.Path('/sys/module/ipv6/parameters/disable_ipv6')
_LINK_LOCAL = ipaddress.IPv6Network('fe80::/64')
_VERSION_SECONDS = 10


def missing() -> str | None:
    """Return why the boxes of this host answer over IPv4 only; None if they can do both."""
    try:
        return _missing_in_kernel() or _missing_in_server()
    except (OSError, subprocess.SubprocessError) as exc:
        # A host on which that cannot be found out answers over IPv4.
        return f'it is not known whether this host has what IPv6 needs: {exc}'


def router(plan: box_plan.Plan) -> str:
    """Return the link-local address of the box, from which it advertises itself as the router."""
    return plan.router or link_local(plan.service_mac)


def known_router(plan: box_plan.Plan) -> str | None:
    """Return the link-local address of the network's router; None if it is not known."""
    gateways = [subnet.gateway for subnet in plan.answered_ipv6 if subnet.gateway]
    for gateway in gateways:
        if ipaddress.IPv6Address(gateway).is_link_local:
            return gateway
    for gateway in gateways:
        if gateway in plan.neighbours and gateway not in _own(plan):
            return link_local(plan.neighbours[gateway])
    return None


def source(plan: box_plan.Plan, subnet: box_plan.Subnet) -> str:
    """Return the box's address in a subnet, from which the readiness probe connects."""
    network = ipaddress.IPv6Network(subnet.cidr)
    own = _own(plan)
    for address in (subnet.dhcp_server, subnet.gateway):
        if address and address not in own and ipaddress.IPv6Address(address) in network:
            return address
    number = _interface_id(plan.service_mac) & int(network.hostmask)
    address = str(network[number])
    return address if address not in own else str(network[number ^ 1])


def answered(plan: box_plan.Plan) -> dict[str, str]:
    """Return the addresses for which the box answers, with the hardware address of the answer.

    That is the real one if it is known, as for IPv4. Nothing is answered for the guest's own
    addresses, of which it asks whether another host has them.
    """
    if not plan.answered_ipv6:
        return {}
    addresses = {box_plan.METADATA_ADDRESS_IPV6: plan.service_mac,
                 router(plan): _router_mac(plan)}
    for subnet in plan.answered_ipv6:
        for address in (source(plan, subnet), subnet.dhcp_server, subnet.gateway):
            if address:
                addresses.setdefault(address, plan.neighbours.get(address, plan.service_mac))
    own = _own(plan)
    return {address: mac for address, mac in addresses.items() if address not in own}


def link_local(mac: str) -> str:
    """Return the link-local address that is derived from a hardware address."""
    return str(_LINK_LOCAL[_interface_id(mac)])


def _missing_in_kernel() -> str | None:
    if not _KERNEL.exists():
        return 'the kernel has no IPv6'
    if _DISABLED.exists() and _DISABLED.read_text().strip() != '0':
        return 'IPv6 is disabled in the kernel (ipv6.disable_ipv6)'
    return None


def _missing_in_server() -> str | None:
    program = shutil.which(dhcp.PROGRAM, path=dhcp.places())
    if program is None:
        return f'{dhcp.PROGRAM} is not installed'
    shown = subprocess.run([program, '--version'], check=False, capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, timeout=_VERSION_SECONDS).stdout
    if 'DHCPv6' not in shown.split():
        return f'{dhcp.PROGRAM} is compiled without DHCPv6 and router advertisements'
    return None


def _router_mac(plan: box_plan.Plan) -> str:
    for subnet in plan.answered_ipv6:
        mac = plan.neighbours.get(subnet.gateway or '')
        if mac and router(plan) in (subnet.gateway, link_local(mac)):
            return mac
    return plan.service_mac


def _interface_id(mac: str) -> int:
    """Return the modified EUI-64 of a hardware address (RFC 4291, appendix A)."""
    octets = bytes.fromhex(mac.replace(':', ''))
    return int.from_bytes(bytes([octets[0] ^ 2]) + octets[1:3] + b'\xff\xfe' + octets[3:], 'big')


def _own(plan: box_plan.Plan) -> set[str]:
    return {address for subnet in plan.ipv6 for address in subnet.addresses}
