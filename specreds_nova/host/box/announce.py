# SPDX-License-Identifier: Apache-2.0
"""Frames that announce to the network where the guest is, sent in the guest's name.

QEMU sends RARP after a live migration, and switches learn from it. ARP requests update the
neighbours, and the answers of those whose place the box had taken correct the guest's own ARP
cache. Neighbour advertisements and a router solicitation do the same for IPv6.

Addresses of a port's allowed address pairs are not announced: another server may hold them, and
would lose them. The hardware address of a pair without one of its own is the port's, so neighbours
that know it need no other entry once switches have learned the new place. A guest whose keepalived
holds an address announces that itself.
"""

from collections.abc import Callable, Sequence
import ipaddress
import time

from oslo_log import log as logging

from specreds_nova.host.box import dhcp
from specreds_nova.host.box import errors
from specreds_nova.host.box import ipv6
from specreds_nova.host.box import plan as box_plan

LOG = logging.getLogger(__name__)

# Seconds after the opening at which the announcement is repeated: switches and the network
# service's agent may be late.
REPEATS = (0.05, 0.15, 0.3, 0.6, 1.0, 2.0, 4.0, 8.0)

_BROADCAST = b'\xff' * 6
_ETHERNET_IPV4 = bytes.fromhex('000108000604')
_REQUEST = b'\x00\x01'
_REVERSE_REQUEST = b'\x00\x03'
_NOBODY = b'\x00' * 4
_SHORTEST_FRAME = 60

_UNSPECIFIED = ipaddress.IPv6Address('::')
_ALL_NODES = ipaddress.IPv6Address('ff02::1')
_ALL_ROUTERS = ipaddress.IPv6Address('ff02::2')
_SOLICITED_NODES = ipaddress.IPv6Network('ff02::1:ff00:0/104')
_ICMPV6 = 58
_ROUTER_SOLICITATION = 133
_ROUTER_ADVERTISEMENT = 134
_NEIGHBOUR_SOLICITATION = 135
_NEIGHBOUR_ADVERTISEMENT = 136
_OVERRIDE = 0x20000000


def repeat(once: Callable[[box_plan.Plan], None], plans: Sequence[box_plan.Plan]) -> None:
    """Announce the guest behind open boxes several times, until its boxes are gone.

    :param once: announces the guest of a box; raises BoxFailed if the box is gone
    """
    begun = time.monotonic()
    for moment in REPEATS:
        time.sleep(max(0.0, begun + moment - time.monotonic()))
        for plan in plans:
            try:
                once(plan)
            except errors.BoxFailed:
                LOG.debug('the box of port %s is gone', plan.port)
                return


def frames(plan: box_plan.Plan) -> list[bytes]:
    """Return one round of the announcement, without the frame check sequence."""
    mac = _mac(plan.mac)
    result = [_rarp(mac)]
    for subnet in plan.ipv4:
        for own in subnet.addresses:
            result.append(_arp_request(mac, own, own))
            result += [_arp_request(mac, own, other)
                       for other in (subnet.gateway, subnet.dhcp_server)
                       if other and other not in subnet.addresses]
    addresses6 = [ipaddress.IPv6Address(address)
                  for subnet in plan.ipv6 for address in subnet.addresses]
    result += [_advertisement(mac, address) for address in addresses6]
    result += [_neighbour_solicitation(mac, ipaddress.IPv6Address(subnet.addresses[0]), target)
               for subnet in plan.answered_ipv6 if subnet.addresses
               for target in _resolved(plan, subnet)]
    if addresses6:
        source = ipaddress.IPv6Address(ipv6.link_local(plan.mac))
        result += [_solicitation(mac, source), _solicitation(mac)]
    return result


def withdrawal(plan: box_plan.Plan) -> list[bytes]:
    """Return what tells the guest that the box is no longer its router.

    That is nothing if the box had the address of the network's router.
    """
    if not dhcp.advertised(plan) or plan.router:
        return []
    body = bytes(12)
    return [_icmpv6(_mac(plan.service_mac), ipaddress.IPv6Address(ipv6.router(plan)), _ALL_NODES,
                    _ROUTER_ADVERTISEMENT, body)]


def _resolved(plan: box_plan.Plan, subnet: box_plan.Subnet) -> list[ipaddress.IPv6Address]:
    """Return the addresses of the network for which the box has answered the guest."""
    return [ipaddress.IPv6Address(address) for address in ipv6.answered(plan)
            if address in (subnet.gateway, subnet.dhcp_server)]


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(':', ''))


def _rarp(mac: bytes) -> bytes:
    return _frame(_BROADCAST, mac, 0x8035,
                  _ETHERNET_IPV4 + _REVERSE_REQUEST + (mac + _NOBODY) * 2)


def _arp_request(mac: bytes, own: str, other: str) -> bytes:
    target = b'\x00' * 6
    return _frame(_BROADCAST, mac, 0x0806,
                  _ETHERNET_IPV4 + _REQUEST + mac + ipaddress.IPv4Address(own).packed
                  + target + ipaddress.IPv4Address(other).packed)


def _advertisement(mac: bytes, address: ipaddress.IPv6Address) -> bytes:
    body = _OVERRIDE.to_bytes(4, 'big') + address.packed + b'\x02\x01' + mac
    return _icmpv6(mac, address, _ALL_NODES, _NEIGHBOUR_ADVERTISEMENT, body)


def _neighbour_solicitation(mac: bytes, own: ipaddress.IPv6Address,
                            other: ipaddress.IPv6Address) -> bytes:
    group = _SOLICITED_NODES[int(other) & 0xffffff]
    return _icmpv6(mac, own, group, _NEIGHBOUR_SOLICITATION,
                   bytes(4) + other.packed + b'\x01\x01' + mac)


def _solicitation(mac: bytes, source: ipaddress.IPv6Address = _UNSPECIFIED) -> bytes:
    """Return a router solicitation.

    Port security drops one from the unspecified address, which Neutron permits for the detection
    of duplicate addresses only, and passes one from the link-local address that is derived from
    the hardware address. A guest without port security may have another one, and learns from the
    answer to the unspecified address, which is for all nodes.
    """
    option = b'' if source == _UNSPECIFIED else b'\x01\x01' + mac
    return _icmpv6(mac, source, _ALL_ROUTERS, _ROUTER_SOLICITATION, bytes(4) + option)


def _icmpv6(mac: bytes, source: ipaddress.IPv6Address, target: ipaddress.IPv6Address,
            kind: int, body: bytes) -> bytes:
    ends = source.packed + target.packed
    message = bytes([kind, 0, 0, 0]) + body
    pseudo = ends + len(message).to_bytes(4, 'big') + bytes([0, 0, 0, _ICMPV6])
    message = message[:2] + _checksum(pseudo + message) + message[4:]
    header = b'\x60\x00\x00\x00' + len(message).to_bytes(2, 'big') + bytes([_ICMPV6, 255]) + ends
    return _frame(b'\x33\x33' + target.packed[-4:], mac, 0x86dd, header + message)


def _checksum(data: bytes) -> bytes:
    total = sum(int.from_bytes(data[n:n + 2].ljust(2, b'\x00'), 'big')
                for n in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return (total ^ 0xffff).to_bytes(2, 'big')


def _frame(target: bytes, source: bytes, ethertype: int, payload: bytes) -> bytes:
    return (target + source + ethertype.to_bytes(2, 'big') + payload).ljust(_SHORTEST_FRAME, b'\0')
