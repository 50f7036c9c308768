# SPDX-License-Identifier: Apache-2.0
"""The DHCP server of a box: dnsmasq, which gives one port the lease of its network.

The server has the address of the network's own DHCP server, or else of the gateway, so that the
guest renews its lease at that address later; if nothing answers there, it broadcasts, as the
protocol defines.

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
# Not always in the PATH of a service, although root's programs are there.
_MORE_PLACES = ('/usr/sbin', '/sbin')

_CLASSLESS_ROUTES = (121, 249)


def missing() -> str | None:
    """Return why this host can serve no DHCP in boxes; None if it can."""
    places = os.pathsep.join([os.environ.get('PATH', os.defpath), *_MORE_PLACES])
    if shutil.which(PROGRAM, path=places) is None:
        return f'{PROGRAM} is not installed: no DHCP server in the boxes of backups'
    try:
        _group()
    except KeyError as exc:
        return f'the user {USER}, as which {PROGRAM} runs, or its group does not exist: {exc}'
    return None


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
    return arguments


def _group() -> str:
    return grp.getgrgid(pwd.getpwnam(USER).pw_gid).gr_name


def _subnet(plan: box_plan.Plan, subnet: box_plan.Subnet, number: int, device: str) -> list[str]:
    network = ipaddress.IPv4Network(subnet.cidr)
    # A port has one lease, for its first address with DHCP, as with Neutron's own agents.
    address = subnet.addresses[0]
    tag = f'subnet{number}'
    host = ['--dhcp-host=' + ','.join([plan.mac, address, host_name(address), str(LEASE)])]
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


def host_name(address: str) -> str:
    """Return the name that Neutron's DHCP agents give a host."""
    return 'host-' + address.replace('.', '-')
