# SPDX-License-Identifier: Apache-2.0
"""Directories and addresses of a DevStack."""

import dataclasses
import ipaddress
import pathlib

from cloud.matrix import platforms
from cloud.matrix import root as roots

# DevStack supports it, and the tests of this project run on it.
PLATFORM = platforms.PLATFORMS['debian-12']
# Where the container has its repositories and this project's stand-ins.
GIT = pathlib.PurePosixPath('/opt/git')
STAND_INS = pathlib.PurePosixPath('/opt/stand-ins')
DEVSTACK = pathlib.PurePosixPath('/opt/stack/devstack')
STACK_LOG = pathlib.PurePosixPath('/opt/stack/logs/stack.sh.log')
# Of a range that RFC 2544 reserves for tests.
DEFAULT_SUBNET = '198.18.250.0/24'


@dataclasses.dataclass(frozen=True)
class Layout:
    """Places of one DevStack.

    :param data: directory of the DevStack
    :param cache: directory of fresh roots
    """

    data: pathlib.Path
    cache: pathlib.Path

    @property
    def root(self) -> roots.Root:
        """The root of the container."""
        return roots.Root(self.data, PLATFORM, cache=self.cache)

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


def addresses(subnet: str) -> tuple[str, str, int]:
    """Return the addresses of this machine and of the container, and the length of the prefix.

    :raises ValueError: the subnet is none, or has no room for both
    """
    network = ipaddress.IPv4Network(subnet)
    if network.num_addresses < 4:
        raise ValueError(f'{subnet} has too few addresses')
    return str(network[1]), str(network[2]), network.prefixlen
