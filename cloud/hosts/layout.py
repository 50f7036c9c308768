# SPDX-License-Identifier: Apache-2.0
"""The paths of a compute host's files, and the names of its networks."""

from collections.abc import Sequence
import dataclasses
import ipaddress
import pathlib
import uuid

from cloud.openstack import layout

CONTROL = 'control'
STORAGE = 'storage'
TENANT = 'tenant'
# Also the names of the host's network devices.
NETWORKS = (CONTROL, STORAGE, TENANT)

# Addresses before this one are the controller's.
_FIRST_ADDRESS = 11
# No cloud reaches the tenants' network of another one.
_TUNNELS = ipaddress.IPv4Network('10.76.0.0/24')
# Where supervisord has its socket, inside the host.
RUN = pathlib.Path('/run/specreds')


@dataclasses.dataclass(frozen=True)
class Layout:
    """The paths of one host's files, which survive its death as a disk does.

    :param number: from 1 on
    """

    cloud: layout.Layout
    settings: layout.Settings
    number: int

    @property
    def name(self) -> str:
        """Its name."""
        return f'cn{self.number}'

    @property
    def root(self) -> pathlib.Path:
        """Everything of the host is in it."""
        return self.cloud.hosts / self.name

    @property
    def record(self) -> pathlib.Path:
        """Which process the host is."""
        return self.root / 'host.json'

    @property
    def lock(self) -> pathlib.Path:
        """Keeps a second attempt to start it waiting."""
        return self.root / 'lock'

    @property
    def etc(self) -> pathlib.Path:
        """Its configuration."""
        return self.root / 'etc'

    @property
    def log(self) -> pathlib.Path:
        """Its logs."""
        return self.root / 'log'

    @property
    def state(self) -> pathlib.Path:
        """What its OpenStack services keep."""
        return self.root / 'state'

    @property
    def instances(self) -> pathlib.Path:
        """What Nova keeps of its guests, such as what they print."""
        return self.state / 'nova' / 'instances'

    @property
    def nova_conf(self) -> pathlib.Path:
        """What nova-compute reads."""
        return self.etc / 'nova' / 'nova.conf'

    @property
    def neutron_conf(self) -> pathlib.Path:
        """What the agent of Neutron reads."""
        return self.etc / 'neutron' / 'neutron.conf'

    @property
    def init_conf(self) -> pathlib.Path:
        """What the host's first process reads."""
        return self.etc / 'init.json'

    @property
    def supervisor_conf(self) -> pathlib.Path:
        """What the host's supervisord reads."""
        return self.etc / 'supervisord.conf'

    @property
    def addresses(self) -> dict[str, ipaddress.IPv4Interface]:
        """Its addresses by network."""
        settings = self.settings
        return {name: ipaddress.IPv4Interface((network[_FIRST_ADDRESS + self.number - 1],
                                               network.prefixlen))
                for name, network in ((CONTROL, settings.control), (STORAGE, settings.storage))}

    @property
    def tunnel(self) -> ipaddress.IPv4Interface:
        """Its address on the tenants' network, for tunnels."""
        return ipaddress.IPv4Interface((_TUNNELS[_FIRST_ADDRESS + self.number - 1],
                                        _TUNNELS.prefixlen))

    @property
    def ethernet(self) -> dict[str, str]:
        """The Ethernet addresses of its devices by network, which others may remember."""
        high, low = divmod(self.settings.port, 256)
        # 02: assigned locally.
        return {name: f'02:{high:02x}:{low:02x}:{self.number:02x}:00:{index:02x}'
                for index, name in enumerate(NETWORKS, start=1)}

    @property
    def uuid(self) -> str:
        """What libvirt believes to be the machine's serial number."""
        return str(uuid.uuid5(uuid.UUID(self.settings.secret_uuid), self.name))

    @property
    def mounts(self) -> Sequence[tuple[pathlib.Path, str]]:
        """What the host has of its own, and where it sees it."""
        return [
            (self.etc / 'libvirt', '/etc/libvirt'),
            (self.root / 'lib' / 'libvirt', '/var/lib/libvirt'),
            (self.root / 'cache' / 'libvirt', '/var/cache/libvirt'),
            (self.log / 'libvirt', '/var/log/libvirt'),
            (self.etc / 'openvswitch', '/etc/openvswitch'),
            (self.root / 'lib' / 'openvswitch', '/var/lib/openvswitch'),
            (self.etc / 'ceph', '/etc/ceph'),
        ]

    @property
    def known_hosts(self) -> pathlib.Path:
        """The names and addresses of all hosts."""
        return self.etc / 'hosts'
