# SPDX-License-Identifier: Apache-2.0
"""Frames of a guest: which of them say that its kernel is up, and that its services start.

These do not, as firmware, initramfs or the kernel send them by themselves: DHCP, with which a
boot loader or an initramfs may begin to wait; the announcements and memberships of a device that
was set up (RARP, IGMP, MLD); and the search for routers and for duplicates of an own address.
"""

_IPV4, _ARP, _IPV6, _VLAN = 0x0800, 0x0806, 0x86dd, 0x8100
_HOP_BY_HOP, _IGMP, _UDP, _ICMPV6 = 0, 2, 17, 58
_DHCP_PORTS = frozenset((67, 68, 546, 547))
# Queries, reports and ends of memberships, of both versions, and the search for routers.
_ICMPV6_OF_KERNELS = frozenset((130, 131, 132, 133, 143))
_SOLICITATION = 135
_IPV6_HEADER = 40
# Bytes of a frame that are looked at.
LONGEST = 256


def of_services(frame: bytes) -> bool:
    """Return whether a guest sends such a frame only once its services start."""
    kind, packet = int.from_bytes(frame[12:14], 'big'), frame[14:]
    if kind == _VLAN:
        kind, packet = int.from_bytes(packet[2:4], 'big'), packet[4:]
    try:
        return (kind == _ARP or (kind == _IPV4 and _of_services_ipv4(packet))
                or (kind == _IPV6 and _of_services_ipv6(packet)))
    except IndexError:
        # It is cut off.
        return False


def _of_services_ipv4(packet: bytes) -> bool:
    protocol, length = packet[9], 4 * (packet[0] & 0xf)
    return protocol != _IGMP and not (protocol == _UDP and _is_dhcp(packet[length:]))


def _of_services_ipv6(packet: bytes) -> bool:
    protocol, rest = packet[6], packet[_IPV6_HEADER:]
    if protocol == _HOP_BY_HOP:
        protocol, rest = rest[0], rest[8 + 8 * rest[1]:]
    if protocol == _UDP:
        return not _is_dhcp(rest)
    if protocol != _ICMPV6:
        return True
    return not (rest[0] in _ICMPV6_OF_KERNELS
                or (rest[0] == _SOLICITATION and not any(packet[8:24])))


def _is_dhcp(datagram: bytes) -> bool:
    return int.from_bytes(datagram[2:4], 'big') in _DHCP_PORTS
