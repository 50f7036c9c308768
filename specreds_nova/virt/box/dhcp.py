# SPDX-License-Identifier: Apache-2.0
"""The DHCP server of a box: dnsmasq, which gives one port the lease of its network.

The server has the address of the network's own DHCP server, or else of the gateway, so that the
guest renews its lease at that address later; if nothing answers there, it broadcasts, as the
protocol defines.

It also advertises the router of a network with IPv6, and serves DHCPv6, as the subnets demand.

Input from a tenant's guest is parsed by a process of the user nobody.
"""

import grp
import ipaddress
import os
import pwd
import shutil

from specreds_nova.virt.box import plan as box_plan

# Neutron's default lease, in seconds: the network's own server need not be back soon after a
# failure.
LEASE = 86400

PROGRAM = 'dnsmasq'
USER = 'nobody'
# Neutron's modes in which guests get their addresses by IPv6, with what dnsmasq calls them.
_STATEFUL = 'dhcpv6-stateful'
_MODES = {'slaac': 'ra-only', 'dhcpv6-stateless': 'ra-stateless', _STATEFUL: 'static'}
# dnsmasq serves no larger networks.
_SHORTEST_PREFIX = 64
# Interval of advertisements and lifetime of the router in them, in seconds.
_INTERVAL, _LIFETIME = 60, 1800

# Not always in the PATH of a service, although root's programs are there.
_MORE_PLACES = ('/usr/sbin', '/sbin')

_CLASSLESS_ROUTES = (121, 249)


def missing() -> str | None:
    """Return why this host can serve no DHCP in boxes; None if it can."""
    if shutil.which(PROGRAM, path=places()) is None:
        return f'{PROGRAM} is not installed: no DHCP server in the boxes of backups'
    try:
        _group()
    except KeyError as exc:
        return f'the user {USER}, as which {PROGRAM} runs, or its group does not exist: {exc}'
    return None


def places() -> str:
    """Return the directories in which the program may be, as in PATH."""
    return os.pathsep.join([os.environ.get('PATH', os.defpath), *_MORE_PLACES])


def needed(plan: box_plan.Plan) -> bool:
    """Return whether a port's box has this server."""
    return any(subnet.dhcp for subnet in plan.ipv4) or bool(_served_ipv6(plan))


def advertised(plan: box_plan.Plan) -> bool:
    """Return whether the box advertises a router of IPv6."""
    return any(subnet.address_mode in _MODES for subnet in _served_ipv6(plan))


def leased_ipv6(plan: box_plan.Plan) -> bool:
    """Return whether the box answers over DHCPv6."""
    return any(_MODES.get(subnet.address_mode or _STATEFUL) in ('static', 'ra-stateless')
               for subnet in _served_ipv6(plan))


def argv(plan: box_plan.Plan, device: str) -> list[str]:
    """Return the server's command line; the server goes to the background when it serves.

    :param device: the namespace's device
    """
    arguments = [
        PROGRAM, '--conf-file=/dev/null', '--no-hosts', '--no-resolv', '--no-ping', '--port=0',
        f'--user={USER}', f'--group={_group()}', '--pid-file=', f'--interface={device}',
        '--bind-interfaces', '--except-interface=lo', '--dhcp-authoritative', '--leasefile-ro',
        '--log-facility=/dev/null']
    for number, subnet in enumerate(subnet for subnet in plan.ipv4
                                    if subnet.dhcp and subnet.addresses):
        arguments += _subnet(plan, subnet, number, device)
    return arguments + _arguments_ipv6(plan, device)


def _group() -> str:
    return grp.getgrgid(pwd.getpwnam(USER).pw_gid).gr_name


def _subnet(plan: box_plan.Plan, subnet: box_plan.Subnet, number: int, device: str) -> list[str]:
    network = ipaddress.IPv4Network(subnet.cidr)
    # A port has one lease, for its first address with DHCP, as with Neutron's own agents.
    address = subnet.addresses[0]
    tag = f'subnet{number}'
    host = ['--dhcp-host=' + ','.join([plan.mac, address, *_leases_ipv6(plan),
                                       host_name(address), str(LEASE)])]
    arguments = [
        f'--dhcp-range=set:{tag},{network.network_address},static,{network.netmask},{LEASE}',
        *(host if not number else [])]
    if subnet.server is None or subnet.server in subnet.addresses:
        arguments.append(f'--shared-network={device},{network.network_address}')
    for option, value in _options(plan, subnet):
        arguments.append(f'--dhcp-option-force=tag:{tag},{option}{"," if value else ""}{value}')
    return arguments


def _options(plan: box_plan.Plan, subnet: box_plan.Subnet) -> list[tuple[str, str]]:
    options = [('option:dns-server', ','.join(subnet.dns))] if subnet.dns else []
    # With an empty value dnsmasq sends no router; by default it would name itself.
    options.append(('option:router', subnet.gateway or ''))
    if routes := _routes(plan, subnet):
        text = ','.join(f'{to},{via}' for to, via in routes)
        options += [(str(code), text) for code in _CLASSLESS_ROUTES]
    if plan.mtu:
        options.append(('option:mtu', str(plan.mtu)))
    return options


def _routes(plan: box_plan.Plan, subnet: box_plan.Subnet) -> list[tuple[str, str]]:
    """Return the routes of a subnet, with the metadata address and the default route.

    A client that gets routes ignores the router option.
    """
    routes = list(subnet.routes)
    metadata = f'{box_plan.METADATA_ADDRESS}/32'
    hop = plan.metadata_hop(subnet)
    if hop and metadata not in dict(routes):
        routes.append((metadata, hop))
    if routes and subnet.gateway:
        routes.append(('0.0.0.0/0', subnet.gateway))
    return routes


def _served_ipv6(plan: box_plan.Plan) -> list[box_plan.Subnet]:
    return [subnet for subnet in plan.answered_ipv6
            if subnet.dhcp and subnet.addresses and subnet.prefix >= _SHORTEST_PREFIX
            and (subnet.address_mode is None or subnet.address_mode in _MODES)]


def _leases_ipv6(plan: box_plan.Plan) -> list[str]:
    """Return the port's addresses that it gets by DHCPv6, one in each subnet.

    Neutron serves DHCPv6 without advertisements in a subnet without a mode.
    """
    return [f'[{subnet.addresses[0]}]' for subnet in _served_ipv6(plan)
            if (subnet.address_mode or _STATEFUL) == _STATEFUL]


def _arguments_ipv6(plan: box_plan.Plan, device: str) -> list[str]:
    """Return the part of the command line for IPv6; nothing without a subnet of it."""
    arguments = []
    for number, subnet in enumerate(_served_ipv6(plan)):
        network = ipaddress.IPv6Network(subnet.cidr)
        tag, mode = f'ipv6-{number}', _MODES[subnet.address_mode or _STATEFUL]
        arguments.append(f'--dhcp-range=set:{tag},{network.network_address},{mode},'
                         f'{subnet.prefix},{LEASE}')
        if servers := ','.join(f'[{server}]' for server in subnet.dns
                               if ipaddress.ip_address(server).version == 6):
            arguments.append(f'--dhcp-option-force=tag:{tag},option6:dns-server,{servers}')
    leases = _leases_ipv6(plan)
    if leases and not any(subnet.dhcp and subnet.addresses for subnet in plan.ipv4):
        arguments.append('--dhcp-host=' + ','.join([
            plan.mac, *leases, host_name(leases[0].strip('[]')), str(LEASE)]))
    if advertised(plan):
        lifetime = _LIFETIME if any(subnet.gateway for subnet in _served_ipv6(plan)) else 0
        arguments += ['--enable-ra', f'--ra-param={device},mtu:{plan.mtu or "off"},'
                                     f'{_INTERVAL},{lifetime}']
    return arguments


def host_name(address: str) -> str:
    """Return the name that Neutron's DHCP agents give a host."""
    return 'host-' + address.replace('.', '-').replace(':', '-')
