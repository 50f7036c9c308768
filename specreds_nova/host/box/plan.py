# SPDX-License-Identifier: Apache-2.0
"""The parts of one port's box: names and addresses, from Nova's network model.

A plan is plain data for the mechanism, the flows, the DHCP server and the reconciliation. It is
stored on disk, so that a restarted service finds it.
"""

from collections.abc import Mapping, Sequence
import dataclasses
import ipaddress
import json
import pathlib
import shutil
from typing import Any, Self
import uuid

from nova.network import model as network_model

# How many characters of a port's id are part of a device's name, as in Nova and os-vif.
_ID_LENGTH = 11

# Details of a binding that decide whether os-vif makes the guest's device, and for which datapath.
CREATE_TAP = 'ovs_create_tap'
DATAPATH = network_model.VIF_DETAILS_OVS_DATAPATH_TYPE
_PLUGGING = (CREATE_TAP, DATAPATH)
# The detail that names the drivers that have bound a port, and the driver of OVN.
_BOUND = 'bound_drivers'
_OVN = 'ovn'

_FOREIGN = 'specreds-box'

# Neutron's default of dns_domain, which its API shows only with the extension for DNS.
DEFAULT_DOMAIN = 'openstacklocal'

METADATA_ADDRESS = '169.254.169.254'
# As in Neutron, whose agents answer at it, too.
METADATA_ADDRESS_IPV6 = 'fe80::a9fe:a9fe'
_PLAN = 'plan.json'


@dataclasses.dataclass(frozen=True)
class Subnet:
    """One subnet of a port.

    :param cidr: the subnet
    :param addresses: the port's own addresses in it
    :param gateway: the gateway's address, or None
    :param dns: name servers
    :param routes: (destination, next hop) of the subnet's host routes
    :param dhcp: the network serves DHCP in it
    :param dhcp_server: address of the network's DHCP server, if that has one of its own
    :param address_mode: how guests get their addresses by IPv6, in Neutron's words; None if the
        network service does not know
    """

    cidr: str
    addresses: tuple[str, ...]
    gateway: str | None
    dns: tuple[str, ...]
    routes: tuple[tuple[str, str], ...]
    dhcp: bool
    dhcp_server: str | None
    address_mode: str | None = None

    @property
    def version(self) -> int:
        return ipaddress.ip_network(self.cidr).version

    @property
    def prefix(self) -> int:
        return ipaddress.ip_network(self.cidr).prefixlen

    @property
    def server(self) -> str | None:
        """Address of the box\'s DHCP server, at which the guest will also renew its lease."""
        return self.dhcp_server or self.gateway


@dataclasses.dataclass(frozen=True)
class Plan:
    """One port in its box.

    :param port: the port's id
    :param mac: the guest's hardware address
    :param tap: the guest's device on this host
    :param integration_bridge: the bridge on which the network service wires ports
    :param instance: the server's id
    :param backup_id: the backup's id
    :param mtu: bytes, or None for the network's default
    :param subnets: the port's subnets
    :param neighbours: hardware addresses of gateways and DHCP servers that are known
    :param details: details of the port's binding that decide how os-vif plugs the device
    :param hybrid: a Linux bridge, on which iptables implements security groups, is between the
        guest's device and the box
    :param ovn: OVN wires the port
    :param metadata_hops: addresses of OVN's metadata agents on the network; without them a DHCP
        server or a gateway routes to the metadata address
    :param ipv6_served: the box answers over IPv6
    :param router: link-local address of the network's router, if it is known
    :param host_name: name that the network service assigns to the port; None for the default
    :param domain: domain of that name
    :param dhcp_options: options of DHCP that the port's owner has set, by name or number
    """

    port: str
    mac: str
    tap: str
    integration_bridge: str
    instance: str
    backup_id: str
    mtu: int | None
    subnets: tuple[Subnet, ...]
    neighbours: Mapping[str, str] = dataclasses.field(default_factory=dict)
    details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    hybrid: bool = False
    ovn: bool = False
    metadata_hops: tuple[str, ...] = ()
    ipv6_served: bool = False
    router: str | None = None
    host_name: str | None = None
    domain: str = DEFAULT_DOMAIN
    dhcp_options: tuple[tuple[str, str], ...] = ()

    @property
    def bridge(self) -> str:
        return bridge_of(self.port)

    @property
    def device(self) -> str:
        """Device through which the guest is in the box's bridge."""
        return veth_of(self.port) if self.hybrid else self.tap

    @property
    def patch(self) -> str:
        """End of the patch in the box."""
        return f'sbp-{self.port[:_ID_LENGTH]}'

    @property
    def patch_peer(self) -> str:
        """End of the patch on the integration bridge, which the network service wires."""
        return patch_peer_of(self.port)

    @property
    def service(self) -> str:
        """Device that leads from the bridge to DHCP and metadata."""
        return service_of(self.port)

    @property
    def namespace(self) -> str:
        return namespace_of(self.port)

    @property
    def service_mac(self) -> str:
        """Hardware address of the box's services: local, and always the same for a port."""
        return '02:' + ':'.join(self.port.replace('-', '')[n:n + 2] for n in range(0, 10, 2))

    @property
    def ipv4(self) -> tuple[Subnet, ...]:
        return tuple(subnet for subnet in self.subnets if subnet.version == 4)

    @property
    def ipv6(self) -> tuple[Subnet, ...]:
        return tuple(subnet for subnet in self.subnets if subnet.version == 6)

    @property
    def answered_ipv6(self) -> tuple[Subnet, ...]:
        """The subnets of IPv6 for which the box answers."""
        return self.ipv6 if self.ipv6_served else ()

    @property
    def answered(self) -> dict[str, str]:
        """IPv4 addresses for which the box answers ARP, with the hardware address of the answer.

        That is the real one if it is known, so that the guest need not learn it when the box
        opens.
        """
        addresses = dict.fromkeys([METADATA_ADDRESS])
        for subnet in self.ipv4:
            addresses.update(dict.fromkeys(
                address for address in (subnet.dhcp_server, subnet.gateway,
                                        self.metadata_hop(subnet)) if address))
        own = {address for subnet in self.ipv4 for address in subnet.addresses}
        return {address: self.neighbours.get(address, self.service_mac)
                for address in addresses if address not in own}

    def metadata_hop(self, subnet: Subnet) -> str | None:
        """Return the address by which a subnet routes to the metadata address."""
        network = ipaddress.ip_network(subnet.cidr)
        return next((hop for hop in self.metadata_hops if ipaddress.ip_address(hop) in network),
                    subnet.server)

    def mismatch(self, details: Mapping[str, Any], default_bridge: str) -> str | None:
        """Return why a binding on this host does not fit the plan; None if it does.

        The plan is made from the binding on the primary's host.

        :param details: details of the binding on this host
        :param default_bridge: integration bridge of a binding that does not name one
        """
        here = details.get(network_model.VIF_DETAILS_BRIDGE_NAME, default_bridge)
        if here != self.integration_bridge:
            return (f'its port {self.port} belongs to {here} on this host, but to '
                    f'{self.integration_bridge} on its own host')
        # Rules of iptables would not meet the frames of a guest without a Linux bridge.
        if bool(details.get(network_model.VIF_DETAILS_OVS_HYBRID_PLUG)) != self.hybrid:
            return (f'the network agents of this host and of its own have different firewall '
                    f'drivers: security groups would not apply to its port {self.port}')
        if drivers(details) and is_ovn(details) != self.ovn:
            return (f'OVN wires its port {self.port} on '
                    f'{"its own host" if self.ovn else "this host"} only')
        return None

    def shown(self, port: Mapping[str, Any]) -> Self:
        """Return the plan with what Nova's network model does not have.

        :param port: the port as the network service shows it
        """
        options = tuple((str(option['opt_name']), str(option['opt_value']).split('\n', 1)[0])
                        for option in port.get('extra_dhcp_opts') or ()
                        if option.get('ip_version', 4) == 4)
        own = {address for subnet in self.ipv4 for address in subnet.addresses}
        name, domain = self.host_name, self.domain
        for assigned in port.get('dns_assignment') or ():
            if assigned['ip_address'] in own and assigned.get('hostname'):
                name = assigned['hostname']
                domain = assigned['fqdn'].removeprefix(name).strip('.')
                break
        return dataclasses.replace(self, host_name=name, domain=domain, dhcp_options=options)

    def to_json(self) -> str:
        return json.dumps(dataclasses.asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the plan that :meth:`to_json` wrote.

        :raises ValueError, KeyError, TypeError: the text is anything else
        """
        fields = json.loads(text)
        subnets = tuple(
            Subnet(**{**subnet,
                      'addresses': tuple(subnet['addresses']),
                      'dns': tuple(subnet['dns']),
                      'routes': tuple((to, via) for to, via in subnet['routes'])})
            for subnet in fields.pop('subnets'))
        hops = tuple(fields.pop('metadata_hops'))
        options = tuple((name, value) for name, value in fields.pop('dhcp_options'))
        return cls(subnets=subnets, metadata_hops=hops, dhcp_options=options, **fields)


def drivers(details: Mapping[str, Any]) -> set[str]:
    """Return the drivers that have bound a port; none if the network service names none.

    :param details: details of a binding
    """
    return set(details.get(_BOUND, {}).values())


def is_ovn(details: Mapping[str, Any]) -> bool:
    """Return whether OVN has bound a port."""
    return _OVN in drivers(details)


def foreign_id(port: str) -> str:
    """Return the id that the guest's device gets instead of the port's.

    The id depends on the port alone. ovn-controller does not see the device in the box. If the
    device were on the integration bridge for a moment, the port's id would make it the port.
    """
    return str(uuid.uuid5(uuid.UUID(port), _FOREIGN))


def plug_into_box(vif: Any, plan: Plan) -> None:
    """Make os-vif plug a port into its box."""
    vif['network']['bridge'] = plan.bridge
    if plan.ovn:
        vif['ovs_interfaceid'] = foreign_id(plan.port)


def bridge_of(port: str) -> str:
    return f'sb{port[:_ID_LENGTH]}'


def patch_peer_of(port: str) -> str:
    return f'sbi-{port[:_ID_LENGTH]}'


def veth_of(port: str) -> str:
    """Return the device by which os-vif connects a port's Linux bridge with Open vSwitch."""
    return f'qvo{port[:_ID_LENGTH]}'


def linux_bridge_of(port: str) -> str:
    """Return the Linux bridge that Nova names for a port."""
    return f'qbr{port[:_ID_LENGTH]}'


def service_of(port: str) -> str:
    return f'sv{port[:_ID_LENGTH]}'


def namespace_of(port: str) -> str:
    return f'specreds-{port}'


def from_vif(vif: Any, instance: str, backup_id: str, *, ipv6_served: bool = False) -> Plan:
    """Return the plan of a port.

    :param vif: nova.network.model.VIF, as on this host
    :param ipv6_served: the boxes of this host answer over IPv6
    """
    network = vif['network']
    return Plan(port=vif['id'], mac=vif['address'].lower(), tap=vif['devname'],
                integration_bridge=network['bridge'], instance=instance, backup_id=backup_id,
                mtu=network.get_meta('mtu'), subnets=_subnets(network['subnets']),
                details={key: value for key, value in (vif['details'] or {}).items()
                         if key in _PLUGGING},
                hybrid=bool(vif.is_hybrid_plug_enabled()), ovn=is_ovn(vif['details'] or {}),
                ipv6_served=ipv6_served)


def _subnets(subnets: Sequence[Any]) -> tuple[Subnet, ...]:
    return tuple(
        Subnet(cidr=subnet['cidr'],
               addresses=tuple(ip['address'] for ip in subnet['ips']),
               gateway=_address(subnet['gateway']),
               dns=tuple(ip['address'] for ip in subnet['dns']),
               routes=tuple((route['cidr'], route['gateway']['address'])
                            for route in subnet['routes']),
               dhcp=bool(subnet.get_meta('enable_dhcp') or subnet.get_meta('dhcp_server')),
               dhcp_server=subnet.get_meta('dhcp_server'),
               address_mode=subnet.get_meta('ipv6_address_mode'))
        for subnet in subnets if subnet['cidr'])


def _address(ip: Any) -> str | None:
    return ip['address'] if ip else None


class PlanStore:
    """A directory for each port that has a box, with its plan and what belongs to it.

    :param directory: made when the first plan is saved
    """

    def __init__(self, directory: pathlib.Path) -> None:
        self._directory = directory

    def path(self, port: str, name: str) -> pathlib.Path:
        """Return the path of a file that is kept with a port's plan."""
        return self._directory / port / name

    def save(self, plan: Plan) -> None:
        """Store a plan atomically."""
        path = self.path(plan.port, _PLAN)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = path.with_name(f'{_PLAN}.new')
        temporary.write_text(plan.to_json())
        temporary.replace(path)

    def get(self, port: str) -> Plan | None:
        """Return the plan of a port; None if there is none that can be read."""
        try:
            return Plan.from_json(self.path(port, _PLAN).read_text())
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def all(self) -> list[Plan]:
        """Return all plans."""
        if not self._directory.exists():
            return []
        plans = [self.get(entry.name) for entry in sorted(self._directory.iterdir())]
        return [plan for plan in plans if plan]

    def of(self, backup_id: str) -> list[Plan]:
        """Return the plans of a backup."""
        return [plan for plan in self.all() if plan.backup_id == backup_id]

    def forget(self, port: str) -> None:
        """Remove the plan of a port, and what is kept with it."""
        shutil.rmtree(self._directory / port, ignore_errors=True)
