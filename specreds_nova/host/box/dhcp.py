# SPDX-License-Identifier: Apache-2.0
"""The DHCP server of a box: dnsmasq, which gives one port the lease of its network.

The server has the address of the network's own DHCP server, or else of the gateway, so that the
guest renews its lease at that address later; if nothing answers there, it broadcasts, as the
protocol defines.

The options are those that the network gives. Three programs give them, each in its own way:
dnsmasq of Neutron's DHCP agent, which has a port on the network, the DHCP extension of its Open
vSwitch agent, and OVN's controller. What their configurations say is taken to be the default.

It also advertises the router of a network with IPv6, and serves DHCPv6, as the subnets demand.

Input from a tenant's guest is parsed by a process of the user nobody.
"""

import dataclasses
import grp
import ipaddress
import os
import pathlib
import pwd
import shutil
import subprocess

from specreds_nova.host.box import plan as box_plan

# Neutron's default lease, and the one with OVN, in seconds: the network's own server need not be
# back soon after a failure.
LEASE = 86400
LEASE_OVN = 43200

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

_ROUTES, _ROUTES_MICROSOFT = '121', '249'
_HOST_NAME = '12'
# An owner's way to say that a network has no name servers.
_NO_SERVER = '0.0.0.0'
_RESOLVERS = pathlib.Path('/etc/resolv.conf')
# Owners' options that replace one of the network's.
_REPLACED = {'router': '3', 'dns-server': '6', 'hostname': _HOST_NAME, 'domain-name': '15',
             'mtu': '26', 'classless-static-route': _ROUTES}
# Owners' options that OVN knows (Neutron's SUPPORTED_DHCP_OPTS_MAPPING), and dnsmasq can send.
_OVN = {'netmask': '1', 'log-server': '7', 'lpr-server': '9', 'swap-server': '16',
        'ip-forward-enable': '19', 'policy-filter': '21', 'default-ttl': '23',
        'router-discovery': '31', 'router-solicitation': '32', 'arp-timeout': '35',
        'ethernet-encap': '36', 'tcp-ttl': '37', 'tcp-keepalive': '38', 'nis-server': '41',
        'ntp-server': '42', 'tftp-server': '66', 'bootfile-name': '67', 'domain-search': '119',
        'tftp-server-address': '150', 'path-prefix': '210',
        'ms-classless-static-route': _ROUTES_MICROSOFT, 'wpad': '252',
        **{name: code for name, code in _REPLACED.items() if code != _HOST_NAME}}
# Timeout of a check of the command line, in seconds.
_CHECK = 10.0
# The client chooses it.
_CLIENT_ID = ('client-id', '61')


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


def with_known_options(plan: box_plan.Plan, device: str) -> box_plan.Plan:
    """Return a plan without those options of the port's owner that the program does not know."""
    known = []
    for option in plan.dhcp_options:
        program, *arguments = argv(dataclasses.replace(plan, dhcp_options=(option,)), device)
        checked = subprocess.run(
            [shutil.which(program, path=places()) or program, '--test', *arguments], check=False,
            capture_output=True, timeout=_CHECK)
        if checked.returncode == 0:
            known.append(option)
    return dataclasses.replace(plan, dhcp_options=tuple(known))


def _group() -> str:
    return grp.getgrgid(pwd.getpwnam(USER).pw_gid).gr_name


def _subnet(plan: box_plan.Plan, subnet: box_plan.Subnet, number: int, device: str) -> list[str]:
    network = ipaddress.IPv4Network(subnet.cidr)
    # A port has one lease, for its first address with DHCP, as with Neutron's own agents.
    address = subnet.addresses[0]
    tag = f'subnet{number}'
    lease = str(_lease(plan))
    # OVN names no host, and its guests keep the names that they have.
    name = [] if plan.ovn else [_own_name(plan, subnet)]
    host = ['--dhcp-host=' + ','.join([plan.mac, address, *_leases_ipv6(plan), *name, lease])]
    arguments = [
        f'--dhcp-range=set:{tag},{network.network_address},static,{network.netmask},{lease}',
        *(host if not number else [])]
    if subnet.server is None or subnet.server in subnet.addresses:
        arguments.append(f'--shared-network={device},{network.network_address}')
    options, owners = _options(plan, subnet), _owners(plan, subnet)
    arguments += [_argument(f'--dhcp-option-force=tag:{tag}', option, value)
                  for option, value in options.items() if option not in owners]
    # Dnsmasq of Neutron's agent sends these if the guest requests them.
    how = '--dhcp-option-force' if plan.ovn else '--dhcp-option'
    return arguments + [_argument(f'{how}=tag:{tag}', option, value)
                        for option, value in owners.items()]


def _argument(start: str, option: str, value: str) -> str:
    return f'{start},{option}{"," if value else ""}{value}'


def _lease(plan: box_plan.Plan) -> int:
    return LEASE_OVN if plan.ovn else LEASE


def _options(plan: box_plan.Plan, subnet: box_plan.Subnet) -> dict[str, str]:
    """Return the options of the network by number."""
    # With an empty value dnsmasq sends no router; by default it would name itself.
    options = {'3': subnet.gateway or ''}
    if servers := _name_servers(plan, subnet):
        options['6'] = ','.join(servers)
    if routes := _routes(plan, subnet):
        text = ','.join(f'{to},{via}' for to, via in routes)
        options[_ROUTES] = text
        if subnet.dhcp_server and not plan.ovn:
            options[_ROUTES_MICROSOFT] = text
    if plan.mtu:
        options['26'] = str(plan.mtu)
    if plan.domain and not (plan.ovn and plan.domain == box_plan.DEFAULT_DOMAIN):
        options['15'] = plan.domain
    if _by_extension(plan, subnet) and plan.domain:
        options[_HOST_NAME] = f'{_own_name(plan, subnet)}.{plan.domain}'
    return options


def _owners(plan: box_plan.Plan, subnet: box_plan.Subnet) -> dict[str, str]:
    """Return the options that the owner of the port has set, by number or in dnsmasq's words."""
    if _by_extension(plan, subnet):
        return {}
    options = {}
    for name, value in plan.dhcp_options:
        if plan.ovn:
            code = _OVN.get(name, name)
            if code in _OVN.values():
                # In OVN's notation, a text is quoted, and a list is in braces.
                options[code] = ''.join(value.strip('{}"').split(' '))
        elif name not in _CLIENT_ID:
            options[_REPLACED.get(name, name if name.isdigit() else f'option:{name}')] = value
    return options


def _by_extension(plan: box_plan.Plan, subnet: box_plan.Subnet) -> bool:
    """Return whether the agents of Open vSwitch give the network its DHCP."""
    return not plan.ovn and not subnet.dhcp_server


def _own_name(plan: box_plan.Plan, subnet: box_plan.Subnet) -> str:
    """Return the guest's name without its domain."""
    name = None if _by_extension(plan, subnet) else plan.host_name
    return name or host_name(subnet.addresses[0])


def _name_servers(plan: box_plan.Plan, subnet: box_plan.Subnet) -> list[str]:
    servers = list(subnet.dns)
    if _by_extension(plan, subnet):
        return servers
    if not servers:
        # Neutron's agent names itself. OVN names the resolvers of the controllers, whose
        # configuration is taken to be the same as here.
        servers = _resolvers() if plan.ovn else [str(subnet.dhcp_server)]
    return [] if _NO_SERVER in servers else servers


def _resolvers() -> list[str]:
    try:
        lines = [line.split() for line in _RESOLVERS.read_text().splitlines()]
    except OSError:
        return []
    return [line[1] for line in lines if line[:1] == ['nameserver'] and len(line) > 1
            and ':' not in line[1]]


def _routes(plan: box_plan.Plan, subnet: box_plan.Subnet) -> list[tuple[str, str]]:
    """Return the routes of a subnet, with the metadata address and the default route.

    A client that gets routes ignores the router option.
    """
    hop = plan.metadata_hop(subnet)
    metadata = [(f'{box_plan.METADATA_ADDRESS}/32', hop)] if hop else []
    default = [('0.0.0.0/0', subnet.gateway)] if subnet.gateway else []
    routes = list(subnet.routes)
    if default and _by_extension(plan, subnet):
        return [*default, *metadata, *routes]
    if metadata and metadata[0][0] in dict(routes):
        metadata = []
    routes = [*metadata, *routes] if plan.ovn else [*routes, *metadata]
    return [*routes, *default] if routes else []


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
