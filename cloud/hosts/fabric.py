# SPDX-License-Identifier: Apache-2.0
"""The networks of a cloud: three bridges in a namespace of their own, where nothing forwards.

The machine itself has a leg in two of them, with the addresses of the controller and of Ceph; a
client of the tenants' servers has a namespace with a leg in the third.
"""

from collections.abc import Iterable, Mapping
import ipaddress
import json
import os
import pathlib
import subprocess
from typing import Any

from cloud import commands
from cloud.hosts import layout as hosts_layout
from cloud.openstack import layout
from cloud.openstack import neutron

# What a bridge would otherwise show to the machine's packet filter.
_FILTERED = tuple(pathlib.Path('/proc/sys/net/bridge') / f'bridge-nf-call-{kind}'
                  for kind in ('arptables', 'ip6tables', 'iptables'))

# Linux takes what is for any of its addresses from everywhere: a neighbour of the machine could
# reach these through the machine's own network.
_FILTER = """\
table inet {table} {{
    chain prerouting {{
        type filter hook prerouting priority raw;
        ip daddr {{ {networks} }} iifname != {{ "lo", {devices} }} drop
    }}
}}
"""


class Fabric:
    """The networks of one cloud.

    :param settings: the cloud's
    """

    def __init__(self, settings: layout.Settings) -> None:
        self.namespace = f'specreds-{settings.port}'
        self.client_namespace = f'{self.namespace}-client'
        self.client_address = ipaddress.IPv4Interface(
            (neutron.GATEWAY, ipaddress.ip_network(neutron.SUBNET).prefixlen))
        self._table = f'specreds_{settings.port}'
        # At most 15 characters, as for every network device.
        self._legs = {
            f'sr{settings.port}-{name[0]}': (name, ipaddress.IPv4Interface(
                (network[1], network.prefixlen)))
            for name, network in ((hosts_layout.CONTROL, settings.control),
                                  (hosts_layout.STORAGE, settings.storage))}

    def up(self) -> None:
        """Make the networks unless they are there.

        :raises CloudError: the machine does not allow it
        """
        if self._complete():
            return
        if os.geteuid() != 0:
            raise commands.CloudError('compute hosts need namespaces, which only root can make: '
                                      'run this as root, or have a cloud with --hosts 0')
        self.down()
        _ip('netns', 'add', self.namespace)
        for path in _FILTERED:
            if path.exists():
                commands.run(self.argv('sysctl', '-q', '-w', f'net.bridge.{path.name}=0'))
        for name in hosts_layout.NETWORKS:
            self._inside('link', 'add', name, 'type', 'bridge')
            self._inside('link', 'set', name, 'addrgenmode', 'none', 'up')
        _ip('netns', 'add', self.client_namespace)
        self._attach(hosts_layout.TENANT, 'client', 'fabric', self.client_namespace)
        client = ['-n', self.client_namespace]
        _ip(*client, 'link', 'set', 'lo', 'up')
        # Frames from here go into user space, where nobody completes them.
        commands.run(self.client_argv('ethtool', '-K', 'fabric', 'tx', 'off', 'gso', 'off',
                                      'tso', 'off', 'sg', 'off'))
        _ip(*client, 'address', 'add', str(self.client_address), 'dev', 'fabric')
        _ip(*client, 'link', 'set', 'fabric', 'up')
        self._protect()
        for device, (name, address) in self._legs.items():
            self._attach(name, f'{name}-leg', device, str(os.getpid()))
            _ip('link', 'set', device, 'addrgenmode', 'none', 'up')
            # Its address comes last: it says that all is done.
            _ip('address', 'add', str(address), 'dev', device)

    def down(self) -> None:
        """Remove the networks, whatever there is of them."""
        for device in self._legs:
            _try('ip', 'link', 'delete', device)
        for namespace in (self.client_namespace, self.namespace):
            _try('ip', 'netns', 'delete', namespace)
        _try('nft', 'delete', 'table', 'inet', self._table)

    def attach(self, host: str, pid: int, ethernet: Mapping[str, str]) -> None:
        """Connect a host with all networks; its devices are called as these are.

        :param pid: a process of it
        :param ethernet: the addresses of its devices
        :raises CloudError: the networks, or the process, are not there
        """
        self.detach(host)
        for name in hosts_layout.NETWORKS:
            self._attach(name, f'{host}-{name}', name, str(pid), 'address', ethernet[name])

    def detach(self, host: str) -> None:
        """Forget a host that is no more; the kernel would do so in its own time."""
        for name in hosts_layout.NETWORKS:
            _try('ip', '-n', self.namespace, 'link', 'delete', f'{host}-{name}')

    def cut(self, host: str, networks: Iterable[str]) -> None:
        """Pull a host's cables out."""
        self._set(host, networks, 'down')

    def heal(self, host: str, networks: Iterable[str]) -> None:
        """Put a host's cables in again."""
        self._set(host, networks, 'up')

    def cuts(self, host: str) -> list[str]:
        """The networks that a host is cut off from."""
        links = self._links()
        return [name for name in hosts_layout.NETWORKS
                if 'UP' not in links.get(f'{host}-{name}', {'flags': ['UP']})['flags']]

    def argv(self, *argv: str) -> list[str]:
        """A command in the namespace where the bridges are."""
        return ['ip', 'netns', 'exec', self.namespace, *argv]

    def client_argv(self, *argv: str) -> list[str]:
        """A command in the client's namespace."""
        return ['ip', 'netns', 'exec', self.client_namespace, *argv]

    def _set(self, host: str, networks: Iterable[str], state: str) -> None:
        for name in networks:
            self._inside('link', 'set', f'{host}-{name}', state)

    def _attach(self, bridge: str, port: str, device: str, namespace: str, *more: str) -> None:
        """Make a cable from a bridge to a device in a namespace, given by name or process.

        :param more: what else there is to say about the device
        """
        self._inside('link', 'add', port, 'type', 'veth', 'peer', 'name', device,
                     'netns', namespace, *more)
        self._inside('link', 'set', port, 'master', bridge, 'addrgenmode', 'none', 'up')

    def _inside(self, *words: str) -> str:
        return _ip('-n', self.namespace, *words)

    def _links(self) -> dict[str, dict[str, Any]]:
        return {link['ifname']: link for link in json.loads(self._inside('-j', 'link', 'show'))}

    def _complete(self) -> bool:
        last = list(self._legs)[-1]
        answer = subprocess.run(['ip', '-j', 'address', 'show', 'dev', last], check=False,
                                capture_output=True, stdin=subprocess.DEVNULL)
        return answer.returncode == 0 and any(
            link.get('addr_info') for link in json.loads(answer.stdout))

    def _protect(self) -> None:
        table = _FILTER.format(
            table=self._table,
            networks=', '.join(str(address.network) for _, address in self._legs.values()),
            devices=', '.join(f'"{device}"' for device in self._legs))
        done = subprocess.run(['nft', '-f', '-'], input=table, text=True, check=False,
                              capture_output=True)
        if done.returncode:
            raise commands.CloudError("the packet filter that keeps others out of the cloud's "
                                      f'networks could not be set: {done.stderr.strip()}')


def _ip(*words: str) -> str:
    return commands.run(['ip', *words])


def _try(*argv: str) -> None:
    """Remove something that may not be there."""
    subprocess.run(argv, check=False, capture_output=True, stdin=subprocess.DEVNULL)
