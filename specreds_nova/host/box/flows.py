# SPDX-License-Identifier: Apache-2.0
"""The flows of a box's bridge, in the syntax of ovs-ofctl. An unmatched frame is dropped.

Sealed: of the guest's frames, only DHCP requests, TCP to the metadata address, answers to the
readiness probe and ARP requests for the box's own addresses are accepted, and none of them leaves
the host. Frames from the patch are dropped. The box itself answers ARP requests, of the guest and
of its services.
With IPv6 the same holds for DHCPv6, and for solicitations of routers and of the box's addresses.
In the namespace, the kernel answers for the box's addresses; the flows replace the hardware
address in its answers. What the guest says of its own addresses goes nowhere else.
Open: the guest's device and the patch are one wire, without the box's services.
"""

from collections.abc import Iterable, Iterator

from specreds_nova.host.box import dhcp
from specreds_nova.host.box import ipv6
from specreds_nova.host.box import plan as box_plan

# OpenFlow port numbers, requested when the ports are made, so that the flows can exist before the
# guest's device.
PATCH = 1
GUEST = 2
SERVICE = 3

_ARP_REPLY = ('move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[],mod_dl_src:{mac},load:2->NXM_OF_ARP_OP[],'
              'move:NXM_NX_ARP_SHA[]->NXM_NX_ARP_THA[],move:NXM_OF_ARP_SPA[]->NXM_OF_ARP_TPA[],'
              'load:{mac_number}->NXM_NX_ARP_SHA[],load:{ip_number}->NXM_OF_ARP_SPA[],IN_PORT')


def sealed(plan: box_plan.Plan) -> list[str]:
    """Return all flows of a sealed box."""
    return [f'priority=100,in_port={PATCH},actions=drop',
            *_dhcp(plan), *_metadata(plan), *_arp(plan), *_probe(plan), *_ipv6(plan)]


def opened() -> list[str]:
    """Return all flows of an open box."""
    return [f'priority=10,in_port={GUEST},actions=output:{PATCH}',
            f'priority=10,in_port={PATCH},actions=output:{GUEST}']


def settled() -> list[str]:
    """Return all flows of an open box in which only the guest and the patch are left.

    They are one wire, whatever the guest's port is, and nothing is learned from addresses: a frame
    of the guest that comes back through the patch would make the bridge drop, for five minutes,
    what is sent to a guest that is silent.
    """
    return ['priority=10,actions=FLOOD']


def bundle(flows: Iterable[str], frames: Iterable[bytes] = (),
           to_guest: Iterable[bytes] = ()) -> str:
    """Return the input of ``ovs-ofctl bundle`` that replaces all flows atomically.

    :param frames: sent through the patch after the replacement
    :param to_guest: sent to the guest after that
    """
    return '\n'.join(['flow delete', *(f'flow add {flow}' for flow in flows),
                      *packets_out(frames), *packets_in(to_guest), ''])


def packets_out(frames: Iterable[bytes]) -> list[str]:
    """Return the commands that send frames of the guest through the patch."""
    return [f'packet-out in_port={GUEST} packet={frame.hex()} actions=output:{PATCH}'
            for frame in frames]


def packets_in(frames: Iterable[bytes]) -> list[str]:
    """Return the commands that send frames to the guest."""
    return [f'packet-out in_port={PATCH} packet={frame.hex()} actions=output:{GUEST}'
            for frame in frames]


def _dhcp(plan: box_plan.Plan) -> Iterator[str]:
    if any(subnet.dhcp for subnet in plan.ipv4):
        yield (f'priority=90,in_port={GUEST},udp,tp_src=68,tp_dst=67,'
               f'actions=mod_dl_dst:{plan.service_mac},output:{SERVICE}')
        yield f'priority=90,in_port={SERVICE},udp,tp_src=67,actions=output:{GUEST}'


def _metadata(plan: box_plan.Plan) -> Iterator[str]:
    address = box_plan.METADATA_ADDRESS
    if plan.ipv4:
        yield (f'priority=90,in_port={GUEST},tcp,nw_dst={address},'
               f'actions=mod_dl_dst:{plan.service_mac},output:{SERVICE}')
        yield f'priority=90,in_port={SERVICE},tcp,nw_src={address},actions=output:{GUEST}'


def _arp(plan: box_plan.Plan) -> Iterator[str]:
    for address, mac in (plan.answered if plan.ipv4 else {}).items():
        yield _arp_answer(GUEST, address, mac)


def _arp_answer(port: int, address: str, mac: str) -> str:
    """Return a flow that answers a port's ARP requests for an address."""
    actions = _ARP_REPLY.format(mac=mac, mac_number=hex(int(mac.replace(':', ''), 16)),
                                ip_number=hex(_number(address)))
    return f'priority=90,in_port={port},arp,arp_op=1,arp_tpa={address},actions={actions}'


def _probe(plan: box_plan.Plan) -> Iterator[str]:
    """Yield flows for what the readiness probe sends from the namespace, and for answers.

    The box answers for the guest if the namespace asks for its hardware address: the permanent
    entry there is no longer permanent when dnsmasq has sent a lease to the address, for which it
    sets an entry of its own (ioctl SIOCSARP).
    """
    for subnet in plan.ipv4:
        server = subnet.server
        for address in subnet.addresses:
            yield _arp_answer(SERVICE, address, plan.mac)
            if server and server not in subnet.addresses:
                yield (f'priority=80,in_port={SERVICE},tcp,nw_src={server},nw_dst={address},'
                       f'actions=output:{GUEST}')
                yield (f'priority=80,in_port={GUEST},tcp,nw_src={address},nw_dst={server},'
                       f'actions=mod_dl_dst:{plan.service_mac},output:{SERVICE}')


def _ipv6(plan: box_plan.Plan) -> Iterator[str]:
    """Yield the flows for IPv6; none if the box does not answer over it."""
    to_service = f'actions=mod_dl_dst:{plan.service_mac},output:{SERVICE}'
    for address, mac in ipv6.answered(plan).items():
        yield from _neighbour(address, mac, to_service)
    if dhcp.advertised(plan):
        yield f'priority=90,in_port={GUEST},icmp6,icmp_type=133,{to_service}'
        yield f'priority=90,in_port={SERVICE},icmp6,icmp_type=134,actions=output:{GUEST}'
    if dhcp.leased_ipv6(plan):
        yield f'priority=90,in_port={GUEST},udp6,tp_src=546,tp_dst=547,{to_service}'
        yield f'priority=90,in_port={SERVICE},udp6,tp_src=547,actions=output:{GUEST}'
    if plan.answered_ipv6:
        metadata = box_plan.METADATA_ADDRESS_IPV6
        yield f'priority=90,in_port={GUEST},tcp6,ipv6_dst={metadata},{to_service}'
        yield f'priority=90,in_port={SERVICE},tcp6,ipv6_src={metadata},actions=output:{GUEST}'
    for subnet in plan.answered_ipv6:
        source = ipv6.source(plan, subnet)
        for address in subnet.addresses:
            yield (f'priority=80,in_port={SERVICE},tcp6,ipv6_src={source},ipv6_dst={address},'
                   f'actions=output:{GUEST}')
            yield (f'priority=80,in_port={GUEST},tcp6,ipv6_src={address},ipv6_dst={source},'
                   f'{to_service}')


def _neighbour(address: str, mac: str, to_service: str) -> Iterator[str]:
    """Yield flows by which guest and box find each other, the box with one of its addresses."""
    yield f'priority=90,in_port={GUEST},icmp6,icmp_type=135,nd_target={address},{to_service}'
    yield (f'priority=90,in_port={SERVICE},icmp6,icmp_type=136,nd_target={address},'
           f'actions=mod_dl_src:{mac},set_field:{mac}->nd_tll,output:{GUEST}')
    yield (f'priority=90,in_port={SERVICE},icmp6,icmp_type=135,ipv6_src={address},'
           f'actions=mod_dl_src:{mac},set_field:{mac}->nd_sll,output:{GUEST}')
    yield f'priority=90,in_port={GUEST},icmp6,icmp_type=136,ipv6_dst={address},{to_service}'


def _number(address: str) -> int:
    return int.from_bytes(bytes(map(int, address.split('.'))), 'big')
