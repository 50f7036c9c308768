# SPDX-License-Identifier: Apache-2.0
"""Directories and addresses of a DevStack."""

import dataclasses
import ipaddress
import json
import pathlib

from cloud.matrix import platforms
from cloud.matrix import root as roots

# DevStack supports them, and the tests of this project run on them.
PLATFORMS = ('debian-12', 'debian-13')
# What wires servers: the agents of Open vSwitch, or OVN.
NETWORKS = ('openvswitch', 'ovn')
# Where the container has its repositories and this project's stand-ins.
GIT = pathlib.PurePosixPath('/opt/git')
STAND_INS = pathlib.PurePosixPath('/opt/stand-ins')
DEVSTACK = pathlib.PurePosixPath('/opt/stack/devstack')
STACK_LOG = pathlib.PurePosixPath('/opt/stack/logs/stack.sh.log')
NOVA_CONF = pathlib.PurePosixPath('/etc/nova/nova.conf')
ETC_CEPH = pathlib.PurePosixPath('/etc/ceph')
# Of a range that RFC 2544 reserves for tests.
DEFAULT_SUBNET = '198.18.250.0/24'
# A second interface of a container, without an address, for what tenants send from node to node.
DATA = 'data0'
# Host names of the nodes. The first one has everything, the others are compute hosts.
NODES = ('devstack', 'devstack2', 'devstack3')
# Directories of the others, below the directory of the first one.
_OTHERS = ('second', 'third')


@dataclasses.dataclass(frozen=True)
class Choices:
    """What is chosen once for a DevStack.

    :param platform: of its nodes
    :param network: what wires servers
    """

    platform: str = PLATFORMS[0]
    network: str = NETWORKS[0]

    @classmethod
    def load(cls, data: pathlib.Path) -> 'Choices | None':
        """Return the choices of a DevStack, None if it does not exist."""
        path = _choices(data)
        return cls(**json.loads(path.read_text())) if path.exists() else None

    def save(self, data: pathlib.Path) -> None:
        """Record them for a DevStack."""
        data.mkdir(parents=True, exist_ok=True)
        _choices(data).write_text(json.dumps(dataclasses.asdict(self)) + '\n')


def _choices(data: pathlib.Path) -> pathlib.Path:
    return data / 'choices.json'


@dataclasses.dataclass(frozen=True)
class Layout:
    """Places of one node of a DevStack.

    :param data: directory of the node; the first node has the DevStack's
    :param cache: directory of fresh roots
    :param index: of the node
    :param choices: of the DevStack
    """

    data: pathlib.Path
    cache: pathlib.Path
    index: int = 0
    choices: Choices = Choices()

    @property
    def name(self) -> str:
        """The host name of the node."""
        return NODES[self.index]

    @property
    def others(self) -> 'tuple[Layout, ...]':
        """The places of the other nodes, below the places of the first one."""
        return tuple(Layout(self.data / directory, self.cache, index, self.choices)
                     for index, directory in enumerate(_OTHERS, 1))

    @property
    def root(self) -> roots.Root:
        """The root of the container."""
        return roots.Root(self.data, platforms.PLATFORMS[self.choices.platform],
                          cache=self.cache)

    @property
    def logs(self) -> pathlib.Path:
        """The directory of all logs outside of the container."""
        return self.root.logs

    @property
    def stack_log(self) -> pathlib.Path:
        """The output of stack.sh."""
        return self.logs / 'stack.log'

    @property
    def stacked(self) -> pathlib.Path:
        """File that exists once stack.sh has succeeded."""
        return self.data / 'stacked.json'

    @property
    def begun(self) -> pathlib.Path:
        """File that exists once stack.sh has been started."""
        return self.data / 'begun'

    @property
    def network(self) -> pathlib.Path:
        """The record of the changes to the network of this machine."""
        return self.data / 'network.json'

    def inside(self, path: pathlib.PurePosixPath) -> pathlib.Path:
        """Return the path by which this machine sees a path of the container."""
        return self.root.path / str(path).lstrip('/')


@dataclasses.dataclass(frozen=True)
class Addresses:
    """Addresses in the subnet of a DevStack.

    :param bridge: of this machine
    :param nodes: of the containers
    :param prefix: length of the subnet's prefix
    """

    bridge: str
    nodes: tuple[str, ...]
    prefix: int


def addresses(subnet: str) -> Addresses:
    """Return the addresses in a subnet.

    :raises ValueError: the subnet is none, or has no room for all
    """
    network = ipaddress.IPv4Network(subnet)
    if network.num_addresses < len(NODES) + 3:
        raise ValueError(f'{subnet} has too few addresses')
    return Addresses(str(network[1]), tuple(str(network[2 + index])
                                            for index in range(len(NODES))), network.prefixlen)


def data_device(name: str) -> str:
    """Return the other end of a node's second interface, on this machine."""
    return f'{name}-data'
