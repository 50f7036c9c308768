# SPDX-License-Identifier: Apache-2.0
"""The paths of a cloud's files, and its settings."""

from collections.abc import Iterable
import dataclasses
import ipaddress
import json
import pathlib
import re
import sys
from typing import Any
import uuid

from cloud import commands
from cloud import directory
from cloud import layout as ceph_layout
from cloud.openstack import ports

LOOPBACK = '127.0.0.1'
# For networks that are of one machine only (RFC 2544), a piece for each cloud.
_NETWORK = ipaddress.IPv4Network('198.18.0.0/15')
_PIECE_PREFIX = 25
_PIECE = 2**(32 - _PIECE_PREFIX)
REGION = 'RegionOne'
DEFAULT_PORT = 17600
# Ports from the base on that OpenStack uses; ports of its Ceph come right after them.
PORTS = 100
MAX_BACKENDS = 5
DEFAULT_HOSTS = 3
MAX_HOSTS = 8
DEFAULT_ENGINES = 1
MAX_ENGINES = 4
MAX_CELLS = 2
# Name of the second cell of Nova, and of its virtual host at the broker.
SECOND_CELL = 'cell2'
SECOND_DATABASE = f'nova_{SECOND_CELL}'
# The longest path that is made below the data directory leads to a socket of Ceph.
MAX_PATH = ceph_layout.MAX_PATH - len('/ceph')
# The programs of the virtual environment that this runs in.
BIN = pathlib.Path(sys.executable).parent
SHARE = BIN.parent / 'etc'

_NAME = re.compile(r'[A-Za-z][A-Za-z0-9_-]{0,30}')


@dataclasses.dataclass(frozen=True)
class Backend:
    """A back end of Cinder, which has a volume type of the same name.

    :param pool: of RBD
    :param user: of Ceph, without `client.`
    :param conf: path of the configuration file that names cluster and keyring
    :param services: number of volume services; several are a cluster
    """

    name: str
    pool: str
    user: str
    conf: str
    services: int = 1

    @property
    def instances(self) -> list[str]:
        """The names of its volume services, numbered from 2 on."""
        return [self.name, *(f'{self.name}-{number}' for number in range(2, self.services + 1))]

    @classmethod
    def parse(cls, text: str) -> 'Backend':
        """:param text: NAME=POOL,USER,CONF

        :raises CloudError: it is not of that form
        """
        name, _, rest = text.partition('=')
        words = rest.split(',', 2)
        if len(words) != 3 or not all(words):
            raise commands.CloudError(f'back end {text}: write NAME=POOL,USER,CONF')
        return cls(name, words[0], words[1], str(pathlib.Path(words[2]).absolute()))

    def secret(self, settings: 'Settings') -> str:
        """Under which UUID a hypervisor knows the key of the back end's Ceph user."""
        return str(uuid.uuid5(uuid.UUID(settings.secret_uuid), self.name))


FIREWALLS = ('openvswitch', 'iptables_hybrid')
OVS, DVR, OVN = NETWORKS = ('ovs', 'dvr', 'ovn')
FILES, RBD = DISKS = ('files', 'rbd')
# Of Nova's `disk_cachemodes`, without the mode that loses what guests have flushed.
_CACHEMODES = re.compile(r'(^|,)(file|block|network)=(none|writethrough|writeback|directsync)'
                         r'(?=,|$)')


@dataclasses.dataclass(frozen=True)
class Settings(ports.Ports):
    """The choices for a cloud.

    `port`, `backends`, `hosts`, `cells`, `firewall`, `network`, `disks`, `cachemodes`,
    `dedicated_cpus` and `secret_uuid` are made once.

    :param backends: number of back ends on the cloud's own Ceph
    :param hosts: number of simulated compute hosts; with none, there is only block storage
    :param cells: number of Nova's cells; with two, the last host is in the first one, alone
    :param extra_backends: back ends elsewhere
    :param clustered: one more back end on the cloud's own Ceph, with two volume services
    :param plain: Cinder and Nova without the plug-in
    :param engines: number of processes of specreds-engine, where there are hosts with the plug-in
    :param firewall: the firewall driver of Neutron's agents on the hosts
    :param network: what connects servers: Neutron's agents of Open vSwitch, those with distributed
        routers and networks on VXLAN with l2population, or OVN
    :param disks: where Nova keeps disks that are no volumes: in files, or in the first Ceph
    :param cachemodes: Nova's `disk_cachemodes` on the hosts; empty for Nova's default
    :param dedicated_cpus: whether all processors but one are for servers with pinned CPUs
    :param secret_uuid: from which the UUIDs of the back ends' keys are made
    """

    port: int = DEFAULT_PORT
    backends: int = 2
    hosts: int = 0
    cells: int = 1
    extra_backends: tuple[Backend, ...] = ()
    clustered: bool = False
    plain: bool = False
    engines: int = 0
    firewall: str = FIREWALLS[0]
    network: str = OVS
    disks: str = FILES
    cachemodes: str = ''
    dedicated_cpus: bool = False
    secret_uuid: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))

    def check(self, own: Iterable[Backend]) -> None:
        """:param own: the back ends on the cloud's own Ceph

        :raises CloudError: a value is out of its range
        """
        last = 65536 - PORTS - ceph_layout.PORTS
        if not 1024 <= self.port <= last:
            raise commands.CloudError(f'port {self.port}: choose 1024 to {last}')
        if not 1 <= self.backends <= MAX_BACKENDS:
            raise commands.CloudError(f'{self.backends} back ends: choose 1 to {MAX_BACKENDS}')
        if not 0 <= self.hosts <= MAX_HOSTS:
            raise commands.CloudError(f'{self.hosts} hosts: choose 0 to {MAX_HOSTS}')
        if not 0 <= self.engines <= MAX_ENGINES:
            raise commands.CloudError(f'{self.engines} engines: choose 0 to {MAX_ENGINES}')
        if not 1 <= self.cells <= MAX_CELLS:
            raise commands.CloudError(f'{self.cells} cells: choose 1 to {MAX_CELLS}')
        if self.cells > max(1, self.hosts):
            raise commands.CloudError(f'{self.cells} cells: there are {self.hosts} hosts')
        if self.firewall not in FIREWALLS:
            raise commands.CloudError(
                f'firewall {self.firewall}: choose {" or ".join(FIREWALLS)}')
        if self.network not in NETWORKS:
            raise commands.CloudError(f'network {self.network}: choose {" or ".join(NETWORKS)}')
        if self.disks not in DISKS:
            raise commands.CloudError(f'disks {self.disks}: choose {" or ".join(DISKS)}')
        if _CACHEMODES.sub('', self.cachemodes):
            raise commands.CloudError(f'cache modes {self.cachemodes}: write, for example, '
                                      'network=writeback')
        if self.ovn and self.firewall != FIREWALLS[0]:
            raise commands.CloudError(f'firewall {self.firewall}: OVN has its own')
        names = [name for backend in (*own, *self.extra_backends) for name in backend.instances]
        for name in names:
            if not _NAME.fullmatch(name):
                raise commands.CloudError(f'back end {name!r}: use letters, digits, - and _')
            if names.count(name) > 1:
                raise commands.CloudError(f'there are two back ends with the name {name}')

    @property
    def dvr(self) -> bool:
        """Whether each host has its part of distributed routers."""
        return self.network == DVR

    @property
    def ovn(self) -> bool:
        """Whether OVN connects servers."""
        return self.network == OVN

    @property
    def tunnels(self) -> bool:
        """Whether hosts have tunnels to each other."""
        return self.network in (DVR, OVN)

    @property
    def host_names(self) -> list[str]:
        """What the compute hosts are called."""
        return [f'cn{number}' for number in range(1, self.hosts + 1)]

    def in_second_cell(self, host: str) -> bool:
        """Return whether a compute host is in the second cell."""
        return self.cells > 1 and host != self.host_names[-1]

    def nova_database(self, host: str) -> str:
        """Return the name of the database of a compute host's cell."""
        return SECOND_DATABASE if self.in_second_cell(host) else 'nova'

    @property
    def engine_numbers(self) -> range:
        """What the engines are numbered by; empty where nobody recovers servers."""
        return range(1, 1 + (self.engines if self.hosts and not self.plain else 0))

    @property
    def control(self) -> ipaddress.IPv4Network:
        """The network of the APIs, the database and the message broker."""
        return self._piece(0)

    @property
    def storage(self) -> ipaddress.IPv4Network:
        """The network of Ceph."""
        return self._piece(1)

    def _piece(self, number: int) -> ipaddress.IPv4Network:
        """One of the cloud's two pieces: clouds that share no port share none of them."""
        apart = PORTS + ceph_layout.PORTS
        first = int(_NETWORK.network_address) + (self.port // apart * 2 + number) * _PIECE
        return ipaddress.IPv4Network((first, _PIECE_PREFIX))

    @property
    def host(self) -> str:
        """The address on which the services listen."""
        return str(self.control[1]) if self.hosts else LOOPBACK

    @property
    def storage_host(self) -> str:
        """The address on which Ceph listens."""
        return str(self.storage[1]) if self.hosts else LOOPBACK

    @property
    def ceph_port(self) -> int:
        """First port of Ceph."""
        return self.port + PORTS

    @property
    def ports(self) -> list[int]:
        """Every port that is listened on, except Ceph's."""
        compute = [self.placement_port, self.nova_port, self.glance_port, self.neutron_port]
        return [self.keystone_port, self.cinder_port, *(compute if self.hosts else []),
                self.database_port, self.broker_port, self.erlang_port, self.epmd_port,
                *([self.northbound_port, self.southbound_port]
                  if self.hosts and self.ovn else []),
                *([self.engine_port, self.masakari_port,
                   *map(self.metrics_port, self.engine_numbers)]
                  if self.engine_numbers else [])]

    def url(self, port: int, path: str = '') -> str:
        """Where an API is."""
        return f'http://{self.host}:{port}{path}'

    @property
    def auth_url(self) -> str:
        """Where to authenticate."""
        return self.url(self.keystone_port, '/v3')

    @property
    def volume_url(self) -> str:
        """Where Cinder's API is."""
        return self.url(self.cinder_port, '/v3')


class Layout:
    """The files of one cloud."""

    def __init__(self, root: pathlib.Path) -> None:
        """:raises CloudError: the path is too long for the sockets in it"""
        self.root = directory.short(root, MAX_PATH)
        self.settings = self.root / 'cloud.json'
        self.passwords = self.root / 'passwords.json'
        self.lock = self.root / 'lock'
        self.etc = self.root / 'etc'
        self.run = self.root / 'run'
        self.log = self.root / 'log'
        self.state = self.root / 'state'
        self.ceph = self.root / 'ceph'
        self.database = self.root / 'mariadb'
        self.broker = self.root / 'rabbitmq'
        self.cinder_conf = self.etc / 'cinder' / 'cinder.conf'
        self.keystone_conf = self.etc / 'keystone' / 'keystone.conf'
        self.placement_conf = self.etc / 'placement' / 'placement.conf'
        self.nova_conf = self.etc / 'nova' / 'nova.conf'
        self.glance_conf = self.etc / 'glance' / 'glance-api.conf'
        self.neutron_conf = self.etc / 'neutron' / 'neutron.conf'
        self.engine_conf = self.etc / 'specreds' / 'specreds-engine.conf'
        self.voice_keys = self.etc / 'specreds' / 'voice.keys'
        self.masakari_conf = self.etc / 'masakari' / 'masakari.conf'
        self.hosts = self.root / 'hosts'
        self.database_conf = self.etc / 'mariadb.cnf'
        self.database_socket = self.run / 'mariadb.sock'
        self.broker_conf = self.etc / 'rabbitmq' / 'rabbitmq.conf'
        self.broker_definitions = self.etc / 'rabbitmq' / 'definitions.json'
        self.keyrings = self.etc / 'ceph'
        self.backups = self.state / 'cinder' / 'backups'
        self.clouds_yaml = self.root / 'clouds.yaml'

    def instance_conf(self, instance: str) -> pathlib.Path:
        """What one process of cinder-volume reads after `cinder.conf`."""
        return self.cinder_conf.with_name(f'{instance}.conf')

    @property
    def second_cell_conf(self) -> pathlib.Path:
        """What the conductor of the second cell reads after `nova.conf`."""
        return self.nova_conf.with_name(f'{SECOND_CELL}.conf')

    def one_engine_conf(self, number: int) -> pathlib.Path:
        """What one engine reads after what all of them do."""
        return self.engine_conf.with_name(f'engine-{number}.conf')

    def openrc(self, persona: str) -> pathlib.Path:
        """The shell variables of a persona."""
        return self.root / ('openrc' if persona == 'admin' else f'openrc-{persona}')

    def done(self, step: str) -> pathlib.Path:
        """The file that says with what version of a service a step of its set-up was done."""
        return self.state / 'done' / step

    def own_backends(self, count: int, clustered: bool = False) -> list[Backend]:
        """The back ends on the cloud's own Ceph: pools are numbered from 2 on, and share a user.

        :param clustered: add one that two volume services share, with a user of its own
        """
        made = [Backend(f'rbd{suffix}', f'volumes{suffix}', 'cinder', str(self.ceph / 'ceph.conf'))
                for suffix in ('', *map(str, range(2, count + 1)))]
        shared = Backend('rbd-shared', 'volumes-shared', 'cinder-shared',
                         str(self.ceph / 'cinder-shared.conf'), 2)
        return [*made, shared] if clustered else made

    def load(self) -> Settings | None:
        """The choices that were stored, None if there is no cloud in the directory.

        :raises CloudError: they cannot be read
        """
        try:
            stored: dict[str, Any] = json.loads(self.settings.read_text())
            extra = tuple(Backend(**backend) for backend in stored.pop('extra_backends'))
            return Settings(**stored, extra_backends=extra)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as exc:
            raise commands.CloudError(f'{self.settings} cannot be read ({exc}); '
                                      'remove the data directory by hand') from exc

    def save(self, settings: Settings) -> None:
        """Save the settings."""
        self.settings.write_text(json.dumps(dataclasses.asdict(settings), indent=1) + '\n')
